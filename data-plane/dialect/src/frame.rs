//! One event of a stream, and the framers that cut it out of bytes.

use bytes::Bytes;

pub use crate::sse::{EventTooLarge, Frame};
use crate::{eventstream, sse};

/// How a stream is cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    ServerSentEvents,
    /// `application/vnd.amazon.eventstream`: binary messages with checksums.
    AmazonEventStream,
}

impl Framing {
    /// Media type of such a stream.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::ServerSentEvents => "text/event-stream",
            Self::AmazonEventStream => "application/vnd.amazon.eventstream",
        }
    }

    /// A framer for one stream.
    pub fn framer(self) -> Framer {
        match self {
            Self::ServerSentEvents => Framer::Sse(sse::Framer::default()),
            Self::AmazonEventStream => Framer::Amazon(eventstream::Framer::default()),
        }
    }
}

/// Takes chunks, gives frames.
#[derive(Debug)]
pub enum Framer {
    Sse(sse::Framer),
    Amazon(eventstream::Framer),
}

impl Default for Framer {
    fn default() -> Self {
        Framing::ServerSentEvents.framer()
    }
}

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    TooLarge(#[from] EventTooLarge),
    #[error("a message of the event stream is damaged: {0}")]
    Damaged(&'static str),
}

impl Framer {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Sse(framer) => framer.push(chunk),
            Self::Amazon(framer) => framer.push(&chunk),
        }
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// When the stream cannot be read any further.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        match self {
            Self::Sse(framer) => Ok(framer.next_frame()?),
            Self::Amazon(framer) => framer.next_frame(),
        }
    }

    /// The stream ended. What is pending counts as an event if it is one but for its end.
    pub fn finish(&mut self) -> Option<Frame> {
        match self {
            Self::Sse(framer) => framer.finish(),
            Self::Amazon(_) => None,
        }
    }
}
