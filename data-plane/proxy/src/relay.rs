//! Sixth stage: upstream events to the caller, one at a time, each as soon as it is whole.
//!
//! The relay owns the request's report. Whatever happens to it, the answer is settled: when it
//! ends, when the upstream breaks off, when the caller leaves and it is dropped, when the caller
//! stays but takes nothing.

mod clocks;
mod course;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{attempt::OpenStream, report::Report, route::Choice, usage::UsageLog};
use course::Course;

/// How often streams are looked after that nobody asks for more.
const ROUND: Duration = Duration::from_secs(1);

/// One stream on its way to one caller.
#[derive(Debug)]
pub struct Relay(Arc<Mutex<Course>>);

impl Relay {
    /// Takes a stream over. `cut` ends it with an error event.
    pub fn new(
        stream: OpenStream,
        choice: Choice,
        report: Report,
        cut: CancellationToken,
        streams: &Streams,
    ) -> Self {
        let course = Arc::new(Mutex::new(Course::new(stream, choice, report, cut)));
        streams.add(&course);
        Self(course)
    }

    /// Has everything been said and taken?
    pub fn is_over(&self) -> bool {
        lock(&self.0).is_over()
    }

    /// The next event for the caller; `None` at the end.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        lock(&self.0).poll_frame(context)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        lock(&self.0).leave();
    }
}

/// Every running stream. A caller whose flow-control window is shut asks for nothing, so that none
/// of its stream's own clocks is looked at: someone else has to.
#[derive(Debug, Default)]
pub struct Streams(Mutex<Vec<Weak<Mutex<Course>>>>);

impl Streams {
    fn add(&self, course: &Arc<Mutex<Course>>) {
        lock(&self.0).push(Arc::downgrade(course));
    }

    /// Looks after the streams until it is dropped, and writes down how far each has come, so that
    /// what it used is known though the process should die.
    pub async fn look_after(&self, usage: &UsageLog) {
        loop {
            tokio::time::sleep(ROUND).await;
            let mut running = Vec::new();
            lock(&self.0).retain(|course| match course.upgrade() {
                Some(course) => {
                    running.push(course);
                    true
                }
                None => false,
            });
            let now = Instant::now();
            let mut progress = Vec::new();
            for course in running {
                let mut course = lock(&course);
                course.check(now);
                progress.extend(course.progress());
            }
            usage.progress(&progress);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
