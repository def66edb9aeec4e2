//! One request's way to a target.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_protocol::breaker::{End, Ticket};
use tokio::time::sleep;

use super::{Room, Target, lock};

/// So long a token of an answer takes that comes all at once, if nothing is wrong: what is left of the
/// time was before the first. Milliseconds.
const TOKEN_MS: u64 = 50;

/// Leave to send one request to a target. Dropped without a word of how it ended, it says nothing of
/// the target.
#[derive(Debug)]
pub struct Trip {
    target: Arc<Target>,
    ticket: Mutex<Option<Ticket>>,
    room: Option<Room>,
    prompt_tokens: u64,
}

impl Trip {
    pub(super) fn new(target: Arc<Target>, ticket: Ticket, prompt_tokens: u64) -> Self {
        Self { target, ticket: Mutex::new(Some(ticket)), room: None, prompt_tokens }
    }

    /// The room it has there, until it ends.
    pub fn takes(&mut self, room: Room) {
        self.room = Some(room);
    }

    /// Where it goes.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Does the breaker wait for it?
    pub fn is_probe(&self) -> bool {
        lock(&self.ticket).is_some_and(|ticket| ticket.is_probe())
    }

    /// Does the work. If its first event is late, that is told while it is still waited for: a target that
    /// hangs is noticed before its callers give up. `output_tokens` come before anything is seen.
    pub async fn watched<T>(&self, output_tokens: u64, work: impl Future<Output = T>) -> T {
        let slow_after_ms = lock(&self.ticket).map_or(u64::MAX, |ticket| ticket.slow_after_ms());
        let after_ms = slow_after_ms.saturating_add(output_tokens.saturating_mul(TOKEN_MS));
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(Duration::from_millis(after_ms)) => {}
        }
        if let Some(ticket) = lock(&self.ticket).as_mut() {
            let changed = self.target.breaker().late(ticket, boottime_ms());
            self.target.tell(&changed);
        }
        work.await
    }

    /// The first meaningful event has come, with so many tokens of an answer behind it that came all
    /// at once.
    pub fn first_event(&mut self, output_tokens: u64) {
        let mut ticket = lock(&self.ticket);
        let Some(ticket) = ticket.as_mut() else { return };
        let now_ms = boottime_ms();
        let took_ms = now_ms.saturating_sub(ticket.started_ms());
        let took_ms = took_ms.saturating_sub(output_tokens.saturating_mul(TOKEN_MS));
        lock(&self.target.breaks).went_well(now_ms);
        let changed = self.target.breaker().answered(ticket, took_ms, now_ms);
        self.target.tell(&changed);
        lock(&self.target.first_events).observe(took_ms, self.prompt_tokens, now_ms);
        if let Some(room) = &self.room {
            room.first_event(took_ms, self.prompt_tokens);
        }
    }

    /// It has ended so. Only the first word counts.
    pub fn ended(&mut self, end: End, full: bool) {
        if let Some(ticket) = lock(&self.ticket).take() {
            if end == End::Success {
                lock(&self.target.breaks).went_well(boottime_ms());
            }
            let changed = self.target.breaker().ended(ticket, end, boottime_ms());
            self.target.tell(&changed);
        }
        if let Some(room) = self.room.take()
            && full
        {
            room.refused();
        }
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        self.ended(End::Neutral, false);
    }
}
