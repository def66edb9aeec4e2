//! `POST /v1/completions`.

use serde_json::{Value, json};

use super::{
    answer::{Answer, echo, limit, words},
    created, flag, id, model_name,
    reply::{self, Fault, Reply},
    wants_usage,
};

/// Words of an answer to a request that gives no limit, as the format says.
const DEFAULT_MAX: u64 = 16;

/// Completes a prompt.
pub(super) fn reply(request: &Value) -> Result<Reply, Fault> {
    let model = model_name(request)?;
    let prompt = match request.get("prompt") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(prompts)) => match prompts.as_slice() {
            [Value::String(text)] => text.clone(),
            // Token ids have no text here.
            [Value::Number(_), ..] => format!("{} tokens", prompts.len()),
            _ => return Err(Fault::bad("the demo takes one prompt", Some("prompt"))),
        },
        _ => return Err(Fault::bad("you must provide a prompt", Some("prompt"))),
    };
    let max = limit(request, &["max_tokens"])?.unwrap_or(DEFAULT_MAX);
    let answer = Answer::text(&echo(&prompt), words(&prompt).len(), Some(max));
    let id = id("cmpl", request);
    let created = created();
    let event = |text: &str, finish_reason: Option<&str>| {
        json!({
            "id": id,
            "object": "text_completion",
            "created": created,
            "model": model,
            "choices": [{
                "index": 0,
                "text": text,
                "logprobs": null,
                "finish_reason": finish_reason,
            }],
        })
    };
    if !flag(request, "stream")? {
        let mut whole = event(&answer.content(), Some(answer.finish_reason));
        whole["usage"] = answer.usage();
        return Ok(reply::json(&whole));
    }
    let mut events: Vec<_> = answer.pieces.iter().map(|piece| event(piece, None)).collect();
    events.push(event("", Some(answer.finish_reason)));
    if wants_usage(request) {
        for event in &mut events {
            event["usage"] = Value::Null;
        }
        let mut last = event("", None);
        last["choices"] = json!([]);
        last["usage"] = answer.usage();
        events.push(last);
    }
    Ok(reply::stream(events))
}
