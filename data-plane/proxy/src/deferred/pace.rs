//! How many requests of one queue are run at one time.
//!
//! One at first, and one more for each that goes well, which doubles them with every round: a target
//! that has just come back is not flooded. (Slow start: Jacobson, "Congestion avoidance and control",
//! SIGCOMM 1988.) One that fails begins anew, after a wait that doubles. How much a target takes in
//! all is its gate's to say.

/// Most of one queue at one time, on one data plane.
const MOST: u32 = 32;
const FIRST_WAIT_MS: u64 = 500;
const LONGEST_WAIT_MS: u64 = 30_000;

/// How a run ended, as far as the queue's pace is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The target has answered.
    Well,
    /// It has not, or could not take it.
    Failed,
    /// That says nothing of the target.
    Otherwise,
}

/// The pace of one queue.
#[derive(Debug)]
pub(super) struct Pace {
    allowed: u32,
    running: u32,
    wait_ms: u64,
    /// Nothing is begun before.
    from_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { allowed: 1, running: 0, wait_ms: FIRST_WAIT_MS, from_ms: 0 }
    }
}

impl Pace {
    /// How many more may begin.
    pub(super) fn room(&self, now_ms: u64) -> u32 {
        if now_ms < self.from_ms { 0 } else { self.allowed.saturating_sub(self.running) }
    }

    /// How many run.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    /// The targets are left alone: when they are back, it begins anew.
    pub(super) fn down(&mut self) {
        self.allowed = 1;
    }

    /// One has begun.
    pub(super) fn began(&mut self) {
        self.running = self.running.saturating_add(1);
    }

    /// One has ended.
    pub(super) fn ended(&mut self, how: Ended, now_ms: u64) {
        self.running = self.running.saturating_sub(1);
        match how {
            Ended::Well => {
                self.allowed = self.allowed.saturating_add(1).min(MOST);
                self.wait_ms = FIRST_WAIT_MS;
            }
            Ended::Failed => {
                self.allowed = 1;
                // Those that fail together are one failure.
                if now_ms >= self.from_ms {
                    self.from_ms = now_ms.saturating_add(self.wait_ms);
                    self.wait_ms = self.wait_ms.saturating_mul(2).min(LONGEST_WAIT_MS);
                }
            }
            Ended::Otherwise => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn b2_a_target_that_is_back_gets_one_then_twice_as_many_with_each_round() {
        let mut pace = Pace::default();
        let mut rounds = Vec::new();
        for _ in 0..7 {
            let room = pace.room(0);
            rounds.push(room);
            (0..room).for_each(|_| pace.began());
            assert_eq!(pace.room(0), 0);
            (0..room).for_each(|_| pace.ended(Ended::Well, 0));
        }
        assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 32]);
        pace.down();
        assert_eq!(pace.room(0), 1, "it was away");
    }

    #[test]
    fn b2_failures_begin_anew_after_waits_that_double() {
        let mut pace = Pace::default();
        let mut now_ms = 0;
        for wait_ms in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            // Two at one time are one failure.
            for _ in 0..2 {
                pace.began();
                pace.ended(Ended::Failed, now_ms);
            }
            assert_eq!((pace.room(now_ms + wait_ms - 1), pace.room(now_ms + wait_ms)), (0, 1));
            now_ms += wait_ms;
        }
        pace.began();
        pace.ended(Ended::Otherwise, now_ms);
        assert_eq!(pace.room(now_ms), 1);
    }

    proptest! {
        #[test]
        fn b2_no_history_runs_more_than_is_allowed(
            steps in prop::collection::vec((0_u8..5, any::<u64>()), 0..200),
        ) {
            let (mut pace, mut running) = (Pace::default(), 0_u32);
            for (step, now_ms) in steps {
                match step {
                    0 => pace.down(),
                    1 if pace.room(now_ms) > 0 => {
                        pace.began();
                        running += 1;
                    }
                    2..=4 if running > 0 => {
                        let how = [Ended::Well, Ended::Failed, Ended::Otherwise];
                        pace.ended(how[usize::from(step) - 2], now_ms);
                        running -= 1;
                    }
                    _ => {}
                }
                prop_assert!(running <= MOST && pace.room(u64::MAX) <= MOST - running.min(MOST));
                prop_assert_eq!(pace.running(), running);
            }
        }
    }
}
