//! The steps an upstream's answer is written in.

use std::time::Duration;

use bytes::Bytes;

use crate::coding::Coding;
use crate::openai;

/// As the value of `content-length` in [`Step::Head`]: the length of all that the script sends.
pub const AUTO: &str = "AUTO";

/// One thing an upstream does. The request has been read whole before the first step.
///
/// What the sending steps send is put into one HTTP chunk per write, unless the head has a
/// `content-length` or came as [`Step::Raw`] without `transfer-encoding`.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Status line and headers; `transfer-encoding: chunked` is added if no length is given.
    Head(u16, Vec<(String, String)>),
    /// Bytes past all framing. Starting with `HTTP/`, they are a head and decide the framing.
    Raw(Bytes),
    /// One write.
    Send(Bytes),
    /// One write for every byte, with a pause after each.
    SendBytewise(Bytes, Duration),
    /// One write of the encoded bytes.
    SendCoded(Coding, Bytes),
    /// The same bytes again and again, with a pause after each write.
    Repeat { times: usize, gap: Duration, bytes: Bytes },
    /// From here on, if the request accepts gzip: `content-encoding: gzip`, each send encoded and
    /// flushed on its own.
    GzipIfAccepted,
    /// Silence with the connection open. Cut short when the caller leaves.
    Sleep(Duration),
    /// The proper end of the body. The connection stays for further calls if the framing allows it.
    End,
    /// FIN, whatever was sent before.
    Fin,
    /// RST, whatever was sent before.
    Rst,
    /// After [`Step::End`]: FIN once the connection has been idle for so long.
    CloseIdleAfter(Duration),
}

impl Step {
    /// A head with the given content type.
    pub fn head(status: u16, content_type: &str) -> Self {
        Self::Head(status, vec![("content-type".into(), content_type.into())])
    }

    /// The head of an event stream.
    pub fn event_stream() -> Self {
        Self::head(200, "text/event-stream")
    }

    /// One write of text.
    pub fn send(text: impl Into<Bytes>) -> Self {
        Self::Send(text.into())
    }

    /// [`Step::Sleep`] in milliseconds.
    pub fn sleep_ms(ms: u64) -> Self {
        Self::Sleep(Duration::from_millis(ms))
    }

    /// A stream of one text chunk with usage 7/2.
    pub fn stream(text: &str) -> Vec<Self> {
        vec![Self::event_stream(), Self::send(openai::stream(text)), Self::End]
    }

    /// A complete answer with usage 7/2.
    pub fn completion(text: &str) -> Vec<Self> {
        Self::json(200, openai::completion(text))
    }

    /// A JSON reply.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Vec<Self> {
        vec![Self::head(status, "application/json"), Self::send(body), Self::End]
    }

    /// Number of body bytes this step sends.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Send(bytes) | Self::SendBytewise(bytes, _) => bytes.len(),
            Self::Repeat { times, bytes, .. } => times * bytes.len(),
            Self::Head(..)
            | Self::Raw(_)
            | Self::SendCoded(..)
            | Self::GzipIfAccepted
            | Self::Sleep(_)
            | Self::End
            | Self::Fin
            | Self::Rst
            | Self::CloseIdleAfter(_) => 0,
        }
    }
}
