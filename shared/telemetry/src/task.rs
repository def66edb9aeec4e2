//! Spawning: every task has a name and keeps the span it was started in.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// Spawns `future` onto the current runtime inside a span called `task` with this name. A panic
/// ends the task alone; it shows in the log through the panic hook and in the join handle.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future.instrument(tracing::debug_span!("task", name)))
}

/// Aborts the task when dropped: for work that must not outlive its owner.
#[derive(Debug)]
pub struct AbortOnDrop<T>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
