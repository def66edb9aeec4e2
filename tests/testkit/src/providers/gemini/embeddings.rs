//! Embeddings, one or several.

use serde_json::{Value, json};

use super::invalid;
use super::request::known;
use crate::providers::read::{Refusal, items, text};
use crate::providers::vectors::{DIMENSIONS, vector};

const FIELDS: &[&str] = &["model", "content", "taskType", "title", "outputDimensionality"];

/// The answer of `embedContent` or `batchEmbedContents`, or why the request is refused.
pub(super) fn embed(model: &str, method: &str, body: &Value) -> Result<Value, Refusal> {
    if method == "embedContent" {
        return Ok(json!({"embedding": one(body)?}));
    }
    known(body, &["requests"], "")?;
    let requests = items(&body["requests"]);
    if requests.is_empty() {
        return Err(invalid("* BatchEmbedContentsRequest.requests: requests is not specified"));
    }
    let name = format!("models/{model}");
    if requests.iter().any(|request| text(request, "model") != name) {
        return Err(invalid(
            "* BatchEmbedContentsRequest.requests: the model differs from the batch's",
        ));
    }
    let embeddings = requests.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"embeddings": embeddings}))
}

fn one(request: &Value) -> Result<Value, Refusal> {
    known(request, FIELDS, "")?;
    let parts = items(&request["content"]["parts"]);
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    if texts.is_empty() {
        return Err(invalid("* EmbedContentRequest.content: contents is not specified"));
    }
    let dimensions = request["outputDimensionality"].as_u64().and_then(|n| usize::try_from(n).ok());
    Ok(json!({"values": vector(&texts.concat(), dimensions.unwrap_or(DIMENSIONS))}))
}
