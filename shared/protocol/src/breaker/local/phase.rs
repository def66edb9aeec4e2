//! The states of a node's breaker with what belongs to each, and the ways into them.

use super::Local;
use crate::breaker::{Reason, State, Transition, settings::RAMP};

/// A state, and what is only known in it. Times are of the node's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Suspect {
        until_ms: u64,
    },
    Open {
        until_ms: u64,
    },
    HalfOpen {
        /// While no control plane is there: when lots are drawn again.
        draw_ms: u64,
        /// This node may probe.
        drawn: bool,
    },
    Ramping(Ramping),
}

/// Traffic that comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ramping {
    pub(super) percent: u8,
    pub(super) since_ms: u64,
    asked: u8,
    /// When a call was let in last.
    last_ms: Option<u64>,
}

/// However small the share, one call is let in after this time. Milliseconds.
const RARE_MS: u64 = 1_000;

impl Ramping {
    fn new(percent: u8, now_ms: u64) -> Self {
        Self { percent: percent.clamp(1, 100), since_ms: now_ms, asked: 0, last_ms: None }
    }

    /// Is the next call of the share? The first is, and so is one a second while none is under way
    /// (`idle`): that is no flood, and where calls are rare most of them would be refused else.
    pub(super) fn takes(&mut self, idle: bool, now_ms: u64) -> bool {
        let position = u32::from(self.asked) * u32::from(self.percent) % 100;
        self.asked = (self.asked + 1) % 100;
        let rare = self.last_ms.is_none_or(|last_ms| now_ms.saturating_sub(last_ms) >= RARE_MS);
        let takes = rare && idle || position < u32::from(self.percent);
        if takes {
            self.last_ms = Some(now_ms);
        }
        takes
    }
}

impl Phase {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Suspect { .. } => State::Suspect,
            Self::Open { .. } => State::Open,
            Self::HalfOpen { .. } => State::HalfOpen,
            Self::Ramping(_) => State::Ramping,
        }
    }
}

impl Local {
    /// Goes into a phase; a change of state if it is another.
    pub(super) fn go(&mut self, phase: Phase, reason: Reason) -> Option<Transition> {
        let (from, to) = (self.phase.state(), phase.state());
        self.phase = phase;
        self.reason = reason;
        (from != to).then_some(Transition { from, to, reason })
    }

    /// Opens by what this node saw, whatever the fleet said before.
    pub(super) fn trip(&mut self, reason: Reason, now_ms: u64) -> Option<Transition> {
        self.orders = None;
        let open_ms = self.backoff.open(&self.rules, self.dice.roll(), now_ms);
        self.open(now_ms.saturating_add(open_ms), reason)
    }

    pub(super) fn open(&mut self, until_ms: u64, reason: Reason) -> Option<Transition> {
        self.generation = self.generation.saturating_add(1);
        self.permit.take_if(|permit| !permit.is_granted());
        self.evidence.calm();
        self.go(Phase::Open { until_ms }, reason)
    }

    pub(super) fn half_open(&mut self, reason: Reason, now_ms: u64) -> Option<Transition> {
        self.generation = self.generation.saturating_add(1);
        let drawn = self.away && self.dice.one_in(self.nodes);
        let draw_ms = now_ms.saturating_add(self.rules.open_ms);
        self.go(Phase::HalfOpen { draw_ms, drawn }, reason)
    }

    /// Lets traffic come back from the first step on.
    pub(super) fn ramp(&mut self, reason: Reason, now_ms: u64) -> Option<Transition> {
        let [first, ..] = RAMP;
        self.ramp_at(first, reason, now_ms)
    }

    pub(super) fn ramp_at(
        &mut self,
        percent: u8,
        reason: Reason,
        now_ms: u64,
    ) -> Option<Transition> {
        self.evidence.clear();
        self.go(Phase::Ramping(Ramping::new(percent, now_ms)), reason)
    }

    pub(super) fn close(&mut self, reason: Reason, now_ms: u64) -> Option<Transition> {
        self.backoff.closed(now_ms);
        if matches!(self.phase, Phase::Open { .. } | Phase::HalfOpen { .. }) {
            self.evidence.clear();
        }
        self.go(Phase::Closed, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_a_share_is_counted_out_evenly_and_begins_at_once() {
        for percent in 1..=100 {
            let mut ramp = Ramping::new(percent, 0);
            assert!(ramp.takes(true, 0));
            let taken = 1 + (1..200).filter(|_| ramp.takes(true, 0)).count();
            assert_eq!(taken, 2 * usize::from(percent));
        }
    }

    #[test]
    fn b1_where_calls_are_rare_one_a_second_comes_through() {
        let mut ramp = Ramping::new(10, 0);
        let taken = (0..40).filter(|half| ramp.takes(true, half * 500)).count();
        assert!((20..=24).contains(&taken), "two a second for 20 s: {taken}");
        let mut ramp = Ramping::new(10, 0);
        let taken = (0..2_000).filter(|n| ramp.takes(true, n * 5)).count();
        assert!((200..=210).contains(&taken), "200 a second for 10 s: {taken}");
    }
}
