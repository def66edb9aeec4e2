//! A node's breaker with a clock.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    Changed, Directive, End, Local, Order, Reason, Refused, Settings, State, TargetKey, Ticket,
};

/// A breaker with a clock.
pub(crate) struct Node {
    pub(crate) local: Local,
    pub(crate) now_ms: u64,
}

impl Node {
    pub(crate) fn new(settings: Settings) -> Self {
        let local = Local::new(Arc::new(settings.checked().expect("settings that work")), 1);
        Self { local, now_ms: 1_000 }
    }

    pub(crate) fn usual() -> Self {
        Self::new(Settings::default())
    }

    pub(crate) fn try_enter(&mut self) -> Result<Ticket, Refused> {
        self.local.admit(100, self.now_ms).answer
    }

    pub(crate) fn enter(&mut self) -> Ticket {
        self.try_enter().expect("it is let in")
    }

    pub(crate) fn end(&mut self, ticket: Ticket, end: End) -> Changed {
        self.local.ended(ticket, end, self.now_ms)
    }

    /// A call that fails before its first event.
    pub(crate) fn fail(&mut self, end: End) -> Changed {
        let ticket = self.enter();
        self.end(ticket, end)
    }

    /// A call whose first event takes so long, and that then ends so.
    pub(crate) fn call(&mut self, took_ms: u64, end: End) -> Changed {
        let mut ticket = self.enter();
        self.now_ms += took_ms;
        let first = self.local.first_event(&mut ticket, self.now_ms);
        let last = self.end(ticket, end);
        if first.is_nothing() { last } else { first }
    }

    pub(crate) fn ok(&mut self) {
        self.call(0, End::Success);
    }

    /// Opens it for good reason.
    pub(crate) fn opened() -> Self {
        let mut node = Self::usual();
        assert_eq!(to(node.fail(End::EngineDead)), Some(State::Open));
        node
    }

    /// Waits until calls are let in again, as they come 10 a second, and gives the time it took.
    pub(crate) fn wait_for(&mut self, state: State) -> u64 {
        let from_ms = self.now_ms;
        while self.local.state() != state {
            self.now_ms += 100;
            assert!(self.now_ms < from_ms + 600_000, "stuck in {}", self.local.state());
            if let Ok(mut ticket) = self.try_enter() {
                self.local.first_event(&mut ticket, self.now_ms);
                self.end(ticket, End::Success);
            }
        }
        self.now_ms - from_ms
    }

    pub(crate) fn tick(&mut self) -> Changed {
        self.local.tick(self.now_ms)
    }

    pub(crate) fn obey(&mut self, generation: u64, order: Order) -> Changed {
        self.local.obey(&directive(generation, order, 30_000), self.now_ms)
    }
}

pub(crate) fn directive(generation: u64, order: Order, ttl_ms: u64) -> Directive {
    let target = TargetKey::new("p", "m");
    Directive { target, generation, order, ttl_ms, reason: String::new() }
}

pub(crate) fn to(changed: Changed) -> Option<State> {
    changed.transition.map(|transition| transition.to)
}

pub(crate) fn opened_by(changed: Changed) -> Option<Reason> {
    let open = changed.transition.filter(|transition| transition.to == State::Open);
    open.map(|transition| transition.reason)
}
