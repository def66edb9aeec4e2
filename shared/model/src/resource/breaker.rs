//! When a target is left alone, and how much is sent to it at one time.

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;

use crate::{
    path::Path,
    violation::{Violation, Violations},
};

/// When a target is left alone. Zero counts: not by this.
#[derive(Debug, Clone, PartialEq)]
pub struct Breaker {
    /// Sends on, whatever happens.
    pub off: bool,
    /// Failures in a row.
    pub consecutive_failures: u32,
    pub failure_rates: Vec<FailureRate>,
    pub slow: Slow,
    /// Streams that fell silent within a minute.
    pub stalls: u32,
    /// Answers that told of a lack of memory within half a minute.
    pub memory_errors: u32,
    /// First time of being open.
    pub open: Duration,
    /// Longest.
    pub max_open: Duration,
    /// Length of each step of coming back.
    pub ramp_step: Duration,
}

/// A share of failures within a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureRate {
    pub window: Duration,
    /// More than 0, at most 1.
    pub ratio: f64,
    /// Requests before it is judged.
    pub min_requests: u32,
}

/// Answers that begin late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    pub first_event: Duration,
    /// Added for each thousand tokens of prompt.
    pub per_1k_tokens: Duration,
    /// Share of slow ones that opens it.
    pub ratio: f64,
    /// Slow ones in a row, within the window.
    pub consecutive: u32,
    pub window: Duration,
}

/// What is under way at one target at one time, on each data plane. `None`: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub max_requests: Option<u32>,
    /// Reserved tokens.
    pub max_tokens: Option<u64>,
    /// The bound follows what the target shows that it can take.
    pub adaptive: bool,
}

pub(super) fn capacity(spec: Option<&pb::Capacity>) -> Capacity {
    let spec = spec.copied().unwrap_or_default();
    Capacity {
        max_requests: spec.max_requests,
        max_tokens: spec.max_tokens,
        adaptive: spec.adaptive.unwrap_or(true),
    }
}

pub(super) fn parse(spec: Option<&pb::Breaker>, found: &mut Violations) -> Breaker {
    let spec = spec.cloned().unwrap_or_default();
    let ms =
        |value: Option<u32>, default: u32| Duration::from_millis(value.unwrap_or(default).into());
    let rates = if spec.failure_rates.is_empty() {
        vec![rate(10_000, 0.5, 20), rate(60_000, 0.25, 100)]
    } else {
        let given = spec.failure_rates.iter();
        given.map(|one| rate(one.window_ms, one.ratio, one.min_requests.unwrap_or(20))).collect()
    };
    let slow = spec.slow.unwrap_or_default();
    let breaker = Breaker {
        off: spec.off,
        consecutive_failures: spec.consecutive_failures.unwrap_or(5),
        failure_rates: rates,
        slow: Slow {
            first_event: ms(slow.first_event_ms, 10_000),
            per_1k_tokens: ms(slow.per_1k_tokens_ms, 1_000),
            ratio: slow.ratio.unwrap_or(0.6),
            consecutive: slow.consecutive.unwrap_or(0),
            window: ms(slow.window_ms, 15_000),
        },
        stalls: spec.stalls.unwrap_or(3),
        memory_errors: spec.memory_errors.unwrap_or(2),
        open: ms(spec.open_ms, 5_000),
        max_open: ms(spec.max_open_ms, 120_000),
        ramp_step: ms(spec.ramp_step_ms, 5_000),
    };
    if breaker.max_open < breaker.open {
        let path = Path::root().field("breaker").field("max_open_ms");
        let what = format!(
            "{} is shorter than open_ms {}: it could never be tried again in time",
            breaker.max_open.as_millis(),
            breaker.open.as_millis()
        );
        found.0.push(Violation::new(path, what).hint("make it at least open_ms"));
    }
    breaker
}

fn rate(window_ms: u32, ratio: f64, min_requests: u32) -> FailureRate {
    FailureRate { window: Duration::from_millis(window_ms.into()), ratio, min_requests }
}
