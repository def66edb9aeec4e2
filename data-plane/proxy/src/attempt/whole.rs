//! Answers that come all at once.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use sluicegate_dialect::{
    Fault, Framing, StreamEvent, frame::FrameError, openai_chat::restream, sse::write_event,
};
use sluicegate_model::{Outcome, Usage};
use tokio::time::timeout_at;

use super::{Attempt, send::Head};

/// Largest answer that is accepted, in bytes.
const MAX_ANSWER: usize = 128 * 1024 * 1024;

/// A whole answer, checked.
#[derive(Debug)]
pub struct WholeAnswer {
    pub body: Bytes,
    /// The body is a stream's events, made from an answer that was none.
    pub is_stream: bool,
    pub usage: Option<Usage>,
    pub finish_reason: Option<String>,
    /// Characters of the answer's text, for estimates.
    pub output_chars: u64,
    /// The caller is to have an estimate where the upstream reports no usage.
    pub fills_usage: bool,
    /// When the attempt began.
    pub started: tokio::time::Instant,
}

/// Reads and checks the body.
///
/// # Errors
/// It breaks off, is too large, too late, or is no answer.
pub(super) async fn read(attempt: &Attempt<'_>, mut head: Head) -> Result<WholeAnswer, Fault> {
    let timeouts = &attempt.choice.provider.timeouts;
    let deadline = (attempt.started + timeouts.answer).min(attempt.total);
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    loop {
        let chunk = timeout_at(deadline, head.body.next())
            .await
            .map_err(|_| Fault::new(Outcome::Timeout, "the answer did not end in time"))?;
        let chunk = match chunk {
            None => break,
            Some(Ok(chunk)) => chunk,
            Some(Err(_)) => {
                return Err(Fault::new(Outcome::Network, "the connection broke within the answer"));
            }
        };
        // A body in one piece is passed on without a copy.
        match first.take() {
            None if joined.is_empty() => first = Some(chunk),
            None => joined.extend_from_slice(&chunk),
            Some(earlier) => {
                joined.reserve(earlier.len() + chunk.len());
                joined.extend_from_slice(&earlier);
                joined.extend_from_slice(&chunk);
            }
        }
        if joined.len() > MAX_ANSWER {
            return Err(Fault::new(Outcome::ProviderError, "the answer is larger than 128 MiB"));
        }
    }
    let body = first.unwrap_or_else(|| joined.freeze());
    check(attempt, &head, &body)
}

/// Is it a stream of events that calls itself something else?
fn is_events(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let fields: [&[u8]; 4] = [b"data:", b"event:", b"id:", b":"];
    fields.iter().any(|field| start.starts_with(field))
}

/// Reads a stream that has come whole.
fn replay(attempt: &Attempt<'_>, head: &Head, body: &Bytes) -> Result<WholeAnswer, Fault> {
    let dialect = attempt.choice.provider.dialect;
    let mut reader = dialect.stream(attempt.call, &attempt.translated.sent, &head.headers);
    let mut framer = Framing::ServerSentEvents.framer();
    framer.push(body.clone());
    let mut events = BytesMut::with_capacity(body.len());
    let unreadable = |error: FrameError| Fault::new(Outcome::ProviderError, error.to_string());
    while let Some(frame) = framer.next_frame().map_err(unreadable)?.or_else(|| framer.finish()) {
        match reader.read(&frame) {
            StreamEvent::Preamble(bytes) | StreamEvent::Content(bytes) => {
                events.extend_from_slice(&bytes);
            }
            StreamEvent::Hidden => {}
            StreamEvent::Done => break,
            StreamEvent::Failed(fault) => return Err(fault),
        }
    }
    if !reader.complete() {
        let message = "the stream ended without a finish reason";
        return Err(Fault::new(Outcome::StreamInterrupted, message));
    }
    events.extend_from_slice(&reader.tail().unwrap_or_default());
    events.extend_from_slice(&write_event(None, b"[DONE]"));
    Ok(WholeAnswer {
        body: events.freeze(),
        is_stream: true,
        usage: reader.usage(),
        finish_reason: reader.finish_reason().map(str::to_owned),
        output_chars: reader.output_chars(),
        fills_usage: false,
        started: attempt.started,
    })
}

fn check(attempt: &Attempt<'_>, head: &Head, body: &Bytes) -> Result<WholeAnswer, Fault> {
    let dialect = attempt.choice.provider.dialect;
    let endpoint = attempt.call.endpoint;
    let status = Some(head.status.as_u16());
    if attempt.call.stream && is_events(body) {
        return replay(attempt, head, body).map_err(|fault| Fault { status, ..fault });
    }
    let mut answer = dialect
        .answer(attempt.call, &head.headers, body)
        .map_err(|fault| Fault { status, ..fault })?;
    if attempt.call.stream {
        let with_usage = !attempt.translated.sent.hide_usage;
        let events = restream::events(endpoint, &answer.body, with_usage).ok_or_else(|| {
            Fault::new(Outcome::ProviderError, "the provider ignored the wish for a stream")
        })?;
        let done = write_event(None, b"[DONE]");
        answer.body =
            events.iter().chain([&done]).flat_map(|event| event.iter().copied()).collect();
    }
    Ok(WholeAnswer {
        body: answer.body,
        is_stream: attempt.call.stream,
        usage: answer.usage,
        finish_reason: answer.finish_reason,
        output_chars: answer.output_chars,
        fills_usage: attempt.fills_usage && !attempt.call.stream,
        started: attempt.started,
    })
}
