//! How many retries there may be, so that failures do not multiply the load of what already fails.
//!
//! Retries within ten seconds are at most a share of the requests of that time and a few more; the idea
//! is Finagle's `RetryBudget`. One for each group of targets that can stand in for each other: then a
//! storm on one cannot become one on all.

/// The seconds that are looked back on.
const SECONDS: usize = 10;
/// One more, so that what is looked back on is never less than those.
const SLOTS: usize = SECONDS + 1;

/// What a group may spend on retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// Retries are not counted.
    Unlimited,
    Limited {
        /// Retries to a hundred requests.
        percent: u32,
        /// And so many in any case, on average over ten seconds.
        per_second: u32,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self::Limited { percent: 10, per_second: 2 }
    }
}

/// The retry budget of one group of targets. Time is any monotonic milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    settings: Settings,
    slots: [Slot; SLOTS],
    /// The second of the newest slot.
    second: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    requests: u64,
    retries: u64,
}

impl Budget {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes other settings; what was counted stays.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// A request came; its first attempt, whatever becomes of it.
    pub fn deposit(&mut self, now_ms: u64) {
        if let Some(slot) = self.slot(now_ms) {
            slot.requests = slot.requests.saturating_add(1);
        }
    }

    /// Whether there may be one more retry. If so it is counted.
    pub fn withdraw(&mut self, now_ms: u64) -> bool {
        let may = self.headroom(now_ms) > 0;
        if let Some(slot) = self.slot(now_ms).filter(|_| may) {
            slot.retries = slot.retries.saturating_add(1);
        }
        may
    }

    /// How many more retries there may be now; `u64::MAX` where they are not counted.
    pub fn headroom(&mut self, now_ms: u64) -> u64 {
        self.turn(now_ms);
        let Settings::Limited { percent, per_second } = self.settings else { return u64::MAX };
        let sum =
            |of: fn(&Slot) -> u64| self.slots.iter().map(|slot| u128::from(of(slot))).sum::<u128>();
        let earned = sum(|slot| slot.requests) * u128::from(percent) / 100;
        let given = u128::from(per_second) * SECONDS as u128;
        let left = (earned + given).saturating_sub(sum(|slot| slot.retries));
        u64::try_from(left).unwrap_or(u64::MAX - 1)
    }

    /// The slot of now.
    fn slot(&mut self, now_ms: u64) -> Option<&mut Slot> {
        self.turn(now_ms);
        let at = self.second % SLOTS as u64;
        self.slots.get_mut(usize::try_from(at).unwrap_or(0))
    }

    /// Empties the slots of seconds that have begun. Time that goes back is the same second still.
    fn turn(&mut self, now_ms: u64) {
        let second = now_ms / 1_000;
        let passed = second.saturating_sub(self.second).min(SLOTS as u64);
        for step in 1..=passed {
            let at = (second - (passed - step)) % SLOTS as u64;
            if let Some(slot) = self.slots.get_mut(usize::try_from(at).unwrap_or(0)) {
                *slot = Slot::default();
            }
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn c9_a_tenth_of_the_requests_and_two_a_second() {
        let mut budget = Budget::default();
        let granted = (0..100).filter(|_| budget.withdraw(0)).count();
        assert_eq!(granted, 20, "those of ten seconds at once");
        (0..1_000).for_each(|n| budget.deposit(n));
        assert_eq!(budget.headroom(999), 100);
        assert_eq!((0..500).filter(|_| budget.withdraw(5_000)).count(), 100);
        assert!(!budget.withdraw(10_999));
        assert_eq!(budget.headroom(16_000), 20, "all is over");
    }

    #[test]
    fn c9_a_storm_stays_a_tenth_more() {
        let mut budget = Budget::default();
        let mut retries = 0;
        // 500 requests a second for a minute, and each fails twice.
        for n in 0..30_000_u64 {
            budget.deposit(n * 2);
            retries += (0..2).filter(|_| budget.withdraw(n * 2)).count();
        }
        assert!((3_000..3_150).contains(&retries), "{retries}");
    }

    #[test]
    fn c9_it_can_be_off_or_closed() {
        let mut off = Budget::new(Settings::Unlimited);
        assert!((0..10_000).all(|_| off.withdraw(0)));
        assert_eq!(off.headroom(0), u64::MAX);
        off.set(Settings::Limited { percent: 0, per_second: 0 });
        off.deposit(1);
        assert!(!off.withdraw(1));
        let mut absurd = Budget::new(Settings::Limited { percent: u32::MAX, per_second: u32::MAX });
        absurd.deposit(u64::MAX);
        assert!(absurd.withdraw(u64::MAX) && absurd.withdraw(0));
    }

    proptest! {
        /// In any ten seconds there are no more retries than the share of the requests of those, and of the
        /// second before, and those that there are in any case.
        #[test]
        fn c9_withdrawals_never_exceed_deposits_and_the_minimum(
            steps in prop::collection::vec((0..400_u64, 0..12_u32, 0..4_u32), 1..300),
            percent in 0..120_u32,
            per_second in 0..5_u32,
        ) {
            let mut budget = Budget::new(Settings::Limited { percent, per_second });
            let (mut now_ms, mut came, mut retried) = (0, Vec::new(), Vec::new());
            for (after_ms, requests, tries) in steps {
                now_ms += after_ms;
                for _ in 0..requests {
                    budget.deposit(now_ms);
                    came.push(now_ms);
                }
                for _ in 0..tries {
                    if budget.withdraw(now_ms) {
                        retried.push(now_ms);
                        let since = |times: &[u64], ms| times.iter().filter(|at| **at + ms > now_ms).count();
                        let most = since(&came, 11_000) * percent as usize / 100 + 10 * per_second as usize;
                        prop_assert!(since(&retried, 10_000) <= most);
                    }
                }
            }
        }
    }
}
