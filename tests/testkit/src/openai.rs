//! Texts of the OpenAI wire format that scripts are written with.
//!
//! Usage is 7 input and 2 output tokens wherever a text states it, so that a check can say "7/2".

use serde_json::{Value, json};

/// The end marker of a stream, as an event.
pub const DONE: &str = "data: [DONE]\n\n";

/// The last chunk of a stream: no choices, usage 7/2.
pub const USAGE: &str = concat!(
    r#"data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m1","choices":[],"#,
    r#""usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#,
    "\n\n"
);

/// A stream event with one choice.
pub fn chunk(delta: &Value, finish_reason: Option<&str>) -> String {
    event(&json!({
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }))
}

/// A stream event that carries text.
pub fn delta(text: &str) -> String {
    chunk(&json!({"content": text}), None)
}

/// A stream event that ends the answer.
pub fn finish(reason: &str) -> String {
    chunk(&json!({}), Some(reason))
}

/// A whole stream: the text, the finish reason `stop`, usage 7/2 and the end marker.
pub fn stream(text: &str) -> String {
    delta(text) + &finish("stop") + USAGE + DONE
}

/// The body of a complete answer with usage 7/2.
pub fn completion(text: &str) -> String {
    json!({
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m1",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    })
    .to_string()
}

/// A request body with one user message.
pub fn chat(model: &str, stream: bool) -> String {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match stream {
        true => json!({"model": model, "stream": true, "messages": messages}),
        false => json!({"model": model, "messages": messages}),
    }
    .to_string()
}

fn event(payload: &Value) -> String {
    format!("data: {payload}\n\n")
}
