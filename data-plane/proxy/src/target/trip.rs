//! One request's way to a target.

use std::sync::Arc;

use sluicegate_journal::clock::boottime_ms;
use sluicegate_protocol::breaker::{End, Ticket};

use super::{Room, Target, lock};

/// Leave to send one request to a target. Dropped without a word of how it ended, it says nothing of
/// the target.
#[derive(Debug)]
pub struct Trip {
    target: Arc<Target>,
    ticket: Option<Ticket>,
    room: Option<Room>,
    prompt_tokens: u64,
}

impl Trip {
    pub(super) fn new(target: Arc<Target>, ticket: Ticket, prompt_tokens: u64) -> Self {
        Self { target, ticket: Some(ticket), room: None, prompt_tokens }
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
        self.ticket.is_some_and(|ticket| ticket.is_probe())
    }

    /// The first meaningful event has come.
    pub fn first_event(&mut self) {
        let Some(ticket) = &mut self.ticket else { return };
        let now_ms = boottime_ms();
        let took_ms = now_ms.saturating_sub(ticket.started_ms());
        let changed = self.target.breaker().first_event(ticket, now_ms);
        self.target.tell(&changed);
        lock(&self.target.first_events).observe(took_ms, self.prompt_tokens, now_ms);
        if let Some(room) = &self.room {
            room.first_event(took_ms, self.prompt_tokens);
        }
    }

    /// It has ended so. Only the first word counts.
    pub fn ended(&mut self, end: End, full: bool) {
        if let Some(ticket) = self.ticket.take() {
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
