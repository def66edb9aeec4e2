//! Embeddings in the middle between OpenAI's form and a format that differs from it.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sluicegate_model::Usage;

use crate::{
    call::Call,
    chat::reply::json,
    dialect::{Answer, Unfit},
};

/// What is to be embedded.
#[derive(Debug, Clone)]
pub struct Embedding<'a> {
    pub inputs: Vec<Cow<'a, str>>,
    /// How many numbers each vector has.
    pub dimensions: Option<u64>,
    /// Vectors are wanted as base64 of little-endian 32-bit floats.
    pub base64: bool,
    /// Members that have no place in any other format, by name.
    pub others: Vec<Cow<'static, str>>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(default)]
    dimensions: Option<u64>,
    #[serde(borrow, default)]
    encoding_format: Option<Text<'a>>,
    #[serde(borrow, default)]
    user: Option<&'a RawValue>,
}

impl<'a> Embedding<'a> {
    /// Reads the body of a call.
    ///
    /// # Errors
    /// What is wrong in it. Inputs that are tokens are refused: each model has its own.
    pub fn read(call: &'a Call) -> Result<Self, Unfit> {
        let raw: Raw<'a> = serde_json::from_slice(&call.body)
            .map_err(|_| Unfit::invalid("", "the request body is not an embeddings request"))?;
        let input = raw.input.ok_or_else(|| Unfit::invalid("input", "is required"))?;
        let base64 = match raw.encoding_format.as_ref().map(|format| format.0.as_ref()) {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => return Err(Unfit::invalid("encoding_format", "must be float or base64")),
        };
        let others = raw.user.map(|_| Cow::Borrowed("user")).into_iter().collect();
        Ok(Self { inputs: inputs(input)?, dimensions: raw.dimensions, base64, others })
    }
}

fn inputs(raw: &RawValue) -> Result<Vec<Cow<'_, str>>, Unfit> {
    if let Ok(Text(text)) = serde_json::from_str(raw.get()) {
        return Ok(vec![text]);
    }
    match serde_json::from_str::<Vec<Text<'_>>>(raw.get()) {
        Ok(texts) if texts.is_empty() => Err(Unfit::invalid("input", "must not be empty")),
        Ok(texts) => Ok(texts.into_iter().map(|text| text.0).collect()),
        Err(_) => Err(Unfit::unsupported("input", "it takes texts, not tokens")),
    }
}

#[derive(Serialize)]
struct Body<'a> {
    object: &'static str,
    data: Vec<Item>,
    model: &'a str,
    usage: BodyUsage,
}

#[derive(Serialize)]
struct Item {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Floats(Vec<f64>),
    Base64(String),
}

#[derive(Serialize)]
struct BodyUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// The answer for the caller of `call`: its vectors, in the order of its inputs.
pub fn answer(call: &Call, vectors: Vec<Vec<f64>>, input_tokens: Option<u64>) -> Answer {
    let base64 = Embedding::read(call).is_ok_and(|wanted| wanted.base64);
    let item = |(index, vector): (usize, Vec<f64>)| Item {
        object: "embedding",
        index,
        embedding: if base64 { Vector::Base64(encoded(&vector)) } else { Vector::Floats(vector) },
    };
    let input = input_tokens.unwrap_or(0);
    let body = Body {
        object: "list",
        data: vectors.into_iter().enumerate().map(item).collect(),
        model: &call.model,
        usage: BodyUsage { prompt_tokens: input, total_tokens: input },
    };
    Answer {
        body: json(&body),
        usage: input_tokens.map(|input| Usage { input, ..Usage::default() }),
        finish_reason: None,
        output_chars: 0,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the form has floats of 32 bits")]
fn encoded(vector: &[f64]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect();
    STANDARD.encode(Bytes::from(bytes))
}
