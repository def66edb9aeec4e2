//! Anthropic's Messages format. The system prompt stands apart, tool results are the user's, thoughts
//! are blocks with signatures, and a bound on the answer is required.
//!
//! Sources: Anthropic's API reference and streaming guide; types and stream rules of its Python SDK.

mod errors;
mod messages;
mod request;
mod response;
mod stream;
pub(crate) mod thinking;
mod tools;
mod wire;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    chat::finish::{Finish, Finishes},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    json::mended,
};

/// The format.
#[derive(Debug)]
pub struct AnthropicMessages;

/// Its words for the end of an answer. `pause_turn`: a tool of the server's took long; the caller may
/// go on.
const FINISHES: Finishes = &[
    ("end_turn", Finish::As("stop")),
    ("stop_sequence", Finish::As("stop")),
    ("pause_turn", Finish::As("stop")),
    ("max_tokens", Finish::As("length")),
    ("model_context_window_exceeded", Finish::As("length")),
    ("tool_use", Finish::As("tool_calls")),
    ("refusal", Finish::As("content_filter")),
];

impl Dialect for AnthropicMessages {
    fn name(&self) -> &'static str {
        "anthropic-messages"
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        match endpoint {
            Endpoint::Chat => Some(Place::At("/messages")),
            Endpoint::Completions | Endpoint::Embeddings => None,
        }
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        Proof::header(HeaderName::from_static("x-api-key"), scheme.key.expose())
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        request::translate(call, to)
    }

    fn answer(&self, call: &Call, _: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        let body = &mended(body);
        response::read(call, body)
    }

    fn stream(&self, call: &Call, _: &Sent, _: &HeaderMap) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(call))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        errors::ERRORS.refusal(status, headers, body)
    }
}
