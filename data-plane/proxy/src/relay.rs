//! Sixth stage: upstream events to the caller, one at a time, each as soon as it is whole.
//!
//! The relay owns the request's report. Whatever happens to it, the answer is settled: when it
//! ends, when the upstream breaks off, when the caller leaves and it is dropped.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sluicegate_dialect::{
    Fault, StreamReader,
    dialect::StreamEvent,
    sse::{Frame, Framer, write_event},
};
use sluicegate_model::{Outcome, resource::Timeouts};
use sluicegate_telemetry::task;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    attempt::OpenStream,
    refusal::Refusal,
    report::Report,
    route::Choice,
    settle::{Estimate, settle},
    upstream::decode::Decoded,
};

/// How long a connection whose answer is over may take to end its body and be used again.
const LINGER: Duration = Duration::from_millis(500);

/// One stream on its way to one caller.
pub struct Relay {
    upstream: Option<Decoded>,
    framer: Framer,
    reader: Box<dyn StreamReader>,
    ready: VecDeque<Bytes>,
    over: bool,
    clocks: Clocks,
    /// Fires when the process cannot wait for streams any longer.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    report: Option<Report>,
    estimate: Estimate,
    choice: Choice,
    started: Instant,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("choice", &self.choice)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Takes a stream over. `cut` ends it with an error event.
    pub fn new(
        stream: OpenStream,
        choice: Choice,
        estimate: Estimate,
        report: Report,
        cut: CancellationToken,
    ) -> Self {
        let mut relay = Self {
            upstream: Some(stream.body),
            framer: stream.framer,
            reader: stream.reader,
            ready: VecDeque::new(),
            over: false,
            clocks: Clocks::new(stream.timeouts, stream.total),
            cut: Box::pin(cut.cancelled_owned()),
            report: Some(report),
            estimate,
            choice,
            started: stream.started,
        };
        relay.note(|report| {
            report.record.malformed_events = stream.malformed;
            report.record.events = stream.held.len() as u64;
        });
        relay.ready = stream.held;
        if stream.done {
            relay.done();
        } else {
            // What came together with the first meaningful event.
            relay.read_frames();
        }
        relay
    }

    /// Has everything been said and taken?
    pub fn is_over(&self) -> bool {
        self.over && self.ready.is_empty()
    }

    /// The next event for the caller; `None` at the end.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(bytes));
            }
            if self.over {
                self.release();
                return Poll::Ready(None);
            }
            if self.cut.as_mut().poll(context).is_ready() {
                self.fail(Refusal::ShuttingDown, Outcome::StreamInterrupted);
                continue;
            }
            match self.poll_upstream(context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    self.clocks.heard();
                    self.framer.push(chunk);
                    self.read_frames();
                }
                Poll::Ready(Some(Err(_))) => {
                    self.interrupted(
                        Outcome::StreamInterrupted,
                        "the connection broke within the stream",
                    );
                }
                Poll::Ready(None) => self.ended(),
                Poll::Pending => match self.clocks.poll(context) {
                    Poll::Ready(reason) => self.interrupted(Outcome::Timeout, reason),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    fn poll_upstream(&mut self, context: &mut Context<'_>) -> Poll<Option<std::io::Result<Bytes>>> {
        match &mut self.upstream {
            Some(body) => Pin::new(body).poll_next(context),
            None => Poll::Ready(None),
        }
    }

    fn read_frames(&mut self) {
        while !self.over {
            match self.framer.next_frame() {
                Ok(Some(frame)) => self.read(&frame),
                Ok(None) => return,
                Err(error) => self.interrupted(Outcome::StreamInterrupted, &error.to_string()),
            }
        }
    }

    fn read(&mut self, frame: &Frame) {
        match self.reader.read(frame) {
            StreamEvent::Preamble(bytes) => self.emit(bytes),
            StreamEvent::Content(bytes) => {
                self.clocks.progressed();
                self.emit(bytes);
            }
            StreamEvent::Hidden => {}
            StreamEvent::Malformed => self.note(|report| {
                report.record.malformed_events += 1;
                report.metrics().malformed_events.inc();
            }),
            StreamEvent::Done => self.done(),
            StreamEvent::Failed(fault) => {
                let outcome = fault.outcome;
                let provider = self.choice.provider.name.clone();
                self.fail(Refusal::Upstream { fault, provider }, outcome);
            }
        }
    }

    fn emit(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.ready.push_back(bytes);
            self.note(|report| report.record.events += 1);
        }
    }

    /// The terminal event came.
    fn done(&mut self) {
        let outcome =
            if self.reader.complete() { Outcome::Success } else { Outcome::NoFinishReason };
        self.ready.push_back(write_event(None, b"[DONE]"));
        self.finish(outcome);
    }

    /// The upstream's body ended.
    fn ended(&mut self) {
        if let Some(frame) = self.framer.finish() {
            self.read(&frame);
        }
        if self.over {
            return;
        }
        if self.reader.complete() {
            // The proof is there; only the formality is missing.
            self.done();
        } else {
            self.interrupted(
                Outcome::StreamInterrupted,
                "the stream ended without a finish reason",
            );
        }
    }

    fn interrupted(&mut self, outcome: Outcome, reason: &str) {
        let fault = Fault::new(outcome, reason);
        let provider = self.choice.provider.name.clone();
        self.fail(Refusal::Upstream { fault, provider }, outcome);
    }

    /// Ends the stream with an error event. There is no `[DONE]` after it: nothing is done.
    fn fail(&mut self, refusal: Refusal, outcome: Outcome) {
        let mut id = String::new();
        self.note(|report| {
            id.clone_from(&report.record.request_id);
            report.record.error_code = Some(refusal.code().to_owned());
            if let Refusal::Upstream { fault, .. } = &refusal {
                let reason = fault.message.as_deref().map(sluicegate_dialect::redact::message);
                report.record.reason.clone_from(&reason);
                if let Some(attempt) = report.record.attempts.last_mut() {
                    attempt.reason = reason;
                }
            }
        });
        self.ready.push_back(refusal.into_event(&id));
        // What is still to come is not wanted: close the connection.
        self.upstream = None;
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        self.over = true;
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        let Some(report) = &mut self.report else { return };
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.record.outcome = outcome.name();
        report.record.finish_reason = self.reader.finish_reason().map(str::to_owned);
        report.metrics().attempted(&self.choice.provider.name, outcome);
        if let Some(attempt) = report.record.attempts.last_mut() {
            attempt.outcome = outcome.name();
            attempt.status = Some(200);
            attempt.duration_ms = elapsed;
        }
        settle(report, self.reader.usage(), self.estimate, self.reader.output_chars());
    }

    /// Everything was taken: the record is complete, and the connection may be used again once its
    /// body has ended.
    fn release(&mut self) {
        if let Some(report) = self.report.take() {
            report.finish();
        }
        if let Some(mut body) = self.upstream.take() {
            task::spawn("upstream-linger", async move {
                let rest = async { while let Some(Ok(_)) = body.next().await {} };
                // Out of time: dropping the body closes the connection.
                let _in_time = tokio::time::timeout(LINGER, rest).await.is_ok();
            });
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut Report)) {
        if let Some(report) = &mut self.report {
            write(report);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.over {
            // The caller left: what passed until now is what it cost.
            self.settle(Outcome::ClientCancelled);
        }
    }
}

/// The clocks of a running stream. They count only while the relay waits for the upstream: a slow
/// reader does not make the upstream late.
struct Clocks {
    timeouts: Timeouts,
    total: Instant,
    waiting_since: Option<Instant>,
    progress_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Clocks {
    fn new(timeouts: Timeouts, total: Instant) -> Self {
        let now = Instant::now();
        Self {
            timeouts,
            total,
            waiting_since: None,
            progress_at: now,
            timer: Box::pin(tokio::time::sleep_until(now + timeouts.idle)),
        }
    }

    fn heard(&mut self) {
        self.waiting_since = None;
    }

    fn progressed(&mut self) {
        self.progress_at = Instant::now();
    }

    /// Ready with what ran out. The timer is set anew only when it fires too early, not for each
    /// chunk.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        let waiting_since = *self.waiting_since.get_or_insert_with(Instant::now);
        let idle = waiting_since + self.timeouts.idle;
        let progress = self.progress_at + self.timeouts.progress;
        let next = idle.min(progress).min(self.total);
        if next < self.timer.deadline() {
            self.timer.as_mut().reset(next);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if now >= self.total {
                return Poll::Ready("the request took longer than its total time");
            }
            if now >= idle {
                return Poll::Ready("the stream fell silent");
            }
            if now >= progress {
                return Poll::Ready("the stream made no progress");
            }
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }
}
