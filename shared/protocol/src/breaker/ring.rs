//! What happened in the last seconds, counted exactly.

/// One bucket. Milliseconds.
const BUCKET_MS: u64 = 1_000;

/// What happened in a time. An attempt is answered or failed, once its fate is known; never both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Attempts that began.
    pub started: u32,
    /// Attempts with a first event, and no failure since.
    pub answered: u32,
    pub failed: u32,
    /// First events, and waits for one that were given up: what can be slow.
    pub timed: u32,
    pub slow: u32,
    /// Failures that were streams which stalled.
    pub stalled: u32,
    /// Failures that were a lack of memory.
    pub memory: u32,
    /// Failures that were a dead engine.
    pub dead: u32,
}

impl Counts {
    /// Attempts whose fate is known.
    pub fn attempts(&self) -> u32 {
        self.answered.saturating_add(self.failed)
    }

    /// Share of the known attempts that failed; 0 without any.
    pub fn failure_ratio(&self) -> f64 {
        ratio(self.failed, self.attempts())
    }

    /// Share of the first events that were slow; 0 without any.
    pub fn slow_ratio(&self) -> f64 {
        ratio(self.slow, self.timed)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            started: self.started.saturating_add(other.started),
            answered: self.answered.saturating_add(other.answered),
            failed: self.failed.saturating_add(other.failed),
            timed: self.timed.saturating_add(other.timed),
            slow: self.slow.saturating_add(other.slow),
            stalled: self.stalled.saturating_add(other.stalled),
            memory: self.memory.saturating_add(other.memory),
            dead: self.dead.saturating_add(other.dead),
        }
    }

    /// Has traffic begun of which nothing is known yet?
    pub(super) fn is_pending(&self) -> bool {
        self.started > 0 && self.attempts() == 0
    }
}

/// Share of `part` in `whole`; 0 of nothing.
pub(super) fn ratio(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}

/// Counts by second, for as long as the longest window. A window is the running second and the whole
/// ones before it. (Hystrix counts in this way; averages that fade would hide a tight burst.)
#[derive(Debug, Clone)]
pub(super) struct Ring {
    buckets: Vec<Counts>,
    /// The second that the newest bucket counts.
    newest: u64,
}

impl Ring {
    pub(super) fn new(longest_ms: u64) -> Self {
        Self { buckets: vec![Counts::default(); seconds(longest_ms)], newest: 0 }
    }

    /// Counts something now. A clock that goes back counts in the newest second.
    pub(super) fn count(&mut self, now_ms: u64, add: impl FnOnce(&mut Counts)) {
        let second = (now_ms / BUCKET_MS).max(self.newest);
        let passed = second - self.newest;
        if passed >= self.len() {
            self.buckets.fill(Counts::default());
        } else {
            for past in self.newest + 1..=second {
                if let Some(bucket) = self.bucket(past) {
                    *bucket = Counts::default();
                }
            }
        }
        self.newest = second;
        if let Some(bucket) = self.bucket(second) {
            add(bucket);
        }
    }

    /// Changes what was counted then, if it is still known.
    pub(super) fn recount(&mut self, then_ms: u64, change: impl FnOnce(&mut Counts)) {
        let second = then_ms / BUCKET_MS;
        if second > self.newest || self.newest - second >= self.len() {
            return;
        }
        if let Some(bucket) = self.bucket(second) {
            change(bucket);
        }
    }

    /// What happened in the window that ends now.
    pub(super) fn sum(&self, now_ms: u64, window_ms: u64) -> Counts {
        let second = (now_ms / BUCKET_MS).max(self.newest);
        let window = (seconds(window_ms) as u64).min(self.len());
        let oldest = (second + 1).saturating_sub(window);
        // What is older than the ring was overwritten, or was never there.
        let kept = (self.newest + 1).saturating_sub(self.len());
        (oldest.max(kept)..=self.newest)
            .filter_map(|second| self.buckets.get(self.index(second)))
            .fold(Counts::default(), |sum, counts| sum.plus(counts))
    }

    pub(super) fn clear(&mut self) {
        self.buckets.fill(Counts::default());
    }

    fn len(&self) -> u64 {
        self.buckets.len() as u64
    }

    fn index(&self, second: u64) -> usize {
        // A remainder is below the length, which is a usize.
        usize::try_from(second % self.len().max(1)).unwrap_or(0)
    }

    fn bucket(&mut self, second: u64) -> Option<&mut Counts> {
        let index = self.index(second);
        self.buckets.get_mut(index)
    }
}

/// Buckets of a window: at least one, at most ten minutes.
fn seconds(window_ms: u64) -> usize {
    usize::try_from(window_ms.div_ceil(BUCKET_MS).clamp(1, 600)).unwrap_or(600)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_window_is_the_running_second_and_whole_ones_before() {
        let mut ring = Ring::new(10_000);
        ring.count(0, |counts| counts.failed += 1);
        ring.count(9_999, |counts| counts.failed += 1);
        assert_eq!(ring.sum(9_999, 10_000).failed, 2);
        assert_eq!(ring.sum(10_000, 10_000).failed, 1);
        assert_eq!(ring.sum(9_999, 1).failed, 1);
        assert_eq!(ring.sum(u64::MAX, u64::MAX).failed, 0);
        ring.recount(9_000, |counts| counts.failed -= 1);
        ring.recount(0, |counts| counts.failed -= 1);
        assert_eq!(ring.sum(9_999, 10_000).failed, 0);
    }

    proptest! {
        /// The ring counts what a plain list of times counts, whatever the gaps.
        #[test]
        fn counts_are_exact(
            steps in prop::collection::vec((0..30_000_u64, 0..40_000_u64), 0..60),
            longest_ms in 1..70_000_u64,
        ) {
            let mut ring = Ring::new(longest_ms);
            let (mut now_ms, mut times) = (0, vec![]);
            for (step_ms, window_ms) in steps {
                now_ms += step_ms;
                ring.count(now_ms, |counts| counts.failed += 1);
                times.push(now_ms / 1_000);
                let window = window_ms.div_ceil(1_000).max(1).min(longest_ms.div_ceil(1_000));
                let within = |time: &&u64| **time + window > now_ms / 1_000;
                let expected = times.iter().filter(within).count();
                prop_assert_eq!(ring.sum(now_ms, window_ms).failed as usize, expected);
            }
        }

        #[test]
        fn absurd_times_do_no_harm(times in prop::collection::vec(any::<u64>(), 0..20), window: u64) {
            let mut ring = Ring::new(window);
            for time in times {
                ring.count(time, |counts| counts.started += 1);
                ring.recount(time, |counts| counts.started += 1);
                prop_assert!(ring.sum(time, window).started >= 1);
            }
        }
    }
}
