//! Requests with tools that timed out, until a control plane is told.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use sluicegate_protocol::degrade::{MAX_TENANTS, MAX_TIMEOUTS, ToolTimeouts};

/// What nobody could be told for so long is forgotten: counted later, it would say of the present what
/// was true then. Milliseconds.
const KEPT_MS: u64 = 60_000;

/// Counts by the model's public name and the caller's tenants. Of more than one report holds nothing is
/// kept.
#[derive(Debug, Default)]
pub struct TimedOut(Mutex<HashMap<(String, Vec<String>), Counted>>);

#[derive(Debug, Clone, Copy)]
struct Counted {
    count: u32,
    since_ms: u64,
}

impl TimedOut {
    /// A request has. `tenants` are its caller's, its own and those above it.
    pub fn add(&self, model: &str, tenants: &[String], now_ms: u64) {
        let tenants = tenants.iter().take(MAX_TENANTS).cloned().collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (model.to_owned(), tenants);
        if all.len() >= MAX_TIMEOUTS && !all.contains_key(&key) {
            return;
        }
        let counted = all.entry(key).or_insert(Counted { count: 0, since_ms: now_ms });
        counted.count = counted.count.saturating_add(1);
    }

    /// Everything that is not too old, to be told.
    pub fn take(&self, now_ms: u64) -> Vec<ToolTimeouts> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let lately = |counted: &Counted| now_ms.saturating_sub(counted.since_ms) <= KEPT_MS;
        let recent = all.into_iter().filter(|(_, counted)| lately(counted));
        recent
            .map(|((model, tenants), counted)| ToolTimeouts {
                model,
                tenants,
                count: counted.count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b4_timeouts_are_counted_apart_and_told_once() {
        let counts = TimedOut::default();
        let tenants = ["team".to_owned(), "org".to_owned()];
        counts.add("m", &tenants, 1);
        counts.add("m", &tenants, 2);
        counts.add("m", &[], 3);
        let mut told = counts.take(4);
        told.sort_by_key(|one| one.count);
        let told: Vec<_> = told.iter().map(|one| (one.tenants.len(), one.count)).collect();
        assert_eq!(told, [(0, 1), (2, 2)]);
        assert_eq!(counts.take(5), []);
    }

    #[test]
    fn b4_what_is_old_is_forgotten_and_what_is_kept_bounded() {
        let counts = TimedOut::default();
        counts.add("m", &[], 0);
        assert_eq!(counts.take(KEPT_MS + 1), []);
        let deep = vec!["t".to_owned(); MAX_TENANTS + 5];
        for n in 0..MAX_TIMEOUTS + 5 {
            counts.add(&n.to_string(), &deep, 0);
        }
        counts.add("0", &deep, 0);
        let told = counts.take(0);
        assert_eq!(told.len(), MAX_TIMEOUTS);
        assert!(told.iter().all(|one| one.tenants.len() == MAX_TENANTS));
        assert_eq!(
            told.iter().map(|one| u64::from(one.count)).sum::<u64>(),
            MAX_TIMEOUTS as u64 + 1
        );
    }
}
