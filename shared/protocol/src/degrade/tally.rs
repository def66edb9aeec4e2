//! How many of something happened of late.

use std::time::Duration;

const SLOTS: u64 = 32;

/// Counts within a window that moves on by a thirty-second of its length: something counts for the
/// window's length, and at most one such step longer.
#[derive(Debug, Clone)]
pub struct Tally {
    step_ms: u64,
    /// Count and number of the step that it is of.
    slots: [(u64, u64); SLOTS as usize],
}

impl Tally {
    /// Counts nothing yet.
    pub fn new(window: Duration) -> Self {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Self { step_ms: window_ms.div_ceil(SLOTS - 1).max(1), slots: [(0, 0); SLOTS as usize] }
    }

    /// So many have happened.
    pub fn add(&mut self, count: u64, now_ms: u64) {
        let step = now_ms / self.step_ms;
        let index = usize::try_from(step % SLOTS).unwrap_or_default();
        if let Some((counted, of)) = self.slots.get_mut(index) {
            if *of != step {
                (*counted, *of) = (0, step);
            }
            *counted = counted.saturating_add(count);
        }
    }

    /// How many within the window.
    pub fn count(&self, now_ms: u64) -> u64 {
        let step = now_ms / self.step_ms;
        let recent = |of: u64| of <= step && step - of < SLOTS;
        let counts = self.slots.iter().filter(|(_, of)| recent(*of)).map(|(count, _)| *count);
        counts.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn b4_two_timeouts_count_for_a_minute() {
        let mut tally = Tally::new(Duration::from_secs(60));
        tally.add(1, 1_000);
        tally.add(1, 30_000);
        assert_eq!((tally.count(30_000), tally.count(60_999)), (2, 2));
        assert_eq!((tally.count(65_000), tally.count(89_999)), (1, 1));
        assert_eq!(tally.count(95_000), 0);
        for window in [Duration::ZERO, Duration::MAX] {
            let mut absurd = Tally::new(window);
            absurd.add(u64::MAX, u64::MAX);
            absurd.add(u64::MAX, u64::MAX);
            assert_eq!((absurd.count(u64::MAX), absurd.count(0)), (u64::MAX, 0));
        }
    }

    proptest! {
        /// Never less than in the window, never more than in the window and one step.
        #[test]
        fn b4_the_count_is_right_to_a_step(
            gaps in prop::collection::vec(0..20_000_u64, 1..60),
            window in 1_000..100_000_u64,
        ) {
            let mut tally = Tally::new(Duration::from_millis(window));
            let (mut now, mut times) = (0, Vec::new());
            for gap in gaps {
                now += gap;
                tally.add(1, now);
                times.push(now);
                let within = |length: u64| {
                    times.iter().filter(|time| now - **time < length).count() as u64
                };
                let count = tally.count(now);
                prop_assert!(within(window) <= count);
                prop_assert!(count <= within(window + 2 * tally.step_ms));
            }
        }
    }
}
