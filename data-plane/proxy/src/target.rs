//! Targets as they stand, whatever becomes of the policy: whether they are left alone, how much is under
//! way, how quick they are.
//!
//! A target is a provider with one of its models. What a request learns of it is told through its
//! [`Trip`], which says nothing when it is dropped.

mod breaks;
mod check;
mod choosing;
mod client;
mod end;
mod log;
mod outbox;
mod ping;
mod poison;
mod registry;
mod trip;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sluicegate_flow::{
    admission::View,
    choice::{Candidate, FirstEvents},
    gate::{self, Gate},
};
use sluicegate_journal::clock::boottime_ms;
use sluicegate_protocol::breaker::{Changed, Local, Refused, State, TargetKey};

use breaks::Breaks;
pub(crate) use breaks::SETTLING;
pub use choosing::Choosing;
pub use client::{Exchange, TargetClient};
pub use end::end_of;
pub use log::Log;
pub use outbox::Outbox;
pub use poison::{Guard, Suspect};
pub use registry::Targets;
pub use trip::Trip;

/// One target.
#[derive(Debug)]
pub struct Target {
    pub key: TargetKey,
    /// The same on every data plane.
    id: u64,
    breaker: Mutex<Local>,
    gate: Arc<Gate>,
    first_events: Mutex<FirstEvents>,
    breaks: Mutex<Breaks>,
    watcher: Arc<dyn Watcher>,
}

/// How a target, or several of them, stand to what can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is left alone.
    Down,
    /// It has no room, or others wait for it.
    Full,
    /// So many requests are there, of so many that may be.
    Free { used: u64, most: u64 },
}

impl Standing {
    /// How this one and another stand together.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Free { used, most }, Self::Free { used: more, most: others }) => {
                Self::Free { used: used.saturating_add(more), most: most.saturating_add(others) }
            }
            (free @ Self::Free { .. }, _) | (_, free @ Self::Free { .. }) => free,
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (Self::Down, Self::Down) => Self::Down,
        }
    }
}

/// Who is told of what happens to targets.
pub trait Watcher: std::fmt::Debug + Send + Sync {
    /// A breaker has changed, or a probe has ended.
    fn changed(&self, target: &TargetKey, changed: &Changed);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Quiet;

impl Watcher for Quiet {
    fn changed(&self, _: &TargetKey, _: &Changed) {}
}

impl Target {
    fn new(key: TargetKey, breaker: Local, gate: Arc<Gate>, watcher: Arc<dyn Watcher>) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self {
            id: hasher.finish(),
            key,
            breaker: Mutex::new(breaker),
            gate,
            first_events: Mutex::default(),
            breaks: Mutex::default(),
            watcher,
        }
    }

    /// Leave to send it a request.
    ///
    /// # Errors
    /// It is left alone; until when, and why.
    pub fn admit(self: &Arc<Self>, prompt_tokens: u64) -> Result<Trip, Refused> {
        let admission = self.breaker().admit(prompt_tokens, boottime_ms());
        self.tell(&admission.changed);
        Ok(Trip::new(self.clone(), admission.answer?, prompt_tokens))
    }

    /// The door of its room.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// As a candidate of a choice.
    fn candidate(&self, weight: u32, prompt_tokens: u64, timed: bool) -> Candidate {
        let now_ms = boottime_ms();
        let percent = {
            let mut breaker = self.breaker();
            let changed = breaker.tick(now_ms);
            // The one who finds out whether it is well again.
            let percent = if breaker.wants_probe() { 100 } else { breaker.weight_percent() };
            drop(breaker);
            self.tell(&changed);
            percent
        };
        Candidate {
            id: self.id,
            weight,
            percent,
            busy_tokens: self.gate.view().used.tokens,
            first_event_ms: if timed {
                lock(&self.first_events).estimate(prompt_tokens, now_ms)
            } else {
                None
            },
        }
    }

    /// May something be sent there that can wait?
    pub fn standing(&self) -> Standing {
        let (changed, is_up) = {
            let mut breaker = self.breaker();
            let changed = breaker.tick(boottime_ms());
            // Probes are for requests that somebody waits for, and for the fleet's own.
            (changed, breaker.weight_percent() > 0)
        };
        self.tell(&changed);
        let View { used, limits, waiting, .. } = self.gate.view();
        let has_tokens = limits.tokens.is_none_or(|most| used.tokens < most);
        let (used, most) = (used.requests, limits.requests.unwrap_or(u64::MAX));
        if !is_up {
            Standing::Down
        } else if used < most && has_tokens && waiting == 0 {
            Standing::Free { used, most }
        } else {
            Standing::Full
        }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.breaker().state()
    }

    /// Would the next request be a probe?
    fn wants_probe(&self) -> bool {
        self.breaker().wants_probe()
    }

    /// Does something to its breaker, and tells what that changed.
    fn change(&self, change: impl FnOnce(&mut Local, u64) -> Changed) {
        let changed = change(&mut self.breaker(), boottime_ms());
        self.tell(&changed);
    }

    /// The connection of a request that is under way broke. `true`: enough are under way for that to be
    /// the target's death, which is known once others have had the time to break.
    pub fn broke(&self, suspect: &Suspect) -> bool {
        lock(&self.breaks).broke(suspect.number(), boottime_ms());
        self.breaker().in_flight() > 3
    }

    /// How many others broke together with one that did.
    fn broken_others(&self) -> u32 {
        lock(&self.breaks).others(boottime_ms())
    }

    /// What is under way and what waits.
    pub fn load(&self) -> View {
        self.gate.view()
    }

    fn breaker(&self) -> MutexGuard<'_, Local> {
        lock(&self.breaker)
    }

    fn tell(&self, changed: &Changed) {
        if !changed.is_nothing() {
            self.watcher.changed(&self.key, changed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room at a target.
pub(crate) type Room = gate::Guard;
