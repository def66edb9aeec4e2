//! What a wire format must be able to do.

use std::{borrow::Cow, fmt::Debug};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sluicegate_model::{Profile, Usage};

use crate::{
    auth::{AuthError, AuthScheme, Proof},
    call::{Call, Endpoint},
    fault::Fault,
    frame::{Frame, Framing},
};

/// One wire format, or one variant of it. Implementations are stateless; what a stream needs lives in
/// its reader.
pub trait Dialect: Debug + Send + Sync {
    /// Name as providers give it.
    fn name(&self) -> &'static str;

    /// Which server of the format it is; empty where there is but one.
    fn variant(&self) -> &'static str {
        ""
    }

    /// Where an endpoint is, below the provider's base URL; `None` when the format lacks it.
    fn place(&self, endpoint: Endpoint) -> Option<Place>;

    /// How a key of the provider is proven to it.
    ///
    /// # Errors
    /// When the key has not the form that the format wants.
    fn auth(&self, scheme: &AuthScheme<'_>) -> Result<Proof, AuthError>;

    /// Does the format take the address of an image, or only its bytes?
    fn takes_image_urls(&self) -> bool {
        true
    }

    /// The request as the upstream wants it.
    ///
    /// # Errors
    /// What in the request the format cannot say, or is wrong.
    fn request(&self, call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit>;

    /// How a stream is cut into events.
    fn framing(&self) -> Framing {
        Framing::ServerSentEvents
    }

    /// Reads a whole answer with a 2xx status, into OpenAI's form.
    ///
    /// # Errors
    /// When it is a failure in disguise, or nothing that a client can use.
    fn answer(&self, call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Answer, Fault>;

    /// A reader for the stream that answers this call.
    fn stream(&self, call: &Call, sent: &Sent, headers: &HeaderMap) -> Box<dyn StreamReader>;

    /// Understands an answer with another status than 2xx.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault;

    /// Does a failure mean that an exchanged token is no longer good, though the key may be?
    fn wants_new_token(&self, _: &Fault) -> bool {
        false
    }
}

/// Where an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Always at this path.
    At(&'static str),
    /// The request says: [`UpstreamCall::path`] has it.
    PerCall,
}

/// Whom a request is translated for.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// The model's name there.
    pub model: &'a str,
    /// How the server really behaves.
    pub profile: &'a Profile,
}

/// A translated request.
#[derive(Debug, Clone)]
pub struct UpstreamCall {
    /// Where the place is [`Place::PerCall`]: path below the base URL, with its query.
    pub path: Option<String>,
    pub body: Bytes,
    /// Headers that the format wants, besides those of every call.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What a reader of the answer must know.
    pub sent: Sent,
    /// Members of the caller's request that were left out, because the format has no word for them
    /// and the answer means the same without.
    pub dropped: Vec<Cow<'static, str>>,
}

impl UpstreamCall {
    /// A call at the endpoint's own place, with nothing special about it.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            path: None,
            body: body.into(),
            headers: Vec::new(),
            sent: Sent::default(),
            dropped: Vec::new(),
        }
    }
}

/// What became of a request on its way, for those who read its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Usage was asked for on our own account: the caller must not see it in its stream.
    pub hide_usage: bool,
}

/// Why a request cannot go to this target as it is. Another target may take it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// `unsupported_parameter` where the target lacks something, else what is wrong in OpenAI's words.
    pub code: &'static str,
    /// The member that is to blame, such as `messages[1].content[0]`.
    pub param: String,
    pub message: String,
}

impl Unfit {
    /// The target cannot do what a member asks for.
    pub fn unsupported(param: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let param = param.into();
        let message = format!("'{param}' is not supported by this model's provider: {why}");
        Self { code: "unsupported_parameter", param, message }
    }

    /// The request is wrong, wherever it goes.
    pub fn invalid(param: impl Into<String>, what: impl std::fmt::Display) -> Self {
        let param = param.into();
        let message = if param.is_empty() { what.to_string() } else { format!("'{param}' {what}") };
        Self { code: "invalid_value", param, message }
    }
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

    /// What the caller still gets when the stream has ended well, before the terminal event.
    fn tail(&mut self) -> Option<Bytes> {
        None
    }

    /// Usage as last reported; counts are never added up.
    fn usage(&self) -> Option<Usage>;

    /// The finish reason as the upstream spelt it.
    fn finish_reason(&self) -> Option<&str>;

    /// Characters of text and tool arguments that passed, for estimates.
    fn output_chars(&self) -> u64;
}

/// What a frame is to the relay. Bytes are whole events for the caller, none or several of them.
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
