//! Answers, whole and streamed.

use serde_json::{Value, json};

use super::frame::{event, exception};
use super::headers;
use crate::providers::answer::{Answer, Finish, Usage, fragments};
use crate::providers::rows::ErrorRow;
use crate::providers::scene::Scene;
use crate::providers::signature::sign;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

/// A whole answer.
pub(super) fn whole(call: &Call, answer: &Answer) -> Value {
    let mut content = Vec::new();
    let reasoning = answer.reasoning();
    if !reasoning.is_empty() {
        let signature = sign(&reasoning);
        content.push(json!({"reasoningContent": {
            "reasoningText": {"text": reasoning, "signature": signature},
        }}));
    }
    if !answer.text.is_empty() {
        content.push(json!({"text": answer.text()}));
    }
    for (n, made) in answer.calls.iter().enumerate() {
        content.push(json!({"toolUse": {
            "toolUseId": call_id(call, n), "name": made.name, "input": made.arguments,
        }}));
    }
    json!({
        "metrics": {"latencyMs": 300},
        "output": {"message": {"content": content, "role": "assistant"}},
        "stopReason": stop_reason(&answer.finish), "usage": told(answer.usage),
    })
}

/// A stream. Usage comes after the stop.
pub(super) fn stream(scene: &Scene, call: &Call, answer: &Answer) -> Vec<Step> {
    let mut blocks = Blocks::default();
    blocks.other("messageStart", json!({"role": "assistant"}));
    if !answer.reasoning.is_empty() {
        for piece in &answer.reasoning {
            blocks.content(json!({"reasoningContent": {"text": piece}}));
        }
        let signature = sign(&answer.reasoning());
        let delta = json!({"reasoningContent": {"signature": signature}});
        let index = blocks.index;
        blocks.other("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
        blocks.end();
    }
    if !answer.text.is_empty() {
        for piece in &answer.text {
            blocks.content(json!({"text": piece}));
        }
        blocks.end();
    }
    for (n, made) in answer.calls.iter().enumerate() {
        let start = json!({"toolUse": {"toolUseId": call_id(call, n), "name": made.name}});
        let index = blocks.index;
        blocks.other("contentBlockStart", json!({"contentBlockIndex": index, "start": start}));
        for piece in fragments(&made.text(), 8).iter().filter(|_| made.has_arguments()) {
            blocks.content(json!({"toolUse": {"input": piece}}));
        }
        blocks.end();
    }
    blocks.other("messageStop", json!({"stopReason": stop_reason(&answer.finish)}));
    blocks.other("metadata", json!({"usage": told(answer.usage), "metrics": {"latencyMs": 300}}));
    let head = Step::Head(200, headers(call, "application/vnd.amazon.eventstream"));
    blocks.events.steps(scene, head, answer.broken, |row| exception(&exception_type(row), row.body))
}

/// The blocks of content, numbered as they come.
#[derive(Default)]
struct Blocks {
    events: Events,
    index: usize,
}

impl Blocks {
    fn content(&mut self, delta: Value) {
        let payload = json!({"contentBlockIndex": self.index, "delta": delta});
        self.events.content(event("contentBlockDelta", &padded(payload)));
    }

    fn other(&mut self, kind: &str, payload: Value) {
        self.events.other(event(kind, &padded(payload)));
    }

    fn end(&mut self) {
        self.other("contentBlockStop", json!({"contentBlockIndex": self.index}));
        self.index += 1;
    }
}

/// Payloads are padded against guesses from their length.
fn padded(mut payload: Value) -> String {
    let length = 1 + payload.to_string().len() % 26;
    payload["p"] = json!(('a'..='z').take(length).collect::<String>());
    payload.to_string()
}

fn call_id(call: &Call, n: usize) -> String {
    format!("tooluse_{:06}{n}", call.number)
}

/// Prompt tokens are counted without those that the cache had.
fn told(usage: Usage) -> Value {
    json!({
        "inputTokens": usage.input - usage.cached, "outputTokens": usage.output,
        "totalTokens": usage.total(), "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": 0,
    })
}

fn stop_reason(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::Tools => "tool_use",
        Finish::Filter => "content_filtered",
        Finish::Word(word) => word,
    }
}

/// The class of an error as a stream names it: with a small first letter.
fn exception_type(row: &ErrorRow) -> String {
    let class = row.headers.iter().find(|(name, _)| *name == "x-amzn-errortype");
    let class = class.map_or(row.name, |(_, value)| value.split(':').next().unwrap_or(value));
    let mut letters = class.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
