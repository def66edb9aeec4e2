//! Playing one transcript.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::{Value, json};
use sluicegate_dialect::{
    Call, Destination, Dialect, Endpoint, Fault, Sent, StreamEvent, openai_chat::restream, registry,
};
use sluicegate_model::{Profile, Usage};

use crate::amazon;

/// One folder.
pub(crate) struct Transcript {
    pub(crate) name: String,
    folder: PathBuf,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) call: Call,
    model: String,
    status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) answer: Option<Bytes>,
    pub(crate) stream: Option<Bytes>,
}

/// What a stream came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) caller: String,
    pub(crate) facts: Value,
}

impl Transcript {
    pub(crate) fn read(folder: &Path) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let name = folder.strip_prefix(&root).unwrap().display().to_string();
        let mut parts = name.split('/');
        let (dialect, rest) = (parts.next().unwrap(), parts.collect::<Vec<_>>());
        let variant = if rest.len() > 1 { rest[0] } else { "" };
        let dialect =
            registry::find(dialect, variant).unwrap_or_else(|| panic!("{name}: no such dialect"));
        let file = |name: &str| std::fs::read(folder.join(name)).ok();
        let case =
            file("case.json").map_or(json!({}), |text| serde_json::from_slice(&text).unwrap());
        let endpoint = match case["endpoint"].as_str().unwrap_or("chat") {
            "chat" => Endpoint::Chat,
            "completions" => Endpoint::Completions,
            "embeddings" => Endpoint::Embeddings,
            other => panic!("{name}: endpoint {other}"),
        };
        let call = Call::parse(endpoint, file("call.json").unwrap().into()).unwrap();
        let mut headers = HeaderMap::new();
        for (header, value) in case["headers"].as_object().into_iter().flatten() {
            let header = HeaderName::try_from(header).unwrap();
            headers.insert(header, value.as_str().unwrap().parse().unwrap());
        }
        let encoded = file("stream.b64").map(|text| {
            let text: Vec<u8> =
                text.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            STANDARD.decode(text).unwrap()
        });
        let amazon =
            file("stream.aws").map(|text| amazon::encoded(std::str::from_utf8(&text).unwrap()));
        Self {
            dialect,
            model: case["model"].as_str().unwrap_or(&call.model).to_owned(),
            call,
            status: case["status"].as_u64().map_or(200, |status| status.try_into().unwrap()),
            headers,
            answer: file("answer.json").map(Bytes::from),
            stream: file("stream.sse").or(encoded).or(amazon).map(Bytes::from),
            folder: folder.to_owned(),
            name,
        }
    }

    /// Plays it and returns what differs from what is written.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let to = Destination { model: &self.model, profile: &Profile::default() };
        let sent = match self.dialect.request(&self.call, &to) {
            Ok(sent) => sent,
            Err(unfit) => {
                let refused = json!({ "refused": unfit.code, "param": unfit.param, "message": unfit.message });
                self.compare("sent.json", &pretty(&refused), &mut faults);
                return faults;
            }
        };
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        let headers: Value = sent
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let shown =
            json!({ "path": sent.path, "headers": headers, "body": body, "dropped": sent.dropped });
        self.compare("sent.json", &pretty(&shown), &mut faults);
        if let Some(answer) = &self.answer {
            let (caller, facts) = self.whole(sent.sent, answer);
            if let Some(caller) = caller {
                let file = if self.call.stream { "caller.sse" } else { "caller.json" };
                self.compare(file, &caller, &mut faults);
            }
            self.compare("facts.json", &pretty(&facts), &mut faults);
        }
        if self.stream.is_some() {
            let course = self.course(&[]);
            self.compare("caller.sse", &course.caller, &mut faults);
            self.compare("facts.json", &pretty(&course.facts), &mut faults);
        }
        faults
    }

    fn whole(&self, sent: Sent, answer: &Bytes) -> (Option<String>, Value) {
        let status = StatusCode::from_u16(self.status).unwrap();
        if !status.is_success() {
            return (None, fault_facts(&self.dialect.refusal(status, &self.headers, answer)));
        }
        match self.dialect.answer(&self.call, &self.headers, answer) {
            Err(fault) => (None, fault_facts(&fault)),
            Ok(answer) => {
                let facts = json!({
                    "usage": usage(answer.usage), "finish_reason": answer.finish_reason,
                    "output_chars": answer.output_chars,
                });
                let body = if self.call.stream {
                    let events =
                        restream::events(self.call.endpoint, &answer.body, !sent.hide_usage);
                    events.unwrap().concat()
                } else {
                    answer.body.to_vec()
                };
                (Some(normal(&String::from_utf8(body).unwrap())), facts)
            }
        }
    }

    /// Reads the stream, cut before each of these bytes.
    pub(crate) fn course(&self, cuts: &[usize]) -> Course {
        let to = Destination { model: &self.model, profile: &Profile::default() };
        let sent = self.dialect.request(&self.call, &to).unwrap().sent;
        let mut reader = self.dialect.stream(&self.call, &sent, &self.headers);
        let mut framer = self.dialect.framing().framer();
        let stream = self.stream.clone().unwrap();
        let mut caller = String::new();
        let mut end = None;
        let mut take = |event: StreamEvent, end: &mut Option<Value>| match event {
            _ if end.is_some() => {}
            StreamEvent::Preamble(bytes) | StreamEvent::Content(bytes) => {
                caller.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            StreamEvent::Hidden => {}
            StreamEvent::Done => *end = Some(json!("done")),
            StreamEvent::Failed(fault) => *end = Some(fault_facts(&fault)),
        };
        let mut start = 0;
        'all: for cut in cuts.iter().copied().chain([stream.len()]) {
            framer.push(stream.slice(start..cut));
            start = cut;
            loop {
                match framer.next_frame() {
                    Ok(Some(frame)) => take(reader.read(&frame), &mut end),
                    Ok(None) => break,
                    Err(error) => {
                        end = Some(json!(error.to_string()));
                        break 'all;
                    }
                }
            }
        }
        if end.is_none()
            && let Some(frame) = framer.finish()
        {
            take(reader.read(&frame), &mut end);
        }
        let failed = end.as_ref().is_some_and(|end| end != "done");
        if !failed && reader.complete() {
            caller.push_str(
                &reader
                    .tail()
                    .map_or(String::new(), |bytes| String::from_utf8(bytes.to_vec()).unwrap()),
            );
        }
        let facts = json!({
            "end": end.unwrap_or(json!("closed")),
            "complete": reader.complete(), "whole": reader.whole(), "usage": usage(reader.usage()),
            "finish_reason": reader.finish_reason(), "output_chars": reader.output_chars(),
        });
        Course { caller: normal(&caller), facts }
    }

    fn compare(&self, file: &str, seen: &str, faults: &mut Vec<String>) {
        let path = self.folder.join(file);
        if std::env::var("SLUICEGATE_BLESS").is_ok_and(|set| !set.is_empty()) {
            std::fs::write(&path, seen).unwrap();
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != seen {
            faults.push(format!("{}/{file}\nexpected: {expected}\nseen:     {seen}", self.name));
        }
    }
}

fn usage(usage: Option<Usage>) -> Value {
    usage.map_or(Value::Null, |usage| {
        json!({ "input": usage.input, "output": usage.output, "cached": usage.cached, "reasoning": usage.reasoning })
    })
}

fn fault_facts(fault: &Fault) -> Value {
    json!({
        "fault": fault.outcome.name(), "level": format!("{:?}", fault.level), "code": fault.code,
        "message": fault.message, "wait_ms": fault.wait.map(|wait| wait.as_millis() as u64),
    })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

/// The text with ids and times that are made on the way taken out.
fn normal(text: &str) -> String {
    let text = mask(text, "\"id\":\"chatcmpl-", 32, |byte| byte.is_ascii_hexdigit());
    let text = mask(&text, "\"id\":\"call_", 24, |byte| byte.is_ascii_hexdigit());
    let now = jiff::Timestamp::now().as_second().to_string();
    // Times of the last quarter of an hour were made by this run.
    mask(&text, "\"created\":", now.len(), |byte| byte.is_ascii_digit())
}

fn mask(text: &str, before: &str, length: usize, is: impl Fn(u8) -> bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(before) {
        let (head, tail) = rest.split_at(at + before.len());
        out.push_str(head);
        let run = tail.bytes().take_while(|byte| is(*byte)).count();
        let (run, after) = tail.split_at(run);
        let made = run.len() == length && (before != "\"created\":" || is_recent(run));
        out.push_str(if made { "0" } else { run });
        rest = after;
    }
    out + rest
}

fn is_recent(text: &str) -> bool {
    let now = jiff::Timestamp::now().as_second();
    text.parse::<i64>().is_ok_and(|then| (now - then).abs() < 900)
}
