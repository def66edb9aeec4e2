//! Answers that come all at once.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use sluicegate_dialect::{Fault, openai_chat::restream, sse::write_event};
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

fn check(attempt: &Attempt<'_>, head: &Head, body: &Bytes) -> Result<WholeAnswer, Fault> {
    let dialect = attempt.choice.provider.dialect;
    let endpoint = attempt.call.endpoint;
    let status = Some(head.status.as_u16());
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
