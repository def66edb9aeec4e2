//! A whole answer.

use serde_json::{Map, Value, json};

use super::variant::{Counts, Reasoning, Shape, UsageAt, Variant};
use super::{CREATED, padded_reply};
use crate::providers::Dialect;
use crate::providers::answer::{Answer, Finish, Usage};
use crate::providers::ask::Ask;
use crate::upstream::{Call, Step};

pub(super) fn whole(variant: &Variant, call: &Call, ask: &Ask, answer: &Answer) -> Vec<Step> {
    let shape = &variant.shape;
    let mut choice = json!({"index": 0, "message": message(variant, call, answer)});
    add(&mut choice, shape.choice);
    add(&mut choice, shape.last_choice);
    choice["finish_reason"] = json!(finish_word(shape, &answer.finish));
    let mut body = json!({
        "id": id(shape, call), "object": "chat.completion", "created": CREATED,
        "model": ask.model, "choices": [choice],
    });
    if shape.nameless {
        remove(&mut body, "id");
    }
    add(&mut body, shape.top);
    if shape.usage != UsageAt::Never {
        body["usage"] = usage(shape.counts, answer.usage);
    }
    if variant.dialect == Dialect::Azure {
        body["prompt_filter_results"] = json!([{"prompt_index": 0, "content_filter_results": {
            "hate": {"filtered": false, "severity": "safe"},
        }}]);
    }
    padded_reply(call, shape.padding, &body)
}

fn message(variant: &Variant, call: &Call, answer: &Answer) -> Value {
    let shape = &variant.shape;
    let content = match answer.text() {
        text if text.is_empty() && !answer.calls.is_empty() => Value::Null,
        text => json!(text),
    };
    let mut message = json!({"role": "assistant", "content": content});
    add(&mut message, shape.message);
    match shape.reasoning {
        Reasoning::Member(name) if !answer.reasoning.is_empty() => {
            message[name] = json!(answer.reasoning());
        }
        Reasoning::Parts if !answer.reasoning.is_empty() => {
            message["content"] = json!([
                thinking_part(&answer.reasoning()),
                {"type": "text", "text": answer.text()},
            ]);
        }
        Reasoning::Hidden | Reasoning::Member(_) | Reasoning::Parts => {}
    }
    let calls: Vec<Value> = answer
        .calls
        .iter()
        .enumerate()
        .map(|(n, made)| {
            json!({
                "id": call_id(variant, call, n), "type": "function",
                "function": {"name": made.name, "arguments": made.text()},
            })
        })
        .collect();
    if !calls.is_empty() || variant.dialect == Dialect::Vllm {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

/// Reasoning as a part of the content.
pub(super) fn thinking_part(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

/// The id of an answer.
pub(super) fn id(shape: &Shape, call: &Call) -> String {
    format!("{}{}", shape.id, call.number)
}

/// The id of a call of a tool.
pub(super) fn call_id(variant: &Variant, call: &Call, n: usize) -> String {
    match variant.rules.short_ids {
        true => format!("c{:06}x{n}", call.number),
        false => format!("call_{}_{n}", call.number),
    }
}

/// The reason an answer ended, in the provider's word.
pub(super) fn finish_word(shape: &Shape, finish: &Finish) -> String {
    if shape.nameless {
        return "stop".to_owned();
    }
    match finish {
        Finish::Stop => "stop".to_owned(),
        Finish::Length => "length".to_owned(),
        Finish::Tools => "tool_calls".to_owned(),
        Finish::Filter => shape.filtered.to_owned(),
        Finish::Word(word) => word.clone(),
    }
}

/// Usage as the provider counts it.
pub(super) fn usage(counts: Counts, usage: Usage) -> Value {
    let mut told = json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.total(),
    });
    if counts != Counts::Plain {
        told["prompt_tokens_details"] = json!({"cached_tokens": usage.cached});
        told["completion_tokens_details"] = json!({"reasoning_tokens": usage.reasoning});
    }
    match counts {
        Counts::Plain if usage.cached > 0 => {
            told["prompt_tokens_details"] = json!({"cached_tokens": usage.cached});
        }
        Counts::Full => {
            told["prompt_tokens_details"]["audio_tokens"] = json!(0);
            for name in ["audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"]
            {
                told["completion_tokens_details"][name] = json!(0);
            }
        }
        Counts::Hits => {
            told["prompt_cache_hit_tokens"] = json!(usage.cached);
            told["prompt_cache_miss_tokens"] = json!(usage.input - usage.cached);
        }
        Counts::Cached => told["cached_tokens"] = json!(usage.cached),
        Counts::Plain | Counts::Details => {}
    }
    told
}

/// Adds the members of a text of JSON.
pub(super) fn add(value: &mut Value, members: &str) {
    let members: Map<String, Value> = serde_json::from_str(members).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.extend(members);
    }
}

/// Takes a member away.
pub(super) fn remove(value: &mut Value, member: &str) {
    if let Some(object) = value.as_object_mut() {
        object.shift_remove(member);
    }
}
