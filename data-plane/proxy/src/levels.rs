//! How far degradations have gone, as this data plane is told it, and what it tells of what makes them
//! go further.
//!
//! Levels are believed for as long as they are repeated. What an operator has set comes with the policy
//! and ends by its own time: it needs no control plane.

mod client;
mod timed_out;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::ArcSwap;
use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::resource::{Degradation, degradation::Level};
use sluicegate_protocol::degrade::{Directive, Effect, Held, effect};
use sluicegate_telemetry::clock;

use crate::policy::Policy;

pub use client::{LevelsClient, Teller};
pub use timed_out::TimedOut;

/// The levels of all degradations.
#[derive(Debug, Default)]
pub struct Levels {
    held: ArcSwap<Held>,
    /// Without any there is nothing to look at.
    any: AtomicBool,
}

impl Levels {
    /// What is done to a request for this model, by its public name, of a caller with these tenants, its
    /// own and those above. Mostly nothing, and that takes a load or two.
    pub fn effect<'p>(&self, policy: &'p Policy, model: &str, tenants: &[String]) -> Effect<'p> {
        if policy.degradations.is_empty() || !self.may_hold(policy) {
            return Effect::Nothing;
        }
        let held = self.held.load();
        let (now_ms, unix_ms) = (boottime_ms(), clock::unix_ms());
        let levels: Vec<_> = policy
            .degradations
            .iter()
            .map(|one| (one, level(one, &held, now_ms, unix_ms)))
            .filter(|(_, level)| *level != Level::Normal)
            .collect();
        if levels.is_empty() {
            return Effect::Nothing;
        }
        let tenants: Vec<_> = tenants.iter().map(String::as_str).collect();
        let of = |name: &str| {
            let found = levels.iter().find(|(one, _)| one.name == name);
            found.map_or(Level::Normal, |(_, level)| *level)
        };
        effect(levels.iter().map(|(one, _)| *one), model, &tenants, of)
    }

    /// Each degradation of a policy with its level.
    pub fn all<'p>(&self, policy: &'p Policy) -> Vec<(&'p str, Level)> {
        let held = self.held.load();
        let (now_ms, unix_ms) = (boottime_ms(), clock::unix_ms());
        let level = |one: &'p Degradation| (one.name.as_str(), level(one, &held, now_ms, unix_ms));
        policy.degradations.iter().map(level).collect()
    }

    fn may_hold(&self, policy: &Policy) -> bool {
        self.any.load(Ordering::Relaxed) || policy.degraded_by_hand_until.is_some()
    }

    /// Takes in what is told, and tells what has changed by it. Only one task may.
    fn take(&self, directives: Vec<Directive>) -> Vec<(String, Level)> {
        let now_ms = boottime_ms();
        let mut held = Held::clone(&self.held.load());
        let mut changed = Vec::new();
        for directive in directives {
            let (name, level) = (directive.name.clone(), directive.level);
            if held.take(directive, now_ms) {
                changed.push((name, level));
            }
        }
        self.store(held);
        changed
    }

    /// Lets go of what was not repeated, and tells the names. Only that task may.
    fn lapse(&self) -> Vec<String> {
        let now_ms = boottime_ms();
        if self.held.load().next_end_ms().is_none_or(|end_ms| end_ms > now_ms) {
            return Vec::new();
        }
        let mut held = Held::clone(&self.held.load());
        let lapsed = held.lapse(now_ms);
        self.store(held);
        lapsed
    }

    fn store(&self, held: Held) {
        let any = held.next_end_ms().is_some();
        self.held.store(Arc::new(held));
        self.any.store(any, Ordering::Relaxed);
    }
}

/// What an operator has set outranks what is told.
fn level(degradation: &Degradation, held: &Held, now_ms: u64, unix_ms: u64) -> Level {
    match &degradation.manual {
        Some(manual) if manual.expires_unix_ms > unix_ms => manual.level,
        _ => held.level(&degradation.name, now_ms),
    }
}

#[cfg(test)]
mod tests;
