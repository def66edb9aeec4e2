//! The clocks of a running stream.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use sluicegate_model::resource::Timeouts;
use tokio::time::{Instant, Sleep};

/// What is said when the total time is over.
pub(super) const TOTAL: &str = "the request took longer than its total time";
/// Silence that is borne after the last finish reason.
const GRACE: Duration = Duration::from_secs(2);

/// The clocks of a running stream. They count only while the relay waits for the upstream: a slow
/// reader does not make the upstream late.
pub(super) struct Clocks {
    timeouts: Timeouts,
    total: Instant,
    waiting_since: Option<Instant>,
    progress_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Clocks {
    pub(super) fn new(timeouts: Timeouts, total: Instant) -> Self {
        let now = Instant::now();
        Self {
            timeouts,
            total,
            waiting_since: None,
            progress_at: now,
            timer: Box::pin(tokio::time::sleep_until(now + timeouts.idle)),
        }
    }

    pub(super) fn heard(&mut self) {
        self.waiting_since = None;
    }

    /// When the request must have ended.
    pub(super) fn total(&self) -> Instant {
        self.total
    }

    /// Every choice has finished: usage and the terminal event get a moment to come.
    pub(super) fn only_the_end_is_missing(&mut self) {
        self.timeouts.idle = self.timeouts.idle.min(GRACE);
    }

    pub(super) fn progressed(&mut self) {
        self.progress_at = Instant::now();
    }

    /// Ready with what ran out. The timer is set anew only when it fires too early, not for each
    /// chunk.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
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
                return Poll::Ready(TOTAL);
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
