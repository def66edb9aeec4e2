//! Connections that broke together: a target that dies takes all of them with it.

use std::time::Duration;

/// Connections that break within this time broke together. Milliseconds.
const TOGETHER_MS: u64 = 100;
/// After so long, those that broke together with one have been seen to break.
pub(crate) const SETTLING: Duration = Duration::from_millis(30);

/// What broke lately.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    first_ms: u64,
    broken: u32,
    good_ms: u64,
}

impl Breaks {
    /// The connection of a request under way broke.
    pub(super) fn broke(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.first_ms) >= TOGETHER_MS {
            (self.first_ms, self.broken) = (now_ms, 0);
        }
        self.broken = self.broken.saturating_add(1);
    }

    /// Something went well.
    pub(super) fn went_well(&mut self, now_ms: u64) {
        self.good_ms = now_ms;
    }

    /// How many others broke together with one that did. None where something has gone well since: a
    /// target that loses some of its connections is not dead.
    pub(super) fn others(&self, now_ms: u64) -> u32 {
        let past = now_ms.saturating_sub(self.first_ms) >= 2 * TOGETHER_MS;
        if past || self.good_ms > self.first_ms { 0 } else { self.broken.saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_what_breaks_at_once_broke_together_unless_something_went_well() {
        let mut breaks = Breaks::default();
        breaks.went_well(1_000);
        (0..4).for_each(|n| breaks.broke(1_000 + n));
        assert_eq!(breaks.others(1_030), 3);
        breaks.went_well(1_020);
        assert_eq!(breaks.others(1_030), 0, "it answers others");
        breaks.broke(1_500);
        assert_eq!(breaks.others(1_530), 0, "one alone");
        breaks.broke(1_590);
        assert_eq!(breaks.others(1_600), 1);
        assert_eq!(breaks.others(1_700), 0, "that is long ago");
    }
}
