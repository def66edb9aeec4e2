//! The calls of one upstream, shared between its connections and the tests that wait for them.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::call::Call;

#[derive(Debug)]
pub(super) struct CallLog {
    calls: Mutex<Vec<Call>>,
    changed: watch::Sender<()>,
}

impl Default for CallLog {
    fn default() -> Self {
        Self { calls: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl CallLog {
    pub(super) fn read<T>(&self, read: impl FnOnce(&[Call]) -> T) -> T {
        read(&self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a call under the next number.
    pub(super) fn add(&self, mut call: Call) -> Call {
        self.change(|calls| {
            call.number = calls.len();
            calls.push(call.clone());
            call
        })
    }

    pub(super) fn update(&self, number: usize, update: impl FnOnce(&mut Call)) {
        self.change(|calls| calls.get_mut(number).map(update));
    }

    pub(super) async fn wait_until(&self, done: impl Fn(&[Call]) -> bool) {
        let mut changed = self.changed.subscribe();
        // The sender lives in `self`, so the channel stays open.
        while !self.read(&done) && changed.changed().await.is_ok() {}
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Call>) -> T) -> T {
        let result = change(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.send_replace(());
        result
    }
}
