//! Embeddings both ways.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluicegate_model::Outcome;

use super::{errors::ERRORS, models, schema::usage};
use crate::{
    call::Call,
    chat::reply::json,
    dialect::{Answer, Destination, Unfit, UpstreamCall},
    embedding::{self, Embedding},
    fault::Fault,
};

/// Most texts that one call may have.
const MOST_TEXTS: usize = 16;

#[derive(Serialize)]
struct Body<'a> {
    input: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
}

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let wanted = Embedding::read(call)?;
    if wanted.inputs.len() > MOST_TEXTS {
        return Err(Unfit::unsupported("input", "it takes at most 16 texts at once"));
    }
    if wanted.dimensions.is_some() {
        return Err(Unfit::unsupported("dimensions", "its vectors have one length"));
    }
    let body = Body { input: wanted.inputs, user_id: call.user.as_deref() };
    let path = Some(models::embeddings(to.model));
    Ok(UpstreamCall { path, ..UpstreamCall::new(json(&body)) })
}

#[derive(Deserialize)]
struct Answered {
    data: Vec<Item>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Item {
    embedding: Vec<f64>,
    #[serde(default)]
    index: Option<usize>,
}

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Fault::new(Outcome::ProviderError, message);
    if let Some(fault) = ERRORS.in_band(body) {
        return Err(fault);
    }
    let Ok(answered) = serde_json::from_slice::<Answered>(body) else {
        return Err(failed("the provider answered 200 without vectors"));
    };
    let mut items: Vec<_> = answered.data.into_iter().enumerate().collect();
    items.sort_by_key(|(position, item)| item.index.unwrap_or(*position));
    let asked = Embedding::read(call).map_or(items.len(), |asked| asked.inputs.len());
    if items.len() != asked {
        return Err(failed(
            "the provider answered with another number of vectors than was asked for",
        ));
    }
    let vectors = items.into_iter().map(|(_, item)| item.embedding).collect();
    let tokens = usage(&answered.usage).map(|usage| usage.input);
    Ok(embedding::answer(call, vectors, tokens))
}
