//! Embeddings: several texts in one request.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sluicegate_model::Outcome;

use super::{path, resource, response, wire::Counts};
use crate::{
    call::Call,
    chat::reply::json,
    dialect::{Answer, Destination, Unfit, UpstreamCall},
    embedding::{self, Embedding},
    fault::Fault,
};

#[derive(Serialize)]
struct Batch<'a> {
    requests: Vec<One<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct One<'a> {
    model: &'a str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u64>,
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
}

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let embedding = Embedding::read(call)?;
    let (collection, name) = resource(to.model);
    let model = format!("{collection}/{name}");
    let one = |text| One {
        model: &model,
        content: Content { parts: [Part { text }] },
        output_dimensionality: embedding.dimensions,
    };
    let batch = Batch { requests: embedding.inputs.iter().map(|text| one(text)).collect() };
    Ok(UpstreamCall {
        path: Some(path(to.model, "batchEmbedContents")),
        dropped: embedding.others,
        ..UpstreamCall::new(json(&batch))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    #[serde(default)]
    embeddings: Option<Vec<Vector>>,
    #[serde(default)]
    usage_metadata: Option<Counts>,
}

#[derive(Deserialize)]
struct Vector {
    values: Vec<f64>,
}

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let embedded: Embedded = response::parse(body)?;
    let vectors = embedded.embeddings.ok_or_else(|| response::none(body))?;
    let wanted = Embedding::read(call).map_or(0, |embedding| embedding.inputs.len());
    if vectors.len() != wanted {
        let message = format!("the provider gave {} vectors for {wanted} texts", vectors.len());
        return Err(Fault::new(Outcome::ProviderError, message));
    }
    let vectors = vectors.into_iter().map(|vector| vector.values).collect();
    let tokens = embedded.usage_metadata.and_then(|counts| counts.prompt_token_count);
    Ok(embedding::answer(call, vectors, tokens))
}
