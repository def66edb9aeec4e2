//! A stream's course: from upstream chunks to events for the caller, to its end.

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
    fill,
    frame::{Frame, Framer},
    sse::write_event,
};
use sluicegate_model::{Outcome, StreamEnd};
use sluicegate_telemetry::task;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::clocks::{self, Clocks};
use crate::{
    attempt::OpenStream, refusal::Refusal, report::Report, route::Choice, settle::settle,
    upstream::decode::Decoded,
};

/// How long a connection whose answer is over may take to end its body and be used again.
const LINGER: Duration = Duration::from_millis(500);
/// How long a caller may take nothing.
const STALLED: Duration = Duration::from_secs(60);

/// One stream's whole state.
pub(super) struct Course {
    upstream: Option<Decoded>,
    framer: Framer,
    reader: Box<dyn StreamReader>,
    ready: VecDeque<Bytes>,
    over: bool,
    /// The model's name, where usage is to be filled in.
    fill_usage: Option<String>,
    clocks: Clocks,
    /// Fires when the process cannot wait for streams any longer.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    report: Option<Report>,
    /// Tokens of output that were written down.
    noted: u64,
    choice: Choice,
    started: Instant,
    /// When the caller's connection last asked for more.
    polled_at: Instant,
}

impl std::fmt::Debug for Course {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Course")
            .field("choice", &self.choice)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Course {
    pub(super) fn new(
        stream: OpenStream,
        choice: Choice,
        report: Report,
        cut: CancellationToken,
    ) -> Self {
        let mut course = Self {
            upstream: Some(stream.body),
            framer: stream.framer,
            reader: stream.reader,
            ready: VecDeque::new(),
            over: false,
            fill_usage: stream.fill_usage,
            clocks: Clocks::new(stream.timeouts, stream.total),
            cut: Box::pin(cut.cancelled_owned()),
            report: Some(report),
            noted: 0,
            choice,
            started: stream.started,
            polled_at: Instant::now(),
        };
        course.note(|report| {
            report.record.events = stream.held.len() as u64;
        });
        course.ready = stream.held;
        if stream.done {
            course.done();
        } else {
            // What came together with the first meaningful event.
            course.read_frames();
        }
        course
    }

    /// Has everything been said and taken?
    pub(super) fn is_over(&self) -> bool {
        self.over && self.ready.is_empty()
    }

    /// The next event for the caller; `None` at the end.
    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.polled_at = Instant::now();
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                if self.is_over() {
                    // Nobody need ask again: the last event ends the body.
                    self.release();
                }
                return Poll::Ready(Some(bytes));
            }
            if self.over {
                self.release();
                return Poll::Ready(None);
            }
            if self.cut.as_mut().poll(context).is_ready() {
                if self.reader.whole() {
                    // Only the upstream's word for it is missing.
                    self.upstream = None;
                    self.done();
                    continue;
                }
                self.fail(Refusal::ShuttingDown, Outcome::StreamInterrupted);
                continue;
            }
            if self.polled_at >= self.clocks.total() {
                // An upstream that always has more would otherwise never let the clock be asked.
                self.interrupted(Outcome::Timeout, clocks::TOTAL);
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
                if self.reader.whole() {
                    self.clocks.only_the_end_is_missing();
                }
            }
            StreamEvent::Hidden => {}
            StreamEvent::Done => self.done(),
            StreamEvent::Failed(fault) => {
                let fault = self.choice.scrubbed(fault);
                let outcome = fault.outcome;
                self.choice.condemns(&fault);
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
        let trusts_done = self.choice.provider.profile.stream_end != StreamEnd::Finish;
        let outcome = if self.reader.complete() || trusts_done {
            Outcome::Success
        } else {
            Outcome::NoFinishReason
        };
        if let Some(bytes) = self.reader.tail() {
            self.emit(bytes);
        }
        self.fill_usage();
        self.ready.push_back(write_event(None, b"[DONE]"));
        self.finish(outcome);
    }

    /// Tells the caller an estimate, where it wants usage and the upstream reported none.
    fn fill_usage(&mut self) {
        let Some(model) = self.fill_usage.take().filter(|_| self.reader.usage().is_none()) else {
            return;
        };
        let chars = self.reader.output_chars();
        let bill = self.report.as_ref().and_then(|report| report.bill.as_ref());
        if let Some(usage) = bill.map(|bill| bill.believed(None, chars).0) {
            self.emit(fill::chunk(&model, usage));
        }
    }

    /// The upstream's body ended.
    fn ended(&mut self) {
        if let Some(frame) = self.framer.finish() {
            self.read(&frame);
        }
        if self.over {
            return;
        }
        if self.choice.provider.profile.stream_end == StreamEnd::Close {
            return self.done();
        }
        self.interrupted(Outcome::StreamInterrupted, "the stream ended without a finish reason");
    }

    /// The stream broke off, unless the proof was there already: then only its end is untidy.
    fn interrupted(&mut self, outcome: Outcome, reason: &str) {
        if self.reader.whole() {
            self.upstream = None;
            self.done();
            return;
        }
        let fault = Fault::new(outcome, reason);
        if reason == clocks::TOTAL {
            // That an answer is long is nobody's failure.
            self.choice.ended(&Fault::new(Outcome::ClientCancelled, reason));
        }
        let provider = self.choice.provider.name.clone();
        self.fail(Refusal::Upstream { fault, provider }, outcome);
    }

    /// Ends the stream with an error event. There is no `[DONE]` after it: nothing is done.
    fn fail(&mut self, refusal: Refusal, outcome: Outcome) {
        if let Refusal::Upstream { fault, .. } = &refusal {
            self.choice.ended(fault);
        }
        let mut id = String::new();
        self.note(|report| {
            id.clone_from(&report.record.request_id);
            report.record.error_code = Some(refusal.code());
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

    /// Called from outside now and then: gives up on a caller that takes nothing, whose connection
    /// therefore asks for nothing.
    pub(super) fn check(&mut self, now: Instant) {
        if self.over {
            return;
        }
        if now >= self.clocks.total() {
            self.interrupted(Outcome::Timeout, clocks::TOTAL);
        } else if now.duration_since(self.polled_at) >= STALLED {
            self.fail(Refusal::SlowReader, Outcome::ClientCancelled);
        }
        if self.over {
            // Nobody may ever come for what is left to say.
            self.release();
        }
    }

    /// Request, attempt and tokens of output, if there are more of them than were told before.
    pub(super) fn progress(&mut self) -> Option<(u64, u32, u64)> {
        let bill = self.report.as_ref()?.bill.as_ref()?;
        let (request, attempt) = bill.running()?;
        let tokens = self.reader.output_chars().div_ceil(4);
        (std::mem::replace(&mut self.noted, tokens) != tokens).then_some((request, attempt, tokens))
    }

    /// The caller's connection lets go: what passed until now is what it cost.
    pub(super) fn leave(&mut self) {
        if !self.over {
            self.settle(Outcome::ClientCancelled);
            // The upstream must not go on for nobody.
            self.upstream = None;
        }
        self.release();
    }

    fn settle(&mut self, outcome: Outcome) {
        let Some(report) = &mut self.report else { return };
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.record.outcome = outcome.name();
        report.record.finish_reason = self.reader.finish_reason().map(str::to_owned);
        report.metrics().attempted(&self.choice.provider.name, outcome);
        self.choice.ended(&Fault::new(outcome, String::new()));
        if let Some(attempt) = report.record.attempts.last_mut() {
            attempt.outcome = outcome.name();
            attempt.status = Some(200);
            attempt.duration_ms = elapsed;
        }
        settle(report, self.reader.usage(), self.reader.output_chars());
    }

    /// Everything was taken: the record is complete, and the connection may be used again once its
    /// body has ended.
    fn release(&mut self) {
        if let Some(report) = self.report.take() {
            report.finish();
        }
        let in_runtime = tokio::runtime::Handle::try_current().is_ok();
        if let Some(mut body) = self.upstream.take().filter(|_| in_runtime) {
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
