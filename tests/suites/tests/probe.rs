//! `sluicegate probe` against upstreams that are sound, and broken in different ways: what it says,
//! what it saves, and what callers get of that.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and says what it saw"
)]

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::{
    client::{Reply, Request, exchange},
    cluster::{CliOutput, Standalone, cli},
    openai::{DONE, USAGE, chunk, completion, delta, finish},
    record::{AccessRecord, record_of},
    upstream::{AUTO, Call, Step, Upstream},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    WrongKey,
    UnknownModel,
    Oversized,
    /// A tool turn with `content: null`.
    NullContent,
    Tool {
        stream: bool,
    },
    Words {
        stream: bool,
    },
}

fn asked(call: &Call) -> Asked {
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    let stream = body["stream"] == true;
    if call.bearer() != Some(&key(call.provider())) {
        Asked::WrongKey
    } else if body["model"] != "m1" {
        Asked::UnknownModel
    } else if call.body.len() > 1 << 20 {
        Asked::Oversized
    } else if body["messages"][1]["content"] == Value::Null
        && body["messages"][1]["tool_calls"].is_array()
    {
        Asked::NullContent
    } else if body["tools"].is_array() {
        Asked::Tool { stream }
    } else {
        Asked::Words { stream }
    }
}

fn key(provider: &str) -> String {
    format!("sk-upstream-{provider}")
}

fn wishes_usage(call: &Call) -> bool {
    let body: Value = serde_json::from_slice(&call.body).unwrap();
    body["stream_options"]["include_usage"] == true
}

fn error(status: u16, code: &str, message: &str) -> Vec<Step> {
    let body = json!({"error": {"message": message, "type": "t", "param": null, "code": code}});
    whole(status, &body.to_string(), &[])
}

fn whole(status: u16, body: &str, headers: &[(&str, &str)]) -> Vec<Step> {
    let mut all = vec![
        ("content-type".into(), "application/json".into()),
        ("content-length".into(), AUTO.into()),
    ];
    all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    vec![Step::Head(status, all), Step::send(body.to_owned()), Step::End]
}

fn stream(parts: &[String]) -> Vec<Step> {
    let sends = parts.iter().map(|part| Step::send(part.clone()));
    std::iter::once(Step::event_stream()).chain(sends).chain([Step::End]).collect()
}

fn tool_call() -> Value {
    json!({"id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}})
}

fn tool_answer() -> String {
    let mut body: Value = serde_json::from_str(&completion("")).unwrap();
    let message = &mut body["choices"][0]["message"];
    message["content"] = Value::Null;
    message["tool_calls"] = json!([tool_call()]);
    body["choices"][0]["finish_reason"] = "tool_calls".into();
    body.to_string()
}

/// Does everything as the format has it.
fn sound(call: &Call) -> Vec<Step> {
    let limits = [("x-ratelimit-remaining-requests", "99")];
    match asked(call) {
        Asked::WrongKey => error(401, "invalid_api_key", "Incorrect API key provided"),
        Asked::UnknownModel => error(404, "model_not_found", "The model does not exist"),
        Asked::Oversized => error(400, "context_length_exceeded", "maximum context length"),
        Asked::NullContent | Asked::Words { stream: false } => {
            whole(200, &completion("OK"), &limits)
        }
        Asked::Tool { stream: false } => whole(200, &tool_answer(), &limits),
        Asked::Tool { stream: true } => {
            let mut first = tool_call();
            first["index"] = 0.into();
            stream(&[
                chunk(&json!({"role": "assistant", "content": null, "tool_calls": [first]}), None),
                finish("tool_calls"),
                DONE.to_owned(),
            ])
        }
        Asked::Words { stream: true } => {
            let usage = if wishes_usage(call) { USAGE } else { "" };
            let role = chunk(&json!({"role": "assistant", "content": ""}), None);
            stream(&[role, delta("one"), finish("stop"), usage.to_owned() + DONE])
        }
    }
}

/// Never tells usage, and refuses to be asked for it, with words that hold the key.
fn mute(call: &Call) -> Vec<Step> {
    if String::from_utf8_lossy(&call.body).contains("stream_options") {
        let words = format!("{} may not send stream_options", key("mute"));
        return error(400, "unknown_parameter", &words);
    }
    match asked(call) {
        Asked::NullContent | Asked::Words { stream: false } => {
            let mut body: Value = serde_json::from_str(&completion("OK")).unwrap();
            body.as_object_mut().unwrap().remove("usage");
            whole(200, &body.to_string(), &[])
        }
        _ => sound(call),
    }
}

/// Gives no finish reasons in streams, tools without index, and HTML for a wrong key.
fn odd(call: &Call) -> Vec<Step> {
    match asked(call) {
        Asked::WrongKey => vec![
            Step::head(500, "text/html"),
            Step::send("<html><h1>Internal Server Error</h1></html>"),
            Step::End,
        ],
        Asked::Words { stream: true } => {
            stream(&[delta("one"), delta("two"), USAGE.to_owned(), DONE.to_owned()])
        }
        Asked::Tool { stream: true } => {
            let rest = json!({"id": "", "function": {"arguments": "{}"}});
            let parts = [tool_call(), rest].map(|call| chunk(&json!({"tool_calls": [call]}), None));
            stream(&[parts.concat(), DONE.to_owned()])
        }
        _ => sound(call),
    }
}

/// Closes each connection; its streams just end, and their lines end as on another system.
fn abrupt(call: &Call) -> Vec<Step> {
    match asked(call) {
        Asked::Words { stream: true } => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                        connection: close\r\n\r\n";
            let empty = "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n".to_owned();
            let text = [empty, delta("one"), delta("two"), USAGE.to_owned()].concat();
            vec![Step::Raw(head.into()), Step::send(text.replace('\n', "\r\n")), Step::Fin]
        }
        _ => {
            let mut steps = sound(call);
            if let Some(Step::Head(_, headers)) = steps.first_mut() {
                headers.push(("connection".into(), "close".into()));
            }
            steps.pop();
            steps.push(Step::Fin);
            steps
        }
    }
}

struct World {
    gateway: Standalone,
    upstream: Upstream,
    _folder: TempDir,
}

impl World {
    /// A gateway with a provider of this name, whose model is `m1` there and `main` here.
    async fn start(name: &str, script: fn(&Call) -> Vec<Step>) -> Self {
        let upstream = Upstream::start(script).await.unwrap();
        let folder = TempDir::with_prefix("sluicegate-probe-").unwrap();
        let mut base = config::base(upstream.address());
        base["providers"] = json!([{
            "name": name,
            "dialect": "openai-chat",
            "base_url": format!("http://{}/cell/{name}/v1", upstream.address()),
            "keys": [{"name": "k1", "secret": {"value": key(name)}}],
        }]);
        base["models"] = json!([{"name": "main", "targets": [{"provider": name, "model": "m1"}]}]);
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, base.to_string()).unwrap();
        let gateway = Standalone::start(&file, &[], folder.path()).await.unwrap();
        Self { gateway, upstream, _folder: folder }
    }

    async fn cli(&self, arguments: &[&str]) -> CliOutput {
        let output = cli(self.gateway.admin(), arguments).await.unwrap();
        assert!(!output.said().contains("sk-upstream"), "a key shows: {}", output.said());
        output
    }

    /// Probes and gives what was printed.
    async fn probe(&self, arguments: &[&str]) -> String {
        let output = self.cli(&[&["probe"], arguments].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", output.said());
        println!("{arguments:?}\n{}", output.stdout);
        output.stdout
    }

    /// A caller's stream, with the wish for usage, and its record.
    async fn stream(&self) -> (Reply, AccessRecord) {
        let body = json!({
            "model": "main", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hi"}],
        });
        let request = Request::post("/v1/chat/completions").bearer(KEY).body(body.to_string());
        let reply = exchange(self.gateway.traffic(), &request, &[], LIMIT).await;
        let id = reply.header("x-request-id").unwrap().to_owned();
        let record = record_of(self.gateway.stdout(), &id, LIMIT).await.unwrap();
        (reply, record)
    }
}

/// Each line of the table, in order: verdict, check and how what was seen begins.
#[track_caller]
fn lines(printed: &str, expected: &[(&str, &str, &str)]) {
    let rows = printed.lines().skip(2).take_while(|line| !line.is_empty());
    let rows: Vec<Vec<_>> = rows
        .map(|line| {
            let (verdict, rest) = line.split_once(' ').unwrap();
            let (check, seen) = rest.trim_start().split_once(' ').unwrap();
            vec![verdict, check, seen.trim_start()]
        })
        .collect();
    assert_eq!(rows.len(), expected.len(), "{printed}");
    for (row, (verdict, check, seen)) in rows.iter().zip(expected) {
        assert_eq!((row[0], row[1]), (*verdict, *check), "{printed}");
        assert!(row[2].starts_with(seen), "{}\n  does not begin with: {seen}", row[2]);
    }
}

#[track_caller]
fn holds(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "{printed}\n  lacks: {part}");
    }
}

const REACHED: (&str, &str, &str) = ("good", "reachable", "HTTP/1.1, connected in ");
const ANSWERED: (&str, &str, &str) = ("good", "answer", "finish reason 'stop'");
const USED: (&str, &str, &str) = ("good", "usage_in_answer", "7 tokens in, 2 out");
const FIRST_TOKEN: (&str, &str, &str) = ("good", "first_token", "after ");
const NULL: (&str, &str, &str) = ("good", "null_content", "a tool turn with content null is taken");
const TOOL: (&str, &str, &str) = ("good", "tool_call", "called, content null beside it");
const REFUSED_KEY: (&str, &str, &str) =
    ("good", "wrong_key", "401 with OpenAI's envelope, read as key_refused");
const NO_MODEL: (&str, &str, &str) =
    ("good", "unknown_model", "404 with OpenAI's envelope, read as model_missing");
const TOO_LONG: (&str, &str, &str) =
    ("good", "oversized_input", "400 with OpenAI's envelope, read as context_too_long");
const LIMITS: (&str, &str, &str) = ("good", "limit_headers", "x-ratelimit-remaining-requests");

#[tokio::test]
async fn a15_a_sound_upstream_has_nothing_to_make_up_for() {
    let world = World::start("sound", sound).await;
    let printed = world.probe(&["sound"]).await;
    assert!(printed.starts_with("provider/sound, model m1, key sound/k1\n"), "{printed}");
    lines(
        &printed,
        &[
            REACHED,
            ANSWERED,
            USED,
            ("good", "stream", "4 events as text/event-stream"),
            ("good", "first_chunk", "the role alone"),
            ("good", "stream_end", "finish reason 'stop', then done"),
            FIRST_TOKEN,
            (
                "good",
                "usage_in_stream",
                "7 tokens in, 2 out, when it is asked for, in a chunk of its own",
            ),
            NULL,
            TOOL,
            ("good", "tool_call_in_stream", "called in 1 fragment"),
            REFUSED_KEY,
            NO_MODEL,
            TOO_LONG,
            LIMITS,
            ("good", "kept_connections", ""),
        ],
    );
    holds(
        &printed,
        &["fill_usage: false\n", "stream_end: finish\n", "There is nothing to make up"],
    );
    assert!(!printed.contains("ask_usage") && !printed.contains("Worth knowing"), "{printed}");

    // Saving that changes nothing.
    let printed = world.probe(&["sound", "--save", "--no-oversized"]).await;
    holds(&printed, &["skipped  oversized_input", "The provider says so already"]);
    // One call at a time, and small ones but for one.
    let calls = world.upstream.calls(|_| true);
    assert_eq!(calls.len(), 9 + 8);
    for pair in calls.windows(2) {
        assert!(pair[0].answered_at.unwrap() <= pair[1].arrived_at, "{pair:?}");
    }
    assert_eq!(calls.iter().filter(|call| call.body.len() > 4096).count(), 1);

    let json = world.probe(&["sound", "--no-oversized", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["credential"], &json["model"]), (&"sound/k1".into(), &"m1".into()));
    assert_eq!(json["findings"].as_array().unwrap().len(), 16);
    assert_eq!(json["profile"], json!({"fill_usage": false, "stream_end": "finish"}));
}

#[tokio::test]
async fn a16_usage_that_is_never_told_is_filled_in_once_that_is_saved() {
    let world = World::start("mute", mute).await;
    // As it is, a caller that wants usage gets nothing at all.
    let (before, _) = world.stream().await;
    assert_eq!(before.status, Some(400), "{}", before.text());

    let printed = world.probe(&["mute", "--save", "--wait", "1.0"]).await;
    lines(
        &printed,
        &[
            REACHED,
            ANSWERED,
            ("bad", "usage_in_answer", "none"),
            ("good", "stream", "4 events as text/event-stream"),
            ("good", "first_chunk", "the role alone"),
            ("good", "stream_end", "finish reason 'stop', then done"),
            FIRST_TOKEN,
            (
                "bad",
                "usage_in_stream",
                "never comes; the wish is refused: 400, read as invalid_request: [redacted] may not",
            ),
            NULL,
            TOOL,
            ("good", "tool_call_in_stream", "called in 1 fragment"),
            REFUSED_KEY,
            NO_MODEL,
            TOO_LONG,
            LIMITS,
            ("good", "kept_connections", ""),
        ],
    );
    holds(
        &printed,
        &[
            "ask_usage: false\n",
            "fill_usage: true\n",
            "Worth knowing:\n  usage_in_answer: with fill_usage the gateway puts an estimate in",
            "ask_usage unset -> false, fill_usage false -> true.\n",
        ],
    );

    let (after, record) = world.stream().await;
    assert_eq!((after.status, after.dones()), (Some(200), 1), "{}", after.text());
    let usage = after.payloads().filter_map(|chunk| chunk.get("usage").cloned()).last().unwrap();
    assert_eq!(usage["estimated"], true, "{}", after.text());
    assert!(usage["completion_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(record.outcome, "success");
}

#[tokio::test]
async fn a15_done_without_a_reason_is_success_once_that_is_saved() {
    let world = World::start("odd", odd).await;
    assert_eq!(world.stream().await.1.outcome, "no_finish_reason");

    let printed = world.probe(&["odd", "--save", "--wait", "1.0"]).await;
    lines(
        &printed,
        &[
            REACHED,
            ANSWERED,
            USED,
            ("good", "stream", "4 events as text/event-stream"),
            ("good", "first_chunk", "a part of the answer"),
            ("bad", "stream_end", "[DONE] without a finish reason"),
            FIRST_TOKEN,
            ("good", "usage_in_stream", "7 tokens in, 2 out, by itself, in a chunk of its own"),
            NULL,
            TOOL,
            (
                "note",
                "tool_call_in_stream",
                "called in 2 fragments; without index, with an empty id",
            ),
            ("bad", "wrong_key", "500 with HTML, read as provider_error"),
            NO_MODEL,
            TOO_LONG,
            LIMITS,
            ("good", "kept_connections", ""),
        ],
    );
    holds(
        &printed,
        &[
            "stream_end: done\n",
            "  wrong_key: a key that was taken back is not noticed as such",
            "  tool_call_in_stream: the gateway puts right",
            "stream_end finish -> done.\n",
        ],
    );

    let (after, record) = world.stream().await;
    assert_eq!((after.status, after.dones()), (Some(200), 1), "{}", after.text());
    assert_eq!(after.content().as_deref(), Some("onetwo"));
    assert_eq!((record.outcome.as_str(), record.finish_reason), ("success", None));
}

#[tokio::test]
async fn a15_a_body_that_just_ends_is_success_once_that_is_saved() {
    let world = World::start("abrupt", abrupt).await;
    let (before, record) = world.stream().await;
    assert_eq!((before.dones(), before.errors().len()), (0, 1), "{}", before.text());
    assert_eq!(record.outcome, "stream_interrupted");

    let printed = world.probe(&["abrupt", "--save", "--wait", "1.0"]).await;
    lines(
        &printed,
        &[
            REACHED,
            ANSWERED,
            USED,
            ("good", "stream", "4 events as text/event-stream; charset=utf-8, lines end with CRLF"),
            ("note", "first_chunk", "no choices in it"),
            ("bad", "stream_end", "neither finish reason nor [DONE]"),
            FIRST_TOKEN,
            ("good", "usage_in_stream", "7 tokens in, 2 out, by itself, in a chunk of its own"),
            NULL,
            TOOL,
            ("good", "tool_call_in_stream", "called in 1 fragment"),
            REFUSED_KEY,
            NO_MODEL,
            TOO_LONG,
            LIMITS,
            ("note", "kept_connections", ""),
        ],
    );
    holds(&printed, &["answers close their connection\n", "stream_end finish -> close.\n"]);

    let (after, record) = world.stream().await;
    assert_eq!((after.dones(), after.errors().len()), (1, 0), "{}", after.text());
    assert_eq!(record.outcome, "success");
}

#[tokio::test]
async fn a15_what_cannot_be_probed_says_so() {
    let world = World::start("gone", |call| match asked(call) {
        Asked::WrongKey => sound(call),
        _ => error(503, "overloaded", "busy"),
    })
    .await;
    let output = world.cli(&["probe", "gone", "--save"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.said());
    holds(
        &output.said(),
        &["503, read as overloaded: busy", "no call was answered", "'gone' answered nothing"],
    );
    let output = world.cli(&["probe", "gnoe"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.said());
    holds(&output.said(), &["did you mean 'gone'?"]);
    let output = world.cli(&["probe", "gone", "--credential", "gone/k"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.said());
    holds(&output.said(), &["did you mean 'gone/k1'?"]);

    // Nobody listens there any more.
    drop(world.upstream);
    let output = cli(world.gateway.admin(), &["probe", "gone", "-o", "json"]).await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output.said());
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&json["profile"], &json["findings"][0]["verdict"]), (&Value::Null, &"bad".into()));
    holds(&output.stderr, &["'gone' could not be reached"]);
}
