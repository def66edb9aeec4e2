//! `POST /v1/embeddings`: vectors from a hash. Equal texts are equally far from everything.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    answer::words,
    model_name,
    reply::{self, Fault, Reply},
};

/// Length of a vector when the request does not say.
const DIMENSIONS: usize = 256;
const MAX_DIMENSIONS: u64 = 4096;
const MAX_INPUTS: usize = 2048;

/// Embeds texts.
pub(super) fn reply(request: &Value) -> Result<Reply, Fault> {
    let model = model_name(request)?;
    let inputs = inputs(request)?;
    let dimensions = match request.get("dimensions") {
        None | Some(Value::Null) => DIMENSIONS,
        Some(given) => given
            .as_u64()
            .filter(|given| (1..=MAX_DIMENSIONS).contains(given))
            .and_then(|given| usize::try_from(given).ok())
            .ok_or_else(|| {
                let message = format!("'dimensions' must be 1 to {MAX_DIMENSIONS}");
                Fault::bad(message, Some("dimensions"))
            })?,
    };
    let base64 = match request.get("encoding_format").and_then(Value::as_str) {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            let message = "'encoding_format' must be float or base64";
            return Err(Fault::bad(message, Some("encoding_format")));
        }
    };
    let data = inputs.iter().enumerate().map(|(index, input)| {
        let vector = vector(&input.text, dimensions);
        let embedding = if base64 { encode(&vector).into() } else { json!(vector) };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    });
    let data: Vec<_> = data.collect();
    let tokens: usize = inputs.iter().map(|input| input.tokens).sum();
    Ok(reply::json(&json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}

/// A text to embed; token ids stand for their written form.
#[derive(Debug)]
struct Input {
    text: String,
    tokens: usize,
}

fn inputs(request: &Value) -> Result<Vec<Input>, Fault> {
    let fault = |message: &str| Fault::bad(message, Some("input"));
    let one = |value: &Value| match value {
        Value::String(text) => Some(Input { tokens: words(text).len(), text: text.clone() }),
        Value::Array(ids) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            Some(Input { tokens: ids.len(), text: value.to_string() })
        }
        _ => None,
    };
    let input = request.get("input").ok_or_else(|| fault("you must provide an input"))?;
    if let Some(single) = one(input) {
        return Ok(vec![single]);
    }
    let several = input.as_array().map(Vec::as_slice).unwrap_or_default();
    if several.is_empty() || several.len() > MAX_INPUTS {
        return Err(fault("'input' must be a text or a list of 1 to 2048 texts"));
    }
    several
        .iter()
        .map(|value| one(value).ok_or_else(|| fault("'input' holds something that is no text")))
        .collect()
}

/// A vector of length 1 that depends on the text alone.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut random = blake3::Hasher::new().update(text.as_bytes()).finalize_xof();
    let mut vector = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        let mut bytes = [0; 2];
        random.fill(&mut bytes);
        vector.push(f32::from(i16::from_le_bytes(bytes)) / 32_768.0);
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

/// Little-endian floats in base64, as OpenAI's clients ask for them.
fn encode(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_steady_distinct_and_of_length_one() {
        let one = vector("a", 256);
        assert_eq!(one, vector("a", 256));
        assert_ne!(one, vector("b", 256));
        let length: f32 = one.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
        assert_eq!(vector("a", 3).len(), 3);
    }

    #[test]
    fn base64_holds_the_same_floats() {
        let vector = vector("a", 5);
        let bytes = STANDARD.decode(encode(&vector)).unwrap();
        let (numbers, _) = bytes.as_chunks::<4>();
        let back: Vec<_> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(back, vector);
    }

    #[test]
    fn forms_of_input() {
        for (input, count, tokens) in [
            (json!("a b"), 1, 2),
            (json!(["a", "b"]), 2, 2),
            (json!([1, 2, 3]), 1, 3),
            (json!([[1, 2], [3]]), 2, 3),
        ] {
            let inputs = inputs(&json!({ "input": input })).unwrap();
            let sum: usize = inputs.iter().map(|input| input.tokens).sum();
            assert_eq!((inputs.len(), sum), (count, tokens), "{input}");
        }
        for bad in [json!({}), json!({ "input": [] }), json!({ "input": [{}] })] {
            assert!(reply(&bad).is_err(), "{bad}");
        }
    }
}
