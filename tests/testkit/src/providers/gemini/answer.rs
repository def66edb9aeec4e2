//! Answers: each event of a stream is a whole answer with the parts that are new.

use bytes::Bytes;
use serde_json::{Value, json};

use super::request::Wish;
use super::signs;
use crate::providers::answer::{Answer, Finish, Usage};
use crate::providers::rows::ErrorRow;
use crate::providers::scene::Scene;
use crate::providers::signature::sign;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

/// A whole answer.
pub(super) fn whole(call: &Call, wish: &Wish, answer: &Answer) -> Value {
    let mut parts = Vec::new();
    if wish.shows && !answer.reasoning.is_empty() {
        parts.push(json!({"text": answer.reasoning(), "thought": true}));
    }
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text()}));
    }
    parts.extend(calls(call, wish, answer));
    response(call, wish, &parts, Some(answer), answer.usage)
}

/// A stream of events with CRLF.
pub(super) fn events(scene: &Scene, call: &Call, wish: &Wish, answer: &Answer) -> Vec<Step> {
    let mut events = Events::default();
    for (is_content, response) in responses(call, wish, answer) {
        let event = format!("data: {response}\r\n\r\n");
        match is_content {
            true => events.content(event),
            false => events.other(event),
        }
    }
    let bare = wish.ask.says("bare");
    events.steps(scene, Step::event_stream(), answer.broken, |row| error_event(row, bare))
}

/// A stream that is one JSON list.
pub(super) fn list(scene: &Scene, call: &Call, wish: &Wish, answer: &Answer) -> Vec<Step> {
    let mut events = Events::default();
    for (n, (is_content, response)) in responses(call, wish, answer).into_iter().enumerate() {
        let item = format!("{}{response}", if n == 0 { "[" } else { ",\r\n" });
        match is_content {
            true => events.content(item),
            false => events.other(item),
        }
    }
    events.other("\r\n]");
    let head = Step::head(200, "application/json; charset=UTF-8");
    events.steps(scene, head, answer.broken, |row| format!(",\r\n{}]", row.body).into())
}

/// An error as an event, or as it sometimes comes: several lines, none of them an event's.
fn error_event(row: &ErrorRow, bare: bool) -> Bytes {
    let pretty =
        serde_json::from_str::<Value>(row.body).and_then(|v| serde_json::to_string_pretty(&v));
    match (bare, pretty) {
        (true, Ok(pretty)) => format!("{pretty}\n").into(),
        _ => format!("data: {}\r\n\r\n", row.body).into(),
    }
}

/// The answers of a stream, and whether each has a part of the content. The last has the reason.
fn responses(call: &Call, wish: &Wish, answer: &Answer) -> Vec<(bool, Value)> {
    let thoughts = answer.reasoning.iter().filter(|_| wish.shows);
    let mut parts: Vec<Value> =
        thoughts.map(|piece| json!({"text": piece, "thought": true})).collect();
    parts.extend(answer.text.iter().map(|piece| json!({"text": piece})));
    parts.extend(calls(call, wish, answer));
    let mut responses = Vec::new();
    let reasoning = answer.usage.reasoning;
    for (n, part) in (1_u64..).zip(&parts) {
        let so_far = Usage { output: (reasoning + n).min(answer.usage.output), ..answer.usage };
        responses.push((true, response(call, wish, std::slice::from_ref(part), None, so_far)));
    }
    // The chunk that finishes is separate, and its only part is an empty text.
    let last = response(call, wish, &[json!({"text": ""})], Some(answer), answer.usage);
    responses.push((false, last));
    responses
}

fn calls(call: &Call, wish: &Wish, answer: &Answer) -> Vec<Value> {
    let signs = signs(&wish.ask.model);
    let part = |(n, made): (usize, &crate::providers::answer::ToolCall)| {
        let mut part = json!({"functionCall": {"name": made.name, "args": made.arguments}});
        if signs {
            part["functionCall"]["id"] = json!(format!("{:05}fc{n}", call.number));
        }
        // Of calls at once only the first is signed.
        if n == 0 && (signs || wish.ask.thinks) {
            part["thoughtSignature"] = json!(sign(&made.name));
        }
        part
    };
    answer.calls.iter().enumerate().map(part).collect()
}

fn response(
    call: &Call,
    wish: &Wish,
    parts: &[Value],
    finished: Option<&Answer>,
    usage: Usage,
) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(answer) = finished {
        candidate["finishReason"] = json!(finish_reason(&answer.finish));
        if answer.finish == Finish::Tools {
            candidate["finishMessage"] = json!("Model generated function call(s).");
        }
    }
    json!({
        "candidates": [candidate], "usageMetadata": told(usage),
        "modelVersion": wish.ask.model, "responseId": format!("r{}", call.number),
    })
}

/// Thoughts are counted apart from the answer.
fn told(usage: Usage) -> Value {
    let mut told = json!({
        "promptTokenCount": usage.input, "totalTokenCount": usage.total(),
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    });
    let answered = usage.output - usage.reasoning.min(usage.output);
    for (name, count) in [
        ("candidatesTokenCount", answered),
        ("thoughtsTokenCount", usage.reasoning),
        ("cachedContentTokenCount", usage.cached),
    ] {
        if count > 0 {
            told[name] = json!(count);
        }
    }
    told
}

fn finish_reason(finish: &Finish) -> &str {
    match finish {
        Finish::Stop | Finish::Tools => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filter => "SAFETY",
        Finish::Word(word) => word,
    }
}
