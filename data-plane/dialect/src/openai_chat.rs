//! OpenAI's chat format, as OpenAI and every server that imitates it speak it. Callers speak it
//! too, so that most bytes pass as they are.

mod chunk;
mod errors;
mod finish;
mod request;
mod response;
mod restream;
mod stream;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sluicegate_model::secret::Secret;

use crate::{
    call::{Call, Endpoint},
    dialect::{Answer, Dialect, StreamReader, UpstreamCall},
    fault::Fault,
};

/// The format.
#[derive(Debug, Clone, Copy)]
pub struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn path(&self, endpoint: Endpoint) -> Option<&'static str> {
        Some(endpoint.path())
    }

    fn authorization(&self, key: &Secret) -> Result<(HeaderName, HeaderValue), http::Error> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose()))?;
        value.set_sensitive(true);
        Ok((header::AUTHORIZATION, value))
    }

    fn request(&self, call: &Call, upstream_model: &str) -> UpstreamCall {
        request::translate(call, upstream_model)
    }

    fn answer(&self, endpoint: Endpoint, body: &Bytes) -> Result<Answer, Fault> {
        response::read(endpoint, body)
    }

    fn restream(&self, endpoint: Endpoint, body: &Bytes, with_usage: bool) -> Option<Vec<Bytes>> {
        restream::events(endpoint, body, with_usage)
    }

    fn stream(&self, call: &Call, hide_usage: bool) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::new(hide_usage, call.choices))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
        errors::refusal(status, headers, body)
    }
}
