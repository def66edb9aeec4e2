//! How the table writes down what an upstream does.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};
use sluicegate_testkit::coding::Coding;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Call, Step};

use crate::generate::ReplyText;

/// The answers of a cell's upstream. In JSON: a list of lines; or an object from names of keys or
/// providers to such lists; or `by_call` with one list for each call in turn, the last for all others.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum Script {
    Always(Vec<Line>),
    ByName(BTreeMap<String, Vec<Line>>),
    ByCall(Vec<Vec<Line>>),
}

/// One thing the upstream does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// Status and headers; see [`Step::Head`].
    Head(u16, Map<String, Value>),
    /// The head of a JSON reply with status 429 whose `retry-after` is a date: its form, and so many
    /// seconds from now.
    LimitedUntil(DateForm, i64),
    /// The head of an event stream.
    EventStream,
    /// The head of a JSON reply.
    Json(u16),
    Raw(String),
    Send(String),
    /// Bytes in hexadecimal.
    Hex(String),
    /// Text and the pause after each byte in milliseconds.
    Bytewise(String, u64),
    /// The body of a whole JSON answer with that text and usage 7/2.
    Completion(String),
    /// Such a body in a content coding.
    CodedCompletion(Coding, String),
    /// The events of a whole stream with that text, in one write.
    StreamText(String),
    /// The same in a content coding and so many pieces, each coded and written on its own.
    CodedStream(Coding, String, usize),
    /// A text too long for the table.
    Generated(ReplyText),
    GzipIfAccepted,
    SleepMs(u64),
    End,
    Fin,
    Rst,
    /// An event with that delta, again and again; `joined` of them in one write, 0 meaning 1.
    ChunkEvery {
        #[serde(default)]
        joined: usize,
        times: usize,
        gap_ms: u64,
        delta: Value,
    },
    /// An event with text.
    Delta(String),
    /// An event with that delta.
    Chunk(Value),
    /// An event with that finish reason.
    Finish(String),
    /// The event with usage 7/2.
    Usage,
    /// The end marker.
    Done,
    /// What ends every good stream: finish reason `stop`, usage 7/2, the end marker.
    Stop,
    /// A whole JSON answer with that text and usage 7/2.
    Answer(String),
    /// A whole stream with that text and usage 7/2.
    Stream(String),
}

/// The three forms of a date in HTTP. (RFC 9110, 5.6.7)
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DateForm {
    ImfFixdate,
    Rfc850,
    Asctime,
}

impl DateForm {
    /// The date so many seconds from now.
    fn in_seconds(self, seconds: i64) -> String {
        let format = match self {
            Self::ImfFixdate => "%a, %d %b %Y %H:%M:%S GMT",
            Self::Rfc850 => "%A, %d-%b-%y %H:%M:%S GMT",
            Self::Asctime => "%a %b %e %H:%M:%S %Y",
        };
        (Timestamp::now() + SignedDuration::from_secs(seconds)).strftime(format).to_string()
    }
}

impl TryFrom<Value> for Script {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::Object(mut map) => match map.remove("by_call") {
                Some(calls) => serde_json::from_value(calls).map(Self::ByCall),
                None => serde_json::from_value(map.into()).map(Self::ByName),
            },
            lines => serde_json::from_value(lines).map(Self::Always),
        }
    }
}

impl Script {
    /// The answer to `call`, before which there were `earlier` calls in the same exchange.
    pub(crate) fn steps(&self, call: &Call, earlier: usize) -> Vec<Step> {
        let lines = match self {
            Self::Always(lines) => Some(lines),
            Self::ByCall(calls) => calls.get(earlier).or(calls.last()),
            Self::ByName(names) => names.get(key_of(call)).or_else(|| names.get(call.provider())),
        };
        match lines {
            Some(lines) => lines.iter().flat_map(Line::steps).collect(),
            None => Step::json(418, r#"{"error":{"message":"the script has no answer for this"}}"#),
        }
    }

    /// The text that the answer to every call sends as its body.
    pub(crate) fn sent(&self) -> Option<String> {
        let Self::Always(lines) = self else { return None };
        let sent = lines.iter().flat_map(Line::steps).filter_map(|step| match step {
            Step::Send(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        });
        Some(sent.collect())
    }
}

impl Line {
    fn steps(&self) -> Vec<Step> {
        let one = match self {
            Self::Head(status, headers) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let headers = headers.iter().map(|(name, value)| (name.clone(), text(value)));
                Step::Head(*status, headers.collect())
            }
            Self::LimitedUntil(form, seconds) => {
                let headers = [
                    ("content-type", "application/json"),
                    ("retry-after", &form.in_seconds(*seconds)),
                ];
                let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
                Step::Head(429, headers.into())
            }
            Self::EventStream => Step::event_stream(),
            Self::Json(status) => Step::head(*status, "application/json"),
            Self::Raw(text) => Step::Raw(text.clone().into()),
            Self::Send(text) => Step::send(text.clone()),
            Self::Hex(digits) => Step::send(hex::decode(digits).expect("hexadecimal digits")),
            Self::Bytewise(text, gap) => {
                Step::SendBytewise(text.clone().into(), Duration::from_millis(*gap))
            }
            Self::Completion(text) => Step::send(openai::completion(text)),
            Self::CodedCompletion(coding, text) => {
                Step::SendCoded(*coding, openai::completion(text).into())
            }
            Self::StreamText(text) => Step::send(openai::stream(text)),
            Self::CodedStream(coding, text, pieces) => {
                let text = openai::stream(text);
                let pieces = in_pieces(text.as_bytes(), *pieces);
                return pieces.map(|p| Step::SendCoded(*coding, p.to_vec().into())).collect();
            }
            Self::Generated(reply) => Step::send(reply.text()),
            Self::GzipIfAccepted => Step::GzipIfAccepted,
            Self::SleepMs(ms) => Step::sleep_ms(*ms),
            Self::End => Step::End,
            Self::Fin => Step::Fin,
            Self::Rst => Step::Rst,
            Self::ChunkEvery { joined, times, gap_ms, delta } => Step::Repeat {
                times: *times,
                gap: Duration::from_millis(*gap_ms),
                bytes: openai::chunk(delta, None).repeat((*joined).max(1)).into(),
            },
            Self::Delta(text) => Step::send(openai::delta(text)),
            Self::Chunk(delta) => Step::send(openai::chunk(delta, None)),
            Self::Finish(reason) => Step::send(openai::finish(reason)),
            Self::Usage => Step::send(openai::USAGE),
            Self::Done => Step::send(openai::DONE),
            Self::Stop => {
                return vec![
                    Step::send(openai::finish("stop")),
                    Step::send(openai::USAGE),
                    Step::send(openai::DONE),
                    Step::End,
                ];
            }
            Self::Answer(text) => return Step::completion(text),
            Self::Stream(text) => return Step::stream(text),
        };
        vec![one]
    }
}

/// So many pieces of about the same length.
pub(crate) fn in_pieces(bytes: &[u8], pieces: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(bytes.len().div_ceil(pieces.max(1)).max(1))
}

/// The name of the upstream key a call was made with, from the end of its secret.
pub(crate) fn key_of(call: &Call) -> &str {
    call.bearer().and_then(|secret| secret.rsplit('-').next()).unwrap_or_default()
}
