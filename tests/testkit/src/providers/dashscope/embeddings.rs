//! Embeddings.

use serde_json::{Value, json};

use super::{invalid, reply, request_id};
use crate::providers::ask::words;
use crate::providers::read::{Refusal, items, object};
use crate::providers::vectors::{DIMENSIONS, vector};
use crate::upstream::{Call, Step};

/// Most texts of one request.
const MOST_TEXTS: usize = 25;

/// The embeddings of a request's texts, or why it is refused.
pub(super) fn embed(call: &Call) -> Result<Vec<Step>, Refusal> {
    let body = object(call).ok_or_else(|| invalid("InvalidParameter", "Required body invalid."))?;
    let texts: Vec<&str> =
        items(&body["input"]["texts"]).iter().filter_map(Value::as_str).collect();
    if texts.is_empty() || texts.len() > MOST_TEXTS || texts.contains(&"") {
        let text = "<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid.";
        return Err(invalid("InvalidParameter", text));
    }
    let dimension = body["parameters"]["dimension"].as_u64().and_then(|n| usize::try_from(n).ok());
    let embeddings: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"text_index": index, "embedding": vector(text, dimension.unwrap_or(DIMENSIONS))})
        })
        .collect();
    let tokens: u64 = texts.iter().map(|text| words(text)).sum();
    Ok(reply(
        call,
        &json!({
            "output": {"embeddings": embeddings}, "usage": {"total_tokens": tokens},
            "request_id": request_id(call),
        }),
    ))
}
