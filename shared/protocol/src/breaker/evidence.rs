//! What one node saw of a target, and whether that is enough to open its breaker.

use std::collections::VecDeque;

use super::{Counts, Rate, Reason, Rules, ring::Ring};

/// What a node sees well: so many calls went well in this time, and few failed.
const WELL_MS: u64 = 10_000;
const WELL_ANSWERED: u32 = 10;
const WELL_RATIO: f64 = 0.1;
/// Failures in a row count if nothing went well for so long: of very many calls, some will always fail
/// one after the other by chance.
const ALONE_MS: u64 = 1_000;
/// Windows that are reported reach so far back. Milliseconds.
const LONG_MS: u64 = 60_000;

/// A failure, as far as it is counted in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Hard,
    Stalled,
    Memory,
    Dead,
}

/// How much of it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Full,
    Half,
}

impl Measure {
    fn of(self, count: u32) -> u32 {
        match self {
            Self::Full => count,
            Self::Half => count.div_ceil(2),
        }
    }
}

/// Counts of a target, and what happened in a row.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    ring: Ring,
    failures_in_a_row: u32,
    /// Answers that began and did not end as they should.
    broken_in_a_row: u32,
    /// Times of the slow calls in a row, oldest first; no more than the rules ask for.
    slow_in_a_row: VecDeque<u64>,
    longest_ms: u64,
    /// Until then something that went wrong is in a window.
    wrong_until_ms: u64,
}

impl Evidence {
    pub(super) fn new(rules: &Rules) -> Self {
        let longest_ms = rules.longest_window_ms().max(LONG_MS);
        Self {
            ring: Ring::new(longest_ms),
            failures_in_a_row: 0,
            broken_in_a_row: 0,
            slow_in_a_row: VecDeque::new(),
            longest_ms,
            wrong_until_ms: 0,
        }
    }

    pub(super) fn started(&mut self, now_ms: u64) {
        self.ring.count(now_ms, |counts| counts.started = counts.started.saturating_add(1));
    }

    /// A call that began then says nothing of the target.
    pub(super) fn unstarted(&mut self, started_ms: u64) {
        self.ring.recount(started_ms, |counts| counts.started = counts.started.saturating_sub(1));
    }

    /// A wait for a first event is over, or has been too long.
    pub(super) fn timed(&mut self, slow: bool, rules: &Rules, now_ms: u64) {
        self.ring.count(now_ms, |counts| {
            counts.timed = counts.timed.saturating_add(1);
            counts.slow = counts.slow.saturating_add(u32::from(slow));
        });
        if !slow {
            self.slow_in_a_row.clear();
            return;
        }
        self.wrong_until_ms = now_ms.saturating_add(self.longest_ms);
        self.slow_in_a_row.push_back(now_ms);
        while self.slow_in_a_row.len() > rules.slow_in_a_row.count as usize {
            self.slow_in_a_row.pop_front();
        }
    }

    /// A call went well, as far as is known.
    pub(super) fn answered(&mut self, now_ms: u64) {
        self.failures_in_a_row = 0;
        self.ring.count(now_ms, |counts| counts.answered = counts.answered.saturating_add(1));
    }

    /// An answer has ended as it should.
    pub(super) fn completed(&mut self) {
        self.broken_in_a_row = 0;
    }

    /// A call failed. `answered_ms`: when it was counted as answered, which it is no more.
    pub(super) fn failed(&mut self, failure: Failure, answered_ms: Option<u64>, now_ms: u64) {
        match answered_ms {
            Some(then_ms) => {
                self.broken_in_a_row = self.broken_in_a_row.saturating_add(1);
                self.ring
                    .recount(then_ms, |counts| counts.answered = counts.answered.saturating_sub(1));
            }
            None => self.failures_in_a_row = self.failures_in_a_row.saturating_add(1),
        }
        self.wrong_until_ms = now_ms.saturating_add(self.longest_ms);
        self.ring.count(now_ms, |counts| {
            counts.failed = counts.failed.saturating_add(1);
            let own = match failure {
                Failure::Hard => return,
                Failure::Stalled => &mut counts.stalled,
                Failure::Memory => &mut counts.memory,
                Failure::Dead => &mut counts.dead,
            };
            *own = own.saturating_add(1);
        });
    }

    pub(super) fn counts(&self, window_ms: u64, now_ms: u64) -> Counts {
        self.ring.sum(now_ms, window_ms)
    }

    /// The last minute.
    pub(super) fn long(&self, now_ms: u64) -> Counts {
        self.counts(LONG_MS, now_ms)
    }

    /// What happened in a row is over: the target is left alone.
    pub(super) fn calm(&mut self) {
        self.failures_in_a_row = 0;
        self.broken_in_a_row = 0;
        self.slow_in_a_row.clear();
    }

    pub(super) fn clear(&mut self) {
        self.calm();
        self.ring.clear();
    }

    /// Does the node see that the target does well?
    pub(super) fn is_well(&self, now_ms: u64) -> Option<Reason> {
        let counts = self.counts(WELL_MS, now_ms);
        let well = counts.answered >= WELL_ANSWERED && counts.failure_ratio() < WELL_RATIO;
        well.then_some(Reason::SplitView { answered: counts.answered, failed: counts.failed })
    }

    /// Is it enough to open?
    pub(super) fn opens(&self, rules: &Rules, now_ms: u64) -> Option<Reason> {
        self.judge(Measure::Full, rules, now_ms)
    }

    /// Has half of what opens it happened?
    pub(super) fn suspects(&self, rules: &Rules, now_ms: u64) -> Option<Reason> {
        self.judge(Measure::Half, rules, now_ms)
    }

    fn judge(&self, measure: Measure, rules: &Rules, now_ms: u64) -> Option<Reason> {
        if now_ms >= self.wrong_until_ms {
            // The usual case, and the cheap one.
            return None;
        }
        let in_a_row = self.failures_in_a_row.max(self.broken_in_a_row);
        let nothing_else = || self.counts(ALONE_MS, now_ms).answered == 0;
        if rules.failures_in_a_row > 0
            && in_a_row >= measure.of(rules.failures_in_a_row)
            && nothing_else()
        {
            return Some(Reason::FailuresInARow { count: in_a_row });
        }
        let reached = |rate: &Rate, part: u32, of: u32| {
            of >= measure.of(rate.min_requests) && f64::from(part) >= rate.ratio * f64::from(of)
        };
        for rate in &rules.failure_rates {
            let counts = self.counts(rate.window_ms, now_ms);
            let (failed, of) = (counts.failed, counts.attempts());
            if reached(rate, failed, of) {
                return Some(Reason::FailureRate { failed, of, window_ms: rate.window_ms });
            }
        }
        if let Some(rate) = &rules.slow_rate {
            let Counts { slow, timed: of, .. } = self.counts(rate.window_ms, now_ms);
            if reached(rate, slow, of) {
                return Some(Reason::SlowRate { slow, of, window_ms: rate.window_ms });
            }
        }
        if let Some(stalls) = &rules.stalls {
            let counts = self.counts(stalls.window_ms, now_ms);
            let (stalled, of) = (counts.stalled, counts.attempts());
            if stalled >= measure.of(stalls.count)
                && f64::from(stalled) >= stalls.ratio * f64::from(of)
            {
                return Some(Reason::Stalls { stalled, of, window_ms: stalls.window_ms });
            }
        }
        let memory = rules.memory_errors;
        let count = self.counts(memory.window_ms, now_ms).memory;
        if memory.count > 0 && count >= measure.of(memory.count) {
            return Some(Reason::MemoryErrors { count, window_ms: memory.window_ms });
        }
        self.slow_in_a_row(measure, rules, now_ms)
    }

    fn slow_in_a_row(&self, measure: Measure, rules: &Rules, now_ms: u64) -> Option<Reason> {
        let window_ms = rules.slow_in_a_row.window_ms;
        let wanted = measure.of(rules.slow_in_a_row.count) as usize;
        let first = self.slow_in_a_row.len().checked_sub(wanted)?;
        let first_ms = *self.slow_in_a_row.get(first)?;
        (now_ms.saturating_sub(first_ms) <= window_ms).then(|| {
            let count = self.slow_in_a_row.len() - first;
            Reason::SlowInARow { count: u32::try_from(count).unwrap_or(u32::MAX), window_ms }
        })
    }
}
