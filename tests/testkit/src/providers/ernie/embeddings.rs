//! Embeddings.

use serde_json::{Value, json};

use super::{CREATED, id, reply};
use crate::providers::ask::words;
use crate::providers::read::{Refusal, items, object};
use crate::providers::vectors::{DIMENSIONS, vector};
use crate::upstream::{Call, Step};

/// Most texts of one request.
const MOST_TEXTS: usize = 16;

/// The embeddings of a request's texts, or why it is refused.
pub(super) fn embed(call: &Call) -> Result<Vec<Step>, Refusal> {
    let body = object(call).ok_or_else(|| Refusal::new(200, "336002", "Invalid JSON"))?;
    let texts: Vec<&str> = items(&body["input"]).iter().filter_map(Value::as_str).collect();
    if texts.is_empty() || texts.len() > MOST_TEXTS || texts.contains(&"") {
        let text = "Invalid Argument, input must be a list of 1 to 16 texts that are not empty";
        return Err(Refusal::new(200, "336001", text));
    }
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"object": "embedding", "embedding": vector(text, DIMENSIONS), "index": index})
        })
        .collect();
    let tokens: u64 = texts.iter().map(|text| words(text)).sum();
    Ok(reply(&json!({
        "id": id(call), "object": "embedding_list", "created": CREATED, "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}
