//! Holding a stream back until it says something.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::StreamExt;
use sluicegate_dialect::{
    Fault, StreamReader,
    dialect::StreamEvent,
    frame::{Frame, FrameError, Framer},
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
    /// The caller wants usage and is to have an estimate where the upstream reports none: the name
    /// of the model that it asked for.
    pub fill_usage: Option<String>,
    pub timeouts: Timeouts,
    pub started: Instant,
    /// When the whole request must have ended.
    pub total: Instant,
}

/// Reads until the first meaningful event.
///
/// # Errors
/// The stream fails, ends, or stays silent before it says anything.
pub(super) async fn open(attempt: &Attempt<'_>, head: Head) -> Result<OpenStream, Fault> {
    let provider = &attempt.choice.provider;
    let deadline = head_deadline(attempt);
    let mut stream = OpenStream {
        body: head.body,
        framer: provider.dialect.framing().framer(),
        reader: provider.dialect.stream(attempt.call, &attempt.translated.sent, &head.headers),
        held: VecDeque::new(),
        done: false,
        fill_usage: (attempt.fills_usage && attempt.call.stream_options.wants_usage())
            .then(|| attempt.call.model.clone()),
        timeouts: provider.timeouts,
        started: attempt.started,
        total: attempt.total,
    };
    let mut held = 0;
    loop {
        while let Some(frame) = stream.framer.next_frame().map_err(unreadable)? {
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
                // An answer that says nothing may be whole, where the end of the body is the end.
                if stream.reader.whole() {
                    stream.done = true;
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
                if frame.data().is_some() && !bytes.is_empty() {
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

fn unreadable(error: FrameError) -> Fault {
    Fault::new(Outcome::ProviderError, error.to_string())
}
