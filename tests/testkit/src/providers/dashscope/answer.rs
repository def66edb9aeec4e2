//! Answers, whole and streamed.

use serde_json::{Value, json};

use super::request::Wish;
use super::{Service, request_id};
use crate::providers::answer::{Answer, Finish, Usage, fragments};
use crate::providers::scene::Scene;
use crate::providers::stream::Events;
use crate::upstream::{Call, Step};

/// What an answer has so far.
#[derive(Default, Clone)]
struct Part {
    reasoning: String,
    text: String,
    calls: Vec<Value>,
}

/// A whole answer.
pub(super) fn whole(call: &Call, wish: &Wish, answer: &Answer) -> Value {
    let calls = (0..answer.calls.len()).map(|n| whole_call(call, answer, n)).collect();
    let part = Part { reasoning: answer.reasoning(), text: answer.text(), calls };
    frame(call, wish, &part, finish_word(&answer.finish), answer.usage)
}

/// A stream of events, each with what is new or with all so far.
pub(super) fn stream(scene: &Scene, call: &Call, wish: &Wish, answer: &Answer) -> Vec<Step> {
    let mut events = Events::default();
    let mut so_far = Part::default();
    let parts = parts(call, answer);
    let mut sent = 0_u64;
    for part in &parts {
        sent += 1;
        so_far.add(part);
        let told = if wish.incremental { part } else { &so_far };
        let usage = Usage { output: sent.min(answer.usage.output), ..answer.usage };
        events.content(event(sent, "result", 200, &frame(call, wish, told, "null", usage)));
    }
    let last = if wish.incremental { &Part::default() } else { &so_far };
    let last = frame(call, wish, last, finish_word(&answer.finish), answer.usage);
    events.other(event(sent + 1, "result", 200, &last));
    let head = Step::Head(
        200,
        vec![
            ("content-type".into(), "text/event-stream;charset=UTF-8".into()),
            ("x-request-id".into(), request_id(call)),
        ],
    );
    events.steps(scene, head, answer.broken, |row| {
        let body = serde_json::from_str(row.body).unwrap_or_default();
        event(sent + 1, "error", row.status, &body).into()
    })
}

fn event(id: u64, name: &str, status: u16, data: &Value) -> String {
    format!("id:{id}\nevent:{name}\n:HTTP_STATUS/{status}\ndata:{data}\n\n")
}

impl Part {
    fn add(&mut self, more: &Self) {
        self.reasoning.push_str(&more.reasoning);
        self.text.push_str(&more.text);
        for call in &more.calls {
            let index = &call["index"];
            match self.calls.iter_mut().find(|known| known["index"] == *index) {
                None => self.calls.push(call.clone()),
                Some(known) => {
                    let so_far = known["function"]["arguments"].as_str().unwrap_or_default();
                    let more = call["function"]["arguments"].as_str().unwrap_or_default();
                    known["function"]["arguments"] = json!(format!("{so_far}{more}"));
                }
            }
        }
    }
}

/// The pieces of an answer. Fragments of several calls alternate.
fn parts(call: &Call, answer: &Answer) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let reasoning = answer.reasoning.iter();
    parts.extend(reasoning.map(|piece| Part { reasoning: piece.clone(), ..Part::default() }));
    parts.extend(answer.text.iter().map(|piece| Part { text: piece.clone(), ..Part::default() }));
    let one = |call: Value| Part { calls: vec![call], ..Part::default() };
    for n in 0..answer.calls.len() {
        let mut opening = whole_call(call, answer, n);
        opening["function"]["arguments"] = json!("");
        parts.push(one(opening));
    }
    let pieces: Vec<_> = answer.calls.iter().map(|made| fragments(&made.text(), 8)).collect();
    for round in 0..pieces.iter().map(Vec::len).max().unwrap_or(0) {
        for (n, pieces) in pieces.iter().enumerate() {
            if let Some(piece) = pieces.get(round) {
                parts.push(one(json!({
                    "index": n, "id": "", "type": "function", "function": {"arguments": piece},
                })));
            }
        }
    }
    parts
}

fn whole_call(call: &Call, answer: &Answer, n: usize) -> Value {
    let made = &answer.calls[n];
    json!({
        "index": n, "id": format!("call_{}_{n}", call.number), "type": "function",
        "function": {"name": made.name, "arguments": made.text()},
    })
}

fn frame(call: &Call, wish: &Wish, part: &Part, finish: &str, usage: Usage) -> Value {
    let output = match wish.message {
        false => json!({"text": part.text, "finish_reason": finish}),
        true => json!({"choices": [{"message": message(wish, part), "finish_reason": finish}]}),
    };
    json!({"output": output, "usage": told(usage), "request_id": request_id(call)})
}

fn message(wish: &Wish, part: &Part) -> Value {
    let content = match (wish.service, part.text.as_str()) {
        (Service::Text, text) => json!(text),
        (Service::Multimodal, "") => json!([]),
        (Service::Multimodal, text) => json!([{"text": text}]),
    };
    let mut message = json!({
        "role": "assistant", "content": content, "reasoning_content": part.reasoning,
    });
    if !part.calls.is_empty() {
        message["tool_calls"] = Value::Array(part.calls.clone());
    }
    message
}

fn told(usage: Usage) -> Value {
    let mut told = json!({
        "input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    });
    if usage.reasoning > 0 {
        told["output_tokens_details"] = json!({"reasoning_tokens": usage.reasoning});
    }
    told
}

fn finish_word(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Tools => "tool_calls",
        Finish::Filter => "content_filter",
        Finish::Word(word) => word,
    }
}
