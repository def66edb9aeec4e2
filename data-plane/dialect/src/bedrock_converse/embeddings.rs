//! Embeddings, which go by `InvokeModel` in the form of each model's maker.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sluicegate_model::Outcome;

use super::errors::ERRORS;
use crate::{
    call::Call,
    chat::{number::count, reply::json},
    dialect::{Answer, Destination, Unfit, UpstreamCall},
    embedding::{self, Embedding},
    fault::Fault,
    path,
};

/// How a maker's models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// One text at a time.
    Titan,
    /// Many texts, each a document or a query.
    Cohere,
}

/// Models by the beginnings of their names: whose they are, and whether one may choose how many
/// numbers a vector has.
const MODELS: &[(&str, Maker, bool)] = &[
    ("amazon.titan-embed-text-v1", Maker::Titan, false),
    ("amazon.titan-embed-g1", Maker::Titan, false),
    ("amazon.titan-embed-text", Maker::Titan, true),
    ("cohere.embed-english-v3", Maker::Cohere, false),
    ("cohere.embed-multilingual-v3", Maker::Cohere, false),
    ("cohere.embed-", Maker::Cohere, true),
];

/// Members of the makers' own that callers may write, as they are.
const EXTRAS: &[(&str, Maker)] =
    &[("normalize", Maker::Titan), ("input_type", Maker::Cohere), ("truncate", Maker::Cohere)];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TitanBody<'a> {
    input_text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    normalize: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct CohereBody<'a> {
    texts: &'a [Cow<'a, str>],
    input_type: InputType<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncate: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputType<'a> {
    Given(&'a RawValue),
    Usual(&'static str),
}

/// The name of the model in an id, an id with a region before it, or the address of a profile.
fn model(id: &str) -> &str {
    const REGIONS: [&str; 7] = ["us.", "eu.", "apac.", "us-gov.", "jp.", "au.", "global."];
    let name = id.rsplit_once('/').map_or(id, |(_, name)| name);
    REGIONS.iter().find_map(|region| name.strip_prefix(region)).unwrap_or(name)
}

pub(super) fn request(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let wanted = Embedding::read(call)?;
    let name = model(to.model);
    let known = MODELS.iter().find(|(prefix, ..)| name.starts_with(prefix));
    let (_, maker, sizes) = known.ok_or_else(|| {
        let message = format!(
            "'{name}' makes no embeddings here: take a Titan text embedding or a Cohere embed model"
        );
        Unfit { code: "unsupported_endpoint", param: "model".into(), message }
    })?;
    if wanted.dimensions.is_some() && !sizes {
        return Err(Unfit::unsupported("dimensions", "this model's vectors have one size"));
    }
    let extra = |name: &str| -> Option<&RawValue> {
        serde_json::from_slice(call.member(name)?.1)
            .ok()
            .filter(|raw: &&RawValue| raw.get() != "null")
    };
    let mut dropped = wanted.others.clone();
    let others = EXTRAS.iter().filter(|(name, of)| of != maker && extra(name).is_some());
    dropped.extend(others.map(|(name, _)| Cow::Borrowed(*name)));
    let body = match maker {
        Maker::Titan => {
            let [text] = wanted.inputs.as_slice() else {
                return Err(Unfit::unsupported("input", "it takes one text at a time"));
            };
            let (dimensions, normalize) = (wanted.dimensions, extra("normalize"));
            json(&TitanBody { input_text: text, dimensions, normalize })
        }
        Maker::Cohere => json(&CohereBody {
            texts: &wanted.inputs,
            input_type: extra("input_type")
                .map_or(InputType::Usual("search_document"), InputType::Given),
            truncate: extra("truncate"),
            output_dimension: wanted.dimensions,
        }),
    };
    Ok(UpstreamCall {
        path: Some(format!("/model/{}/invoke", path::segment(to.model))),
        dropped,
        ..UpstreamCall::new(body)
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vectors {
    #[serde(default)]
    embedding: Option<Vec<f64>>,
    #[serde(default)]
    embeddings: Option<Many>,
    #[serde(default, deserialize_with = "count")]
    input_text_token_count: Option<u64>,
}

/// A list of vectors, or one for each type of number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Many {
    Plain(Vec<Vec<f64>>),
    ByType { float: Vec<Vec<f64>> },
}

pub(super) fn answer(call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Fault::new(Outcome::ProviderError, message);
    let read: Vectors = serde_json::from_slice(body)
        .map_err(|_| failed("the provider answered 200 with a body that cannot be read"))?;
    let vectors = match (read.embedding, read.embeddings) {
        (Some(one), _) => vec![one],
        (None, Some(Many::Plain(many) | Many::ByType { float: many })) => many,
        (None, None) => {
            let fault = ERRORS.in_band(body);
            return Err(fault.unwrap_or_else(|| failed("the provider answered without vectors")));
        }
    };
    let counted = || headers.get("x-amzn-bedrock-input-token-count")?.to_str().ok()?.parse().ok();
    Ok(embedding::answer(call, vectors, read.input_text_token_count.or_else(counted)))
}
