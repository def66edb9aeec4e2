//! Embeddings both ways.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluicegate_model::Outcome;

use super::errors::ERRORS;
use crate::{
    call::Call,
    chat::reply::json,
    dialect::{Answer, Destination, Unfit, UpstreamCall},
    embedding::{self, Embedding},
    fault::Fault,
};

pub(super) const PATH: &str = "/services/embeddings/text-embedding/text-embedding";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Input<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters>,
}

#[derive(Serialize)]
struct Input<'a> {
    texts: Vec<std::borrow::Cow<'a, str>>,
}

#[derive(Serialize)]
struct Parameters {
    dimension: u64,
}

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let wanted = Embedding::read(call)?;
    let body = Body {
        model: to.model,
        input: Input { texts: wanted.inputs },
        parameters: wanted.dimensions.map(|dimension| Parameters { dimension }),
    };
    Ok(UpstreamCall { dropped: wanted.others, ..UpstreamCall::new(json(&body)) })
}

#[derive(Deserialize)]
struct Answered {
    output: Output,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Output {
    embeddings: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: Vec<f64>,
    #[serde(default)]
    text_index: Option<usize>,
}

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Fault::new(Outcome::ProviderError, message);
    let Ok(Answered { output, usage }) = serde_json::from_slice(body) else {
        let fault = ERRORS.in_band(body);
        return Err(fault.unwrap_or_else(|| failed("the provider answered 200 without vectors")));
    };
    let mut items: Vec<_> = output.embeddings.into_iter().enumerate().collect();
    items.sort_by_key(|(position, item)| item.text_index.unwrap_or(*position));
    let asked = Embedding::read(call).map_or(items.len(), |asked| asked.inputs.len());
    if items.len() != asked {
        return Err(failed(
            "the provider answered with another number of vectors than was asked for",
        ));
    }
    let tokens = ["input_tokens", "total_tokens"].iter().find_map(|it| usage.get(*it)?.as_u64());
    let vectors = items.into_iter().map(|(_, item)| item.embedding).collect();
    Ok(embedding::answer(call, vectors, tokens))
}
