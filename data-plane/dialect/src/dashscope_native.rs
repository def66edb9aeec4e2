//! DashScope's native format, in which Alibaba's Model Studio serves Qwen: messages within `input`,
//! everything else within `parameters`; the wish for a stream stands in a header. Models that see or
//! hear have a place and a form of content of their own.
//!
//! Sources: Model Studio's API reference and error-code page; DashScope's Python SDK.

mod delta;
mod embeddings;
mod errors;
mod models;
mod request;
mod response;
mod schema;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    dialect::{Answer, Destination, Dialect, Place, Sent, StreamReader, Unfit, UpstreamCall},
    fault::Fault,
    json::mended,
};

/// The format.
#[derive(Debug)]
pub struct DashscopeNative;

impl Dialect for DashscopeNative {
    fn name(&self) -> &'static str {
        "dashscope-native"
    }

    fn place(&self, endpoint: Endpoint) -> Option<Place> {
        match endpoint {
            Endpoint::Chat => Some(Place::PerCall),
            Endpoint::Embeddings => Some(Place::At(embeddings::PATH)),
            Endpoint::Completions => None,
        }
    }

    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError> {
        Proof::bearer(scheme.key)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are_spelt_and_bounds_hold() {
        check(r#""temperature":0.70"#, r#""temperature":0.70"#);
        check(r#""temperature":2"#, r#""temperature":1.99"#);
        check(r#""temperature":-1"#, r#""temperature":0.0"#);
        check(r#""top_p":1.0"#, r#""top_p":0.999999"#);
        check(r#""top_p":0"#, r#""top_p":1e-6"#);
        check(r#""seed":12345678901234567890123"#, r#""seed":12345678901234567890123"#);
        check(r#""max_completion_tokens":5"#, r#""max_tokens":5"#);

        #[track_caller]
        fn check(member: &str, expected: &str) {
            let body =
                format!(r#"{{"model":"m","messages":[{{"role":"user","content":"A"}}],{member}}}"#);
            let call = Call::parse(Endpoint::Chat, body.into()).unwrap();
            let to = Destination { model: "m", profile: &sluicegate_model::Profile::default() };
            let sent = DashscopeNative.request(&call, &to).unwrap().body;
            assert!(std::str::from_utf8(&sent).unwrap().contains(expected), "{sent:?}");
        }
    }

    #[test]
    fn every_endpoint_has_its_place() {
        assert_eq!(DashscopeNative.place(Endpoint::Chat), Some(Place::PerCall));
        assert_eq!(DashscopeNative.place(Endpoint::Completions), None);
        let embeddings = DashscopeNative.place(Endpoint::Embeddings);
        assert_eq!(
            embeddings,
            Some(Place::At("/services/embeddings/text-embedding/text-embedding"))
        );
    }
}
