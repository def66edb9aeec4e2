//! Google's generateContent format, as the Gemini API and Vertex speak it. The model stands in the
//! path; turns are made of parts; a prompt may be blocked with status 200; a stream has no end but
//! its finish reasons.
//!
//! Sources: Google's API reference and its guides to thinking, signatures and function calls; the
//! types of its Python SDK.

mod contents;
mod embeddings;
mod errors;
mod finish;
mod generation;
mod logprobs;
mod request;
mod response;
mod schema;
mod stream;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    json::mended,
};

/// The format.
#[derive(Debug)]
pub struct GeminiGenerate;

impl Dialect for GeminiGenerate {
    fn name(&self) -> &'static str {
        "gemini-generate"
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        match endpoint {
            Endpoint::Chat | Endpoint::Embeddings => Some(Place::PerCall),
            Endpoint::Completions => None,
        }
    }

    /// Keys have a header of their own; OAuth tokens, which begin with `ya29.`, have not.
    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        if scheme.key.expose().starts_with("ya29.") {
            return Proof::bearer(scheme.key);
        }
        Proof::header(HeaderName::from_static("x-goog-api-key"), scheme.key.expose())
    }

    /// Only of those that Google keeps itself.
    fn takes_image_urls(&self) -> bool {
        false
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        match call.endpoint {
            Endpoint::Chat => request::translate(call, to),
            Endpoint::Embeddings => embeddings::translate(call, to),
            Endpoint::Completions => Err(Unfit::unsupported("prompt", "it takes chats")),
        }
    }

    fn answer(&self, call: &Call, _: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        let body = &mended(body);
        match call.endpoint {
            Endpoint::Embeddings => embeddings::read(call, body),
            Endpoint::Chat | Endpoint::Completions => response::read(call, body),
        }
    }

    fn stream(&self, call: &Call, _: &Sent, _: &HeaderMap) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(call))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        errors::ERRORS.refusal(status, headers, body)
    }
}

/// A model's name as its methods want it: in its collection, `models` where the name has none.
fn resource(model: &str) -> (&'static str, &str) {
    match model.strip_prefix("tunedModels/") {
        Some(name) => ("tunedModels", name),
        None => ("models", model.strip_prefix("models/").unwrap_or(model)),
    }
}

/// The path of a method of a model, below the base URL.
fn path(model: &str, method: &str) -> String {
    let (collection, name) = resource(model);
    let mut path = format!("/{collection}/");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let written = write!(path, "%{byte:02X}");
            debug_assert!(written.is_ok(), "memory takes whatever is written");
        }
    }
    path.push(':');
    path.push_str(method);
    path
}
