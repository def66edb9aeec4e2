//! How long a key is left alone where its provider does not say.

use super::State;

/// Longest wait that anybody is believed: quotas of a month end within it. Milliseconds.
pub const LONGEST_MS: u64 = 31 * 86_400_000;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A first wait, which doubles with every strike up to a longest one. Milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    first_ms: u64,
    most_ms: u64,
}

impl Wait {
    fn after(self, strikes: u32) -> u64 {
        let doubled = 1_u64.checked_shl(strikes.saturating_sub(1)).unwrap_or(u64::MAX);
        self.first_ms.saturating_mul(doubled).min(self.most_ms)
    }

    /// Another first wait; it may be longer than the longest was.
    fn from(self, first_ms: Option<u64>) -> Self {
        let first_ms = first_ms.unwrap_or(self.first_ms);
        Self { first_ms, most_ms: self.most_ms.max(first_ms) }
    }
}

/// The waits of one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    resting: Wait,
    exhausted: Wait,
    refused: Wait,
    suspended: Wait,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            resting: Wait { first_ms: SECOND, most_ms: MINUTE },
            exhausted: Wait { first_ms: 5 * MINUTE, most_ms: HOUR },
            refused: Wait { first_ms: 30 * SECOND, most_ms: HOUR },
            suspended: Wait { first_ms: MINUTE, most_ms: HOUR },
        }
    }
}

impl Waits {
    /// With first waits of one's own, in milliseconds; `None`: the usual one.
    #[must_use]
    pub fn new(
        resting: Option<u64>,
        exhausted: Option<u64>,
        refused: Option<u64>,
        suspended: Option<u64>,
    ) -> Self {
        let usual = Self::default();
        Self {
            resting: usual.resting.from(resting),
            exhausted: usual.exhausted.from(exhausted),
            refused: usual.refused.from(refused),
            suspended: usual.suspended.from(suspended),
        }
    }

    /// How long after so many failures in a row, the first being 1. Milliseconds.
    pub fn after(&self, state: State, strikes: u32) -> u64 {
        let wait = match state {
            State::Resting => self.resting,
            State::Exhausted => self.exhausted,
            State::Refused => self.refused,
            State::Suspended | State::ModelMissing => self.suspended,
        };
        wait.after(strikes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let usual = Waits::default();
        check(usual, State::Resting, &[1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        check(usual, State::Exhausted, &[300_000, 600_000, 1_200_000, 2_400_000, HOUR, HOUR]);
        check(usual, State::Refused, &[30_000, 60_000, 120_000]);
        check(usual, State::ModelMissing, &[60_000, 120_000]);
        let own = Waits::new(Some(10), Some(2 * HOUR), None, Some(1));
        check(own, State::Resting, &[10, 20]);
        check(own, State::Exhausted, &[2 * HOUR, 2 * HOUR]);
        check(own, State::Suspended, &[1, 2, 4]);
        assert_eq!(usual.after(State::Refused, u32::MAX), HOUR);

        #[track_caller]
        fn check(waits: Waits, state: State, expected: &[u64]) {
            let found: Vec<_> = (1..).map(|n| waits.after(state, n)).take(expected.len()).collect();
            assert_eq!(found, expected);
        }
    }
}
