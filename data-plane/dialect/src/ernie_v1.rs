//! Qianfan's first API, in which Baidu serves ERNIE: a path for each model, a token in the query,
//! turns that strictly alternate, one function call for a turn, and every error under status 200.
//!
//! Sources: Qianfan's V1 API and error-code pages; its Python SDK.

mod embeddings;
mod errors;
mod models;
mod request;
mod response;
mod schema;
mod stream;
mod turns;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluicegate_model::{Outcome, secret::Secret};

use crate::{
    auth::{AuthError, AuthScheme, Exchange, Proof},
    call::{Call, Endpoint},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    json::mended,
};

/// The format.
#[derive(Debug)]
pub struct ErnieV1;

impl Dialect for ErnieV1 {
    fn name(&self) -> &'static str {
        "ernie-v1"
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        match endpoint {
            Endpoint::Chat | Endpoint::Embeddings => Some(Place::PerCall),
            Endpoint::Completions => None,
        }
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        const FORM: AuthError = AuthError::Form("API_KEY:SECRET_KEY");
        let (id, secret) = scheme.key.expose().split_once(':').ok_or(FORM)?;
        if id.is_empty() || secret.is_empty() {
            return Err(FORM);
        }
        Ok(Proof::Exchange(Exchange {
            path: "/oauth/2.0/token",
            parameter: "access_token",
            client_id: Secret::new(id),
            client_secret: Secret::new(secret),
        }))
    }

    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
        match call.endpoint {
            Endpoint::Chat => request::translate(call, to),
            Endpoint::Embeddings => embeddings::translate(call, to),
            Endpoint::Completions => {
                Err(Unfit::unsupported("prompt", "it has no completions, only chats"))
            }
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

    /// Tokens are taken back before their time; the codes say so.
    fn wants_new_token(&self, fault: &Fault) -> bool {
        fault.outcome == Outcome::KeyRefused && matches!(fault.code.as_deref(), Some("110" | "111"))
    }
}

#[cfg(test)]
mod tests;
