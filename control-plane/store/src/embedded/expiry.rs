//! When entries with a time to live are due.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

/// The moments at which keys expire, by the monotonic clock.
///
/// Only the full time to live is stored, and after a restart it is counted anew. The remaining
/// time would have to be measured by the wall clock, which can be wrong while a machine starts and
/// can be set in both directions. So an entry may live longer than asked for, and never shorter.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    by_key: HashMap<String, Instant>,
    by_time: BTreeSet<(Instant, String)>,
}

impl Expiries {
    /// All these keys, with their full time to live from now.
    pub(super) fn from_now(now: Instant, keys: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut expiries = Self::default();
        for (key, ttl_ms) in keys {
            expiries.set(key, now.checked_add(Duration::from_millis(ttl_ms)));
        }
        expiries
    }

    /// `None`: the key does not expire, or is gone.
    pub(super) fn set(&mut self, key: String, at: Option<Instant>) {
        if let Some(previous) = self.by_key.remove(&key) {
            self.by_time.remove(&(previous, key.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key.clone()));
            self.by_key.insert(key, at);
        }
    }

    /// When the next key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Up to `limit` keys that are due, the longest overdue first. They stay until they are set.
    pub(super) fn due(&self, now: Instant, limit: usize) -> Vec<String> {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, key)| key.clone()).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_due_in_order_and_once_rewritten_no_more() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut expiries = Expiries::from_now(start, [("a".to_owned(), 20), ("b".to_owned(), 10)]);
        assert_eq!(expiries.next(), Some(at(10)));
        assert_eq!(expiries.due(at(30), 9), ["b", "a"]);
        assert_eq!(expiries.due(at(30), 1), ["b"]);

        expiries.set("b".to_owned(), Some(at(40)));
        assert_eq!(expiries.due(at(30), 9), ["a"]);
        expiries.set("a".to_owned(), None);
        assert_eq!(expiries.next(), Some(at(40)));
        expiries.set("b".to_owned(), None);
        assert_eq!(expiries.next(), None);
    }
}
