//! A whole answer.

use serde_json::{Value, json};

use crate::providers::answer::{Answer, Finish, Usage};
use crate::providers::ask::Ask;
use crate::providers::signature::sign;
use crate::upstream::Call;

pub(super) fn whole(call: &Call, ask: &Ask, answer: &Answer) -> Value {
    let mut content = Vec::new();
    let reasoning = answer.reasoning();
    if !reasoning.is_empty() {
        let signature = sign(&reasoning);
        content.push(json!({"type": "thinking", "thinking": reasoning, "signature": signature}));
    }
    let text = answer.text();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    for (n, made) in answer.calls.iter().enumerate() {
        content.push(json!({
            "type": "tool_use", "id": call_id(call, n), "name": made.name, "input": made.arguments,
        }));
    }
    let mut message = message(call, ask);
    message["content"] = Value::Array(content);
    message["stop_reason"] = json!(stop_reason(&answer.finish));
    if answer.finish == Finish::Filter {
        message["stop_details"] = json!({"type": "refusal", "category": "cyber"});
    }
    message["usage"] = input(answer.usage);
    message["usage"]["output_tokens"] = json!(answer.usage.output);
    message["usage"]["service_tier"] = json!("standard");
    message
}

/// The message before anything is in it.
pub(super) fn message(call: &Call, ask: &Ask) -> Value {
    json!({
        "id": format!("msg_{:08}", call.number), "type": "message", "role": "assistant",
        "model": ask.model, "content": [], "stop_reason": null, "stop_sequence": null,
    })
}

/// The counters of the prompt. What was read from the cache is counted apart.
pub(super) fn input(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
    })
}

pub(super) fn call_id(call: &Call, n: usize) -> String {
    format!("toolu_{:06}{n}", call.number)
}

pub(super) fn stop_reason(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::Tools => "tool_use",
        Finish::Filter => "refusal",
        Finish::Word(word) => word,
    }
}
