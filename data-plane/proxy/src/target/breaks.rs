//! Connections that broke together: a target that dies takes all of them with it.

use std::time::Duration;

/// Connections that break within this time broke together. Milliseconds.
const TOGETHER_MS: u64 = 100;
/// After so long, those that broke together with one have been seen to break.
pub(crate) const SETTLING: Duration = Duration::from_millis(30);

/// More are not told apart.
const MOST: usize = 8;

/// What broke lately.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    first_ms: u64,
    /// Which requests, each once: one that is tried again and again breaks alone.
    broken: Vec<usize>,
    good_ms: u64,
}

impl Breaks {
    /// The connection of a request under way broke. `request` tells it from others.
    pub(super) fn broke(&mut self, request: usize, now_ms: u64) {
        if now_ms.saturating_sub(self.first_ms) >= TOGETHER_MS {
            self.first_ms = now_ms;
            self.broken.clear();
        }
        if self.broken.len() < MOST && !self.broken.contains(&request) {
            self.broken.push(request);
        }
    }

    /// Something went well.
    pub(super) fn went_well(&mut self, now_ms: u64) {
        self.good_ms = now_ms;
    }

    /// How many others broke together with one that did. None where something has gone well since: a
    /// target that loses some of its connections is not dead.
    pub(super) fn others(&self, now_ms: u64) -> u32 {
        let past = now_ms.saturating_sub(self.first_ms) >= 2 * TOGETHER_MS;
        if past || self.good_ms > self.first_ms {
            return 0;
        }
        u32::try_from(self.broken.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_what_breaks_at_once_broke_together_unless_something_went_well() {
        let mut breaks = Breaks::default();
        breaks.went_well(1_000);
        (0..4).for_each(|n| breaks.broke(n, 1_000));
        assert_eq!(breaks.others(1_030), 3);
        breaks.went_well(1_020);
        assert_eq!(breaks.others(1_030), 0, "it answers others");
        (0..9).for_each(|_| breaks.broke(7, 1_500));
        assert_eq!(breaks.others(1_530), 0, "one alone");
        breaks.broke(8, 1_590);
        assert_eq!(breaks.others(1_600), 1);
        assert_eq!(breaks.others(1_700), 0, "that is long ago");
    }
}
