//! Embeddings.

use serde_json::{Value, json};

use super::request::invalid;
use super::variant::{Unknown, Variant};
use crate::providers::ask::words;
use crate::providers::read::{Refusal, items, object, text, unknown};
use crate::providers::vectors::{self, DIMENSIONS, vector};
use crate::upstream::{Call, Step};

const FIELDS: &[&str] = &["model", "input", "encoding_format", "dimensions", "user"];

/// The embeddings of a request's texts, or why it is refused.
pub(super) fn embed(variant: &Variant, call: &Call) -> Result<Vec<Step>, Refusal> {
    let body =
        object(call).ok_or_else(|| invalid("invalid_json", "We could not parse the JSON body."))?;
    if let (Unknown::Refused, Some(name)) = (variant.rules.unknown, unknown(&body, FIELDS)) {
        let text = format!("Unknown parameter: '{name}'.");
        return Err(invalid("unknown_parameter", text).of(name));
    }
    let inputs: Vec<String> = match &body["input"] {
        Value::String(one) => vec![one.clone()],
        // A list of numbers is one text as tokens.
        Value::Array(list) if list.iter().all(Value::is_number) && !list.is_empty() => {
            vec![body["input"].to_string()]
        }
        list => items(list)
            .iter()
            .map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned))
            .collect(),
    };
    if inputs.is_empty() || inputs.iter().any(String::is_empty) {
        return Err(invalid("invalid_value", "'$.input' is invalid.").of("input"));
    }
    let dimensions = body["dimensions"].as_u64().and_then(|n| usize::try_from(n).ok());
    let encoded = text(&body, "encoding_format") == "base64";
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let vector = vector(text, dimensions.unwrap_or(DIMENSIONS));
            let embedding = match encoded {
                true => json!(vectors::base64(&vector)),
                false => json!(vector),
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    let tokens: u64 = inputs.iter().map(|text| words(text)).sum();
    let body = json!({
        "object": "list", "data": data, "model": text(&body, "model"),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    });
    Ok(super::json_reply(call, &body))
}
