//! Amazon Bedrock's Converse API: one format for the chat models of many makers. Streams are binary
//! ([`crate::eventstream`]); usage comes after the end of the answer; embeddings go by another
//! operation, in each maker's own form.
//!
//! Sources: the Bedrock API reference (`Converse`, `ConverseStream`, `InvokeModel`) and the user
//! guide's list of API error codes.

mod embeddings;
mod errors;
mod messages;
mod request;
mod response;
mod schema;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluicegate_model::secret::Secret;

use crate::{
    auth::{AuthError, AuthScheme, AwsKey, Proof},
    call::{Call, Endpoint},
    chat::finish::{Finish, Finishes},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    frame::Framing,
    json::mended,
};

/// The format.
#[derive(Debug)]
pub struct BedrockConverse;

/// Words for the end of an answer.
const FINISHES: Finishes = &[
    ("end_turn", Finish::As("stop")),
    ("stop_sequence", Finish::As("stop")),
    ("max_tokens", Finish::As("length")),
    ("model_context_window_exceeded", Finish::As("length")),
    ("tool_use", Finish::As("tool_calls")),
    ("guardrail_intervened", Finish::As("content_filter")),
    ("content_filtered", Finish::As("content_filter")),
    ("malformed_tool_use", Finish::Failed(sluicegate_model::Outcome::ProviderError)),
    ("malformed_model_output", Finish::Failed(sluicegate_model::Outcome::ProviderError)),
];

impl Dialect for BedrockConverse {
    fn name(&self) -> &'static str {
        "bedrock-converse"
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        match endpoint {
            Endpoint::Chat | Endpoint::Embeddings => Some(Place::PerCall),
            Endpoint::Completions => None,
        }
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        match key_pair(scheme.key)? {
            None => Proof::bearer(scheme.key),
            Some((access, secret, session)) => Ok(Proof::SigV4(AwsKey {
                access: access.to_owned(),
                secret: Secret::new(secret),
                session: session.map(Secret::new),
                region: scheme.region.ok_or(AuthError::NoRegion)?.to_owned(),
                service: "bedrock",
            })),
        }
    }

    fn takes_image_urls(&self) -> bool {
        false
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        match call.endpoint {
            Endpoint::Chat => request::translate(call, to),
            Endpoint::Embeddings => embeddings::request(call, to),
            Endpoint::Completions => {
                Err(Unfit::unsupported("prompt", "it has chats and embeddings only"))
            }
        }
    }

    fn framing(&self) -> Framing {
        Framing::AmazonEventStream
    }

    fn answer(&self, call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        let body = &mended(body);
        match call.endpoint {
            Endpoint::Embeddings => embeddings::answer(call, headers, body),
            Endpoint::Chat | Endpoint::Completions => response::read(call, headers, body),
        }
    }

    fn stream(&self, call: &Call, _: &Sent, headers: &HeaderMap) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(call, headers))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        errors::ERRORS.refusal(status, headers, body)
    }
}

/// The parts of `ACCESS:SECRET` or `ACCESS:SECRET:SESSION`; `None` for what is a Bedrock API key,
/// which has no colons.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn key_pair(key: &Secret) -> Result<Option<(&str, &str, Option<&str>)>, AuthError> {
    const FORM: AuthError =
        AuthError::Form("a Bedrock API key, ACCESS:SECRET or ACCESS:SECRET:SESSION");
    let parts: Vec<_> = key.expose().split(':').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(FORM);
    }
    match parts.as_slice() {
        [_] => Ok(None),
        [access, secret] => Ok(Some((access, secret, None))),
        [access, secret, session] => Ok(Some((access, secret, Some(session)))),
        _ => Err(FORM),
    }
}

/// What the upstream calls the request.
fn request_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-amzn-requestid")?.to_str().ok().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests;
