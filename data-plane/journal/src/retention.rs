//! How long acknowledged events are kept.
//!
//! A store may fall back to an older copy of itself and then asks for what it had counted before.
//! So acknowledged events stay until the store says that it cannot lose them, or the same store
//! still has them [`KEEP_MS`] later. That time passes alone is not enough: a store that was not
//! reached meanwhile may have fallen back.

use std::collections::VecDeque;

use crate::{clock::Moment, record::Cursor};

/// Acknowledged events are kept this long: 10 minutes.
pub(crate) const KEEP_MS: u64 = 600_000;
/// Acknowledgements within this time are kept as one.
const TOGETHER_MS: u64 = 10_000;

/// What of one source was acknowledged, and since when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Up to here everything may be deleted.
    released: u64,
    /// Acknowledged but kept, oldest first. Bounded: [`KEEP_MS`] / [`TOGETHER_MS`] and a few.
    kept: VecDeque<Kept>,
    /// Who acknowledged last.
    store: String,
}

/// Acknowledged up to `through` between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    through: u64,
    since: Moment,
    until: Moment,
}

impl Retention {
    /// Acknowledged up to here.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.kept.back().map_or(self.released, |kept| kept.through)
    }

    /// Everything up to here may be deleted.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// A store has counted up to `cursor.through`, which may be less than before. `true`: that is
    /// news.
    pub(crate) fn acknowledge(&mut self, cursor: &Cursor) -> bool {
        let before = (self.acknowledged(), self.released, cursor.store == self.store);
        if cursor.store != self.store {
            // Whether the new one has what the old one had will show within the time.
            let through = self.acknowledged();
            self.kept.clear();
            if through > self.released {
                self.kept.push_back(Kept { through, since: cursor.at, until: cursor.at });
            }
            self.store.clone_from(&cursor.store);
        }
        self.fall_back(cursor.through);
        if cursor.durable {
            self.kept.clear();
            self.released = cursor.through;
        } else if cursor.through > self.acknowledged() {
            match self.kept.back_mut() {
                Some(last) if cursor.at.since(last.since) < TOGETHER_MS => {
                    last.through = cursor.through;
                    last.until = cursor.at;
                }
                _ => self.kept.push_back(Kept {
                    through: cursor.through,
                    since: cursor.at,
                    until: cursor.at,
                }),
            }
        }
        while self.kept.front().is_some_and(|kept| cursor.at.since(kept.until) >= KEEP_MS) {
            self.release_oldest();
        }
        before != (self.acknowledged(), self.released, true)
    }

    /// Nothing after `through` is acknowledged any more.
    fn fall_back(&mut self, through: u64) {
        self.released = self.released.min(through);
        let mut before = self.released;
        self.kept.retain_mut(|kept| {
            kept.through = kept.through.min(through);
            let holds_any = kept.through > before;
            before = kept.through;
            holds_any
        });
    }

    /// Lets go of the oldest part before its time. `false`: there is none.
    pub(crate) fn release_oldest(&mut self) -> bool {
        self.kept.pop_front().map(|kept| self.released = kept.through).is_some()
    }

    /// Acknowledgements that make the same of an empty retention, or something that keeps a little
    /// longer.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = Cursor> {
        let cursor =
            |at, through, durable| Cursor { at, through, durable, store: self.store.clone() };
        let released = (self.released > 0).then(|| {
            let at = self.kept.front().map_or(Moment::default(), |kept| kept.since);
            cursor(at, self.released, true)
        });
        let kept = self.kept.iter().map(move |kept| cursor(kept.until, kept.through, false));
        released.into_iter().chain(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Moment {
        Moment { boot: 1, boot_ms: s * 1000, wall_ms: s * 1000 }
    }

    fn ack(s: u64, through: u64, store: &str) -> Cursor {
        Cursor { at: at(s), through, durable: false, store: store.to_owned() }
    }

    #[test]
    fn d4_released_when_the_store_still_has_it_ten_minutes_later() {
        let mut retention = Retention::default();
        retention.acknowledge(&ack(0, 5, "a"));
        retention.acknowledge(&ack(9, 8, "a"));
        retention.acknowledge(&ack(60, 20, "a"));
        assert_eq!((retention.acknowledged(), retention.released()), (20, 0));
        assert!(!retention.acknowledge(&ack(608, 20, "a")));
        assert_eq!(retention.released(), 0, "the younger of two that are kept together counts");
        assert!(retention.acknowledge(&ack(609, 20, "a")));
        assert_eq!(retention.released(), 8);
        retention.acknowledge(&Cursor { durable: true, ..ack(610, 21, "a") });
        assert_eq!((retention.acknowledged(), retention.released()), (21, 21));
    }

    #[test]
    fn d4_another_store_starts_the_time_anew() {
        let mut retention = Retention::default();
        retention.acknowledge(&ack(0, 5, "a"));
        retention.acknowledge(&ack(500, 5, "b"));
        retention.acknowledge(&ack(1099, 5, "b"));
        assert_eq!((retention.acknowledged(), retention.released()), (5, 0));
        retention.acknowledge(&ack(1100, 5, "b"));
        assert_eq!(retention.released(), 5);
    }

    #[test]
    fn d4_a_store_that_fell_back_unacknowledges() {
        let mut retention = Retention::default();
        for s in 0..10 {
            retention.acknowledge(&ack(s * 20, s + 1, "a"));
        }
        retention.acknowledge(&ack(640, 10, "a"));
        assert_eq!((retention.acknowledged(), retention.released()), (10, 3));
        retention.acknowledge(&ack(650, 2, "a"));
        assert_eq!((retention.acknowledged(), retention.released()), (2, 2));
    }

    #[test]
    fn a_checkpoint_makes_the_same_again() {
        let mut retention = Retention::default();
        retention.acknowledge(&Cursor { durable: true, ..ack(1, 3, "a") });
        for s in 1..40 {
            retention.acknowledge(&ack(s * 7, 3 + s, "a"));
        }
        let mut again = Retention::default();
        retention.cursors().for_each(|cursor| assert!(again.acknowledge(&cursor)));
        assert_eq!(again.acknowledged(), retention.acknowledged());
        for s in 600..900 {
            retention.acknowledge(&ack(s, 42, "a"));
            again.acknowledge(&ack(s, 42, "a"));
            let mut later = again.clone();
            later.acknowledge(&ack(s + 10, 42, "a"));
            let bounds = again.released()..=later.released();
            assert!(bounds.contains(&retention.released()), "{bounds:?} at {s} s");
        }
        assert_eq!(again.released(), 42);
    }
}
