//! What becomes of a kept request that was run and not answered.

use std::time::Duration;

use sluicegate_model::{Outcome, outcome::Blame};
use sluicegate_protocol::pool::State;

use crate::{quota::Why, refusal::Refusal};

/// A run that fails for the time of this number ends the request with what it failed of.
pub(super) const MOST_RUNS: u64 = 20;
/// It is not even begun more often than this: whoever runs it may not live to tell.
pub(super) const MOST_CLAIMS: u64 = 200;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Longest wait for a target that is full.
const FULL: Duration = Duration::from_secs(5);
/// What concerns this data plane alone passes, or another takes it.
const ELSEWHERE: Duration = Duration::from_secs(2);

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The refusal is its result.
    Result,
    /// Its target has failed: it is run again after this.
    Failed(Duration),
    /// It could not be run now, which is no fault of its target.
    Later(Duration),
}

/// The one place that decides it. `attempt` counts claims; `random` is from 0 to 1, so that those
/// that were given back together do not come back together.
pub(super) fn verdict(refusal: &Refusal, attempt: u64, random: f64) -> Verdict {
    let told = refusal.shown().retry.unwrap_or_default();
    let wait = told.max(backoff(attempt, random)).min(LONGEST_WAIT);
    match refusal {
        // The limits are the caller's, and are there again.
        Refusal::Limited(facts) if facts.why != Why::TooLarge => Verdict::Later(wait),
        Refusal::Shed(_) => Verdict::Later(wait),
        // It is well, and others were quicker.
        Refusal::Full { .. } => Verdict::Later(told.clamp(FIRST_WAIT / 2, FULL)),
        Refusal::NotReady | Refusal::JournalFull => Verdict::Later(ELSEWHERE),
        Refusal::ShuttingDown => Verdict::Later(Duration::ZERO),
        _ if !may_pass(refusal) || attempt >= MOST_RUNS => Verdict::Result,
        _ => Verdict::Failed(wait),
    }
}

/// Does it stand in the way of this request that targets are full, left alone or failing, which
/// passes?
pub(crate) fn may_pass(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Full { .. } | Refusal::Shut { .. } => true,
        Refusal::NoKey { down, .. } => matches!(down.state, State::Resting | State::Exhausted),
        Refusal::Upstream { fault, .. } => match fault.outcome {
            Outcome::RateLimited | Outcome::QuotaExhausted => true,
            outcome => outcome.blame() == Blame::Upstream,
        },
        _ => false,
    }
}

/// From the second run on as long again with each, half of it by chance.
fn backoff(attempt: u64, random: f64) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    let step = FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT);
    step / 2 + (step / 2).mul_f64(if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 })
}

#[cfg(test)]
mod tests {
    use sluicegate_dialect::Fault;
    use sluicegate_model::resource::limit::Dimension;
    use sluicegate_protocol::{
        breaker::{Reason, Refused, State as Breaker},
        pool::Down,
    };

    use super::*;
    use crate::quota::{LimitFacts, Standings};

    fn upstream(outcome: Outcome) -> Refusal {
        Refusal::Upstream { fault: Fault::new(outcome, "m"), provider: "p".into() }
    }

    fn limited(why: Why, retry_ms: u64) -> Refusal {
        Refusal::Limited(Box::new(LimitFacts {
            why,
            limit: "l".into(),
            scope: "key=k".into(),
            dimension: Dimension::Requests,
            window: "minute".into(),
            capacity: 1,
            used: 1,
            reserved: 0,
            remaining: 0,
            asked: 1,
            reset_ms: 1,
            retry_ms,
            standings: Standings::default(),
        }))
    }

    fn no_key(state: State) -> Refusal {
        let down = Down { state, left_ms: 1, operator: false, only_limited: false };
        Refusal::NoKey { model: "m".into(), down }
    }

    #[test]
    fn b2_what_passes_is_run_again_and_everything_else_is_the_result() {
        use Verdict::{Failed, Later, Result};
        let seconds = Duration::from_secs;
        let refused = Refused { state: Breaker::Open, left_ms: 9_000, reason: Reason::EngineDead };
        let shut = Refusal::Shut { model: "m".into(), provider: "p".into(), refused };
        let full = Refusal::Full { model: "m".into(), provider: "p".into(), wait_ms: 10 };
        let half = Duration::from_millis(500);
        for (refusal, expected) in [
            (shut, Failed(seconds(9))),
            (full, Later(half)),
            (no_key(State::Resting), Failed(half)),
            (no_key(State::Refused), Result),
            (upstream(Outcome::ProviderError), Failed(half)),
            (upstream(Outcome::Timeout), Failed(half)),
            (upstream(Outcome::RateLimited), Failed(seconds(1))),
            (upstream(Outcome::InvalidRequest), Result),
            (upstream(Outcome::KeyRefused), Result),
            (upstream(Outcome::ContextTooLong), Result),
            (limited(Why::Exhausted, 40_000), Later(seconds(40))),
            (limited(Why::Exhausted, u64::MAX), Later(LONGEST_WAIT)),
            (limited(Why::Unavailable, 0), Later(half)),
            (limited(Why::TooLarge, 0), Result),
            (Refusal::JournalFull, Later(ELSEWHERE)),
            (Refusal::ShuttingDown, Later(Duration::ZERO)),
            (Refusal::GivenUp { claims: 201 }, Result),
            (Refusal::UnknownKey, Result),
            (Refusal::KeyDisabled, Result),
            (Refusal::ModelNotAllowed { model: "m".into() }, Result),
        ] {
            assert_eq!(verdict(&refusal, 1, 0.0), expected, "{refusal:?}");
        }
    }

    #[test]
    fn b2_runs_that_fail_are_counted_and_waits_for_limits_are_not() {
        let failing = upstream(Outcome::ProviderError);
        assert!(matches!(verdict(&failing, MOST_RUNS - 1, 0.5), Verdict::Failed(_)));
        assert_eq!(verdict(&failing, MOST_RUNS, 0.5), Verdict::Result);
        let limited = limited(Why::Exhausted, 1);
        assert!(matches!(verdict(&limited, MOST_RUNS + 50, 0.5), Verdict::Later(_)));
    }

    #[test]
    fn b2_waits_double_up_to_ten_minutes() {
        for (attempt, least_s, most_s) in
            [(0, 0.5, 1.0), (1, 0.5, 1.0), (2, 1.0, 2.0), (5, 8.0, 16.0)]
        {
            let seconds = |random| backoff(attempt, random).as_secs_f64();
            assert_eq!((seconds(0.0), seconds(1.0)), (least_s, most_s), "{attempt}");
        }
        assert_eq!(backoff(u64::MAX, 7.0), LONGEST_WAIT);
        assert!(backoff(u64::MAX, f64::NAN) < LONGEST_WAIT);
    }
}
