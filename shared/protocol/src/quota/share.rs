//! What a data plane lets through on its own while nobody can be asked: its share of the limit.

use super::{Drain, View};

/// Data planes that are assumed where nobody has told.
const UNKNOWN_FLEET: u32 = 4;
/// A share may be saved up for so long. Milliseconds.
const SAVED_MS: f64 = 1_000.0;
/// Part of what a calendar window had left that may be used without asking.
const EMERGENCY: f64 = 0.01;

/// A data plane's own bucket during one outage. It may go into debt by one request, so that a
/// request larger than the share passes now and then, and the rate is kept all the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    level: f64,
    per_ms: f64,
    most: f64,
    at_ms: u64,
    began_ms: u64,
    slots: bool,
}

impl Share {
    /// The share of a meter of which `view` was last known, at the beginning of an outage.
    pub fn new(now_ms: u64, view: Option<&View>, capacity: u64, drain: Drain) -> Self {
        let fleet = f64::from(view.map_or(UNKNOWN_FLEET, |view| view.holders));
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let (capacity, left) =
            (capacity as f64 / fleet, view.map_or(0, |view| view.free(now_ms)) as f64 / fleet);
        let (level, per_ms, most) = match drain {
            Drain::Steady { per_ms } | Drain::Sliding { per_ms } => {
                let per_ms = per_ms / fleet;
                let most = (per_ms * SAVED_MS).min(capacity);
                (most, per_ms, most)
            }
            Drain::AtOnce => (left * EMERGENCY, 0.0, left * EMERGENCY),
            Drain::Never => (capacity.max(1.0), 0.0, capacity.max(1.0)),
        };
        let slots = drain == Drain::Never;
        Self { level, per_ms, most, at_ms: now_ms, began_ms: now_ms, slots }
    }

    /// Lets `amount` through, or not; `held` is what running requests hold already.
    pub fn take(&mut self, now_ms: u64, amount: u64, held: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let (elapsed, amount, held) =
            (now_ms.saturating_sub(self.at_ms) as f64, amount as f64, held as f64);
        if self.slots {
            return held + amount <= self.most;
        }
        self.level = (self.level + elapsed * self.per_ms).min(self.most);
        self.at_ms = now_ms;
        if self.level <= 0.0 {
            return false;
        }
        self.level -= amount;
        true
    }

    /// When it may let something through again. Milliseconds.
    pub fn retry_ms(&self, now_ms: u64) -> u64 {
        if self.slots || self.per_ms <= 0.0 {
            return 1_000;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate; the cast saturates"
        )]
        let wait = {
            let level = self.level + now_ms.saturating_sub(self.at_ms) as f64 * self.per_ms;
            (-level / self.per_ms).max(0.0).ceil() as u64
        };
        wait.max(1)
    }

    /// How long the outage has lasted. Milliseconds.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.began_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d5_a_share_keeps_its_rate() {
        let drain = Drain::Steady { per_ms: 0.4 };
        let mut share = Share::new(0, None, 24_000, drain);
        let passed: u64 = (0..100_000).filter(|now| share.take(*now, 10, 0)).map(|_| 10).sum();
        // A quarter of 400 a second, for 100 s, and what was saved.
        assert!((9_900..=10_200).contains(&passed), "{passed}");
    }

    #[test]
    fn a_budget_has_only_an_emergency_share() {
        let mut share = Share::new(0, None, 1_000_000, Drain::AtOnce);
        assert!(!share.take(0, 1, 0), "nobody told what was left");
    }
}
