//! What a wire format must be able to do.

use std::fmt::Debug;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sluicegate_model::{Usage, secret::Secret};

use crate::{
    call::{Call, Endpoint},
    fault::Fault,
    sse::Frame,
};

/// One wire format. Implementations are stateless; what a stream needs lives in its reader.
pub trait Dialect: Debug + Send + Sync {
    /// Name as providers give it.
    fn name(&self) -> &'static str;

    /// Path below the provider's base URL; `None` when the format lacks the endpoint.
    fn path(&self, endpoint: Endpoint) -> Option<&'static str>;

    /// The header that carries a provider key.
    ///
    /// # Errors
    /// When the key has characters that no header can carry.
    fn authorization(&self, key: &Secret) -> Result<(HeaderName, HeaderValue), http::Error>;

    /// The request as the upstream wants it.
    fn request(&self, call: &Call, upstream_model: &str) -> UpstreamCall;

    /// Reads a whole answer with a 2xx status, for a caller that wanted it whole.
    ///
    /// # Errors
    /// When it is a failure in disguise, or nothing that a client can use.
    fn answer(&self, endpoint: Endpoint, body: &Bytes) -> Result<Answer, Fault>;

    /// Turns a whole answer into the events of a stream, for a caller that wanted a stream.
    fn restream(&self, endpoint: Endpoint, body: &Bytes, with_usage: bool) -> Option<Vec<Bytes>>;

    /// A reader for the stream that answers this call.
    fn stream(&self, call: &Call, hide_usage: bool) -> Box<dyn StreamReader>;

    /// Understands an answer with another status than 2xx.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault;
}

/// A translated request.
#[derive(Debug, Clone)]
pub struct UpstreamCall {
    pub body: Bytes,
    /// Usage was asked for on our own account: the caller must not see it in its stream.
    pub hide_usage: bool,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The body for the caller.
    pub body: Bytes,
    pub usage: Option<Usage>,
    /// As the upstream spelt it.
    pub finish_reason: Option<String>,
    /// Characters of text and tool arguments, for estimates.
    pub output_chars: u64,
}

/// Reads one stream, frame by frame.
pub trait StreamReader: Debug + Send {
    /// Understands the next frame.
    fn read(&mut self, frame: &Frame) -> StreamEvent;

    /// Did every choice that appeared finish? Proof enough where the upstream itself says that it
    /// is done.
    fn complete(&self) -> bool;

    /// Did as many choices as were asked for finish, and none of the rest begin? Proof even where
    /// the upstream never comes to say that it is done.
    fn whole(&self) -> bool;

    /// Usage as last reported; counts are never added up.
    fn usage(&self) -> Option<Usage>;

    /// The finish reason as the upstream spelt it.
    fn finish_reason(&self) -> Option<&str>;

    /// Characters of text and tool arguments that passed, for estimates.
    fn output_chars(&self) -> u64;
}

/// What a frame is to the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// Says nothing yet: comments, roles, annotations. Passed on, but commits nothing.
    Preamble(Bytes),
    /// A part of the answer.
    Content(Bytes),
    /// Not for the caller.
    Hidden,
    /// The terminal event.
    Done,
    /// The upstream failed.
    Failed(Fault),
}
