//! Holding a stream back until it says something.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::StreamExt;
use sluicegate_dialect::{
    Fault, StreamReader,
    dialect::StreamEvent,
    sse::{Frame, Framer},
};
use sluicegate_model::{Outcome, resource::Timeouts};
use tokio::time::{Instant, timeout_at};

use super::{
    Attempt,
    send::{Head, head_deadline},
};
use crate::upstream::decode::Decoded;

/// Most preamble that is held back, in bytes. A stream that says so much without saying anything
/// is relayed as it is.
const MAX_HELD: usize = 64 * 1024;

/// A stream whose first meaningful event is there.
#[derive(Debug)]
pub struct OpenStream {
    pub body: Decoded,
    pub framer: Framer,
    pub reader: Box<dyn StreamReader>,
    /// Events for the caller, the first meaningful one last.
    pub held: VecDeque<Bytes>,
    /// The terminal event was among them.
    pub done: bool,
    pub timeouts: Timeouts,
    pub started: Instant,
    /// When the whole request must have ended.
    pub total: Instant,
}

/// Reads until the first meaningful event.
///
/// # Errors
/// The stream fails, ends, or stays silent before it says anything.
pub(super) async fn open(
    attempt: &Attempt<'_>,
    head: Head,
    hide_usage: bool,
) -> Result<OpenStream, Fault> {
    let provider = &attempt.choice.provider;
    let deadline = head_deadline(attempt);
    let mut stream = OpenStream {
        body: head.body,
        framer: Framer::default(),
        reader: provider.dialect.stream(attempt.call, hide_usage),
        held: VecDeque::new(),
        done: false,
        timeouts: provider.timeouts,
        started: attempt.started,
        total: attempt.total,
    };
    let mut held = 0;
    loop {
        while let Some(frame) = stream.framer.next_frame().map_err(too_large)? {
            if stream.admit(&frame, &mut held)? {
                return Ok(stream);
            }
        }
        let chunk = timeout_at(deadline, stream.body.next())
            .await
            .map_err(|_| Fault::new(Outcome::Timeout, "no meaningful event in time"))?;
        match chunk {
            Some(Ok(chunk)) => stream.framer.push(chunk),
            Some(Err(_)) => {
                return Err(Fault::new(
                    Outcome::Network,
                    "the connection broke before any content",
                ));
            }
            None => {
                if let Some(frame) = stream.framer.finish()
                    && stream.admit(&frame, &mut held)?
                {
                    return Ok(stream);
                }
                return Err(Fault::new(
                    Outcome::ProviderError,
                    "the stream ended before any content",
                ));
            }
        }
    }
}

impl OpenStream {
    /// Takes one frame in; true when it is time to commit.
    fn admit(&mut self, frame: &Frame, held: &mut usize) -> Result<bool, Fault> {
        match self.reader.read(frame) {
            StreamEvent::Preamble(bytes) => {
                // Comments keep connections alive; this one is not open yet.
                if frame.data().is_some() {
                    *held += bytes.len();
                    self.held.push_back(bytes);
                }
                Ok(*held > MAX_HELD)
            }
            StreamEvent::Content(bytes) => {
                self.held.push_back(bytes);
                Ok(true)
            }
            StreamEvent::Hidden => Ok(false),
            StreamEvent::Done if self.reader.complete() => {
                self.done = true;
                Ok(true)
            }
            StreamEvent::Done => {
                Err(Fault::new(Outcome::ProviderError, "the stream ended without any content"))
            }
            StreamEvent::Failed(fault) => Err(fault),
        }
    }
}

fn too_large(error: sluicegate_dialect::sse::EventTooLarge) -> Fault {
    Fault::new(Outcome::ProviderError, error.to_string())
}
