//! A cell as its holder keeps it, by the holder's own clock; and how two of them become one.

use super::{Cell, CellKey, LONGEST_MS, State};

/// Ends nearer to each other than this are the same end, told over ways of different lengths.
/// Milliseconds.
const SLACK_MS: u64 = 1_000;

/// What is known of one cell. Times are milliseconds of the holder's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub state: State,
    /// When it ends, or ended; of a mark, when it was cleared.
    pub end_ms: u64,
    pub since_ms: u64,
    pub strikes: u32,
    pub generation: u64,
    pub cleared: bool,
    pub reason: String,
    pub by: String,
}

impl Record {
    /// Takes a cell that is told at `now_ms`.
    pub(super) fn taken(cell: &Cell, now_ms: u64) -> Self {
        Self {
            state: cell.state,
            end_ms: now_ms
                .saturating_add(cell.left_ms.min(LONGEST_MS))
                .saturating_sub(cell.ended_ms),
            since_ms: now_ms.saturating_sub(cell.age_ms),
            strikes: cell.strikes,
            generation: cell.generation,
            cleared: cell.cleared,
            reason: cell.reason.clone(),
            by: cell.by.clone(),
        }
    }

    /// Tells it at `now_ms`.
    pub fn told(&self, key: CellKey, now_ms: u64) -> Cell {
        Cell {
            key,
            state: self.state,
            left_ms: if self.cleared { 0 } else { self.end_ms.saturating_sub(now_ms) },
            ended_ms: now_ms.saturating_sub(self.end_ms),
            strikes: self.strikes,
            generation: self.generation,
            cleared: self.cleared,
            age_ms: now_ms.saturating_sub(self.since_ms),
            reason: self.reason.clone(),
            by: self.by.clone(),
        }
    }

    /// The mark that everything up to `generation` was cleared.
    pub(super) fn mark(generation: u64, now_ms: u64) -> Self {
        Self {
            state: State::Resting,
            end_ms: now_ms,
            since_ms: now_ms,
            strikes: 0,
            generation,
            cleared: true,
            reason: String::new(),
            by: String::new(),
        }
    }

    /// Is it the same, but for how long a message took?
    pub(super) fn is_about(&self, other: &Self) -> bool {
        let same = (self.end_ms.abs_diff(other.end_ms) < SLACK_MS).then(|| Self {
            end_ms: self.end_ms,
            since_ms: self.since_ms,
            ..other.clone()
        });
        same.as_ref() == Some(self)
    }

    /// Is a key kept out by it?
    pub(super) fn holds(&self, now_ms: u64) -> bool {
        !self.cleared && self.end_ms > now_ms
    }

    /// What two holders know becomes what both know: the later end wins, the higher generation, and
    /// its strikes. A mark takes the place of everything up to its generation. Of an operator's words
    /// the newest hold, also to end a rest sooner.
    #[must_use]
    pub(super) fn join(self, other: Self, operator: bool) -> Self {
        if self.cleared || other.cleared || operator {
            let rank = |of: &Self| (of.generation, of.cleared, of.end_ms, of.strikes);
            let payload = |record: &Self| record.payload();
            let first =
                rank(&self).cmp(&rank(&other)).then_with(|| payload(&self).cmp(&payload(&other)));
            return if first.is_lt() { other } else { self };
        }
        let (generation, strikes) =
            (self.generation, self.strikes).max((other.generation, other.strikes));
        let later = if self.payload() < other.payload() { other } else { self };
        Self { generation, strikes, ..later }
    }

    /// What the later end decides; the rest makes the order of two a single one.
    fn payload(&self) -> (u64, State, u64, String, String) {
        (self.end_ms, self.state, self.since_ms, self.reason.clone(), self.by.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        let state = prop::sample::select(State::ALL.to_vec());
        (state, 0..4_u64, 0..3_u64, 0..3_u32, 0..3_u64, "[ab]?").prop_map(
            |(state, end_ms, since_ms, strikes, generation, reason)| Record {
                state,
                end_ms,
                since_ms,
                strikes,
                generation,
                cleared: false,
                by: String::new(),
                reason,
            },
        )
    }

    proptest! {
        #[test]
        fn joining_is_one_whatever_the_order_and_however_often(
            a in record(), b in record(), c in record(), operator: bool,
        ) {
            let join = |a: &Record, b: &Record| a.clone().join(b.clone(), operator);
            prop_assert_eq!(join(&a, &a), a.clone());
            prop_assert_eq!(join(&a, &b), join(&b, &a));
            prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
            if !operator {
                prop_assert_eq!(join(&a, &b).end_ms, a.end_ms.max(b.end_ms), "the later end wins");
                prop_assert_eq!(join(&a, &b).generation, a.generation.max(b.generation));
            }
        }

        #[test]
        fn a_mark_takes_what_came_before_and_nothing_newer(a in record(), generation in 0..3_u64, operator: bool) {
            let mark = Record::mark(generation, 9);
            let joined = a.clone().join(mark.clone(), operator);
            prop_assert_eq!(&joined, &mark.clone().join(a.clone(), operator));
            prop_assert_eq!(joined.cleared, a.generation <= generation);
            // What was said earlier and comes again does not bring it back.
            prop_assert_eq!(joined.clone().join(a, operator), joined);
        }
    }
}
