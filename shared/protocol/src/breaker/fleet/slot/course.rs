//! How one target goes from stage to stage.

use super::{Round, Slot};
use crate::breaker::{
    Action, Grant, Probe, Reason, State, Window,
    fleet::{
        sight::Sight,
        stage::{Granted, Stage},
    },
    settings::RAMP,
};

/// The way of a grant and of its answer. Milliseconds.
const TRANSIT_MS: u64 = 1_000;
/// An engine that a probe found alive is not asked after again for so long. Milliseconds.
const CONFIRMED_MS: u64 = 30_000;
/// So many nodes are asked whether an engine is dead.
const CONFIRM_GRANTS: u8 = 3;

/// After a grant that was not used, so long passes until the next. Milliseconds.
const UNUSED_MS: u64 = 1_000;

impl Slot {
    pub(super) fn move_on(&mut self, round: &mut Round<'_>) {
        let now_ms = round.now_ms;
        match self.stage.clone() {
            Stage::Closed if round.rules.off => {}
            _ if round.rules.off => self.go(Stage::Closed, Reason::Operator),
            Stage::Closed => {
                let sight = Sight::of(&self.windows, round.nodes, 0);
                if let Some(reason) = sight.opens() {
                    return self.eject(reason, round);
                }
                self.held = false;
                if sight.fatal && now_ms >= self.confirm_after_ms {
                    self.stage = Stage::Confirming { grants: 0, granted: None };
                }
            }
            Stage::Confirming { grants, granted } => {
                if let Some(reason) = Sight::of(&self.windows, round.nodes, 0).opens() {
                    return self.eject(reason, round);
                }
                match answer(granted.as_ref(), now_ms) {
                    Answer::Given(Probe::Failed) => self.eject(Reason::Confirmed, round),
                    Answer::Given(Probe::Ok) => self.confirmed(now_ms),
                    Answer::Given(Probe::Unused) | Answer::Missing if grants >= CONFIRM_GRANTS => {
                        self.confirmed(now_ms);
                    }
                    Answer::Pending | Answer::Given(Probe::Unused) | Answer::Missing => {}
                }
            }
            Stage::Open { until_ms } if until_ms <= now_ms => {
                let stage = Stage::HalfOpen { granted: None, not_before_ms: now_ms };
                self.go(stage, Reason::OpenTimeOver);
            }
            Stage::Open { .. } => {}
            Stage::HalfOpen { granted, .. } => match answer(granted.as_ref(), now_ms) {
                Answer::Given(Probe::Ok) => {
                    let [percent, ..] = RAMP;
                    let stage = Stage::Ramping { percent, since_ms: now_ms };
                    self.go(stage, Reason::ProbeSucceeded);
                }
                Answer::Given(Probe::Failed) => self.eject(Reason::ProbeFailed, round),
                // Whoever had it did not find out: somebody may at another time.
                Answer::Given(Probe::Unused) => {
                    let not_before_ms = now_ms.saturating_add(UNUSED_MS);
                    self.stage = Stage::HalfOpen { granted: None, not_before_ms };
                }
                Answer::Pending | Answer::Missing => {}
            },
            Stage::Ramping { percent, since_ms } => self.ramp(percent, since_ms, round),
        }
    }

    fn ramp(&mut self, percent: u8, since_ms: u64, round: &mut Round<'_>) {
        let sight = Sight::of(&self.windows, round.nodes, self.generation);
        if let Some(reason) = sight.ramp_fails(round.rules) {
            return self.eject(reason, round);
        }
        let over = round.now_ms.saturating_sub(since_ms) >= round.rules.ramp.step_ms;
        if !over || !sight.ramp_goes_on(round.rules) {
            return;
        }
        match RAMP.into_iter().find(|next| *next > percent) {
            Some(percent) => {
                let since_ms = round.now_ms;
                self.go(Stage::Ramping { percent, since_ms }, self.reason);
            }
            None => {
                self.backoff.closed(round.now_ms);
                self.go(Stage::Closed, Reason::RampDone);
            }
        }
    }

    /// Opens, if its groups can do without it.
    fn eject(&mut self, reason: Reason, round: &mut Round<'_>) {
        if !round.groups.may_eject(round.target) {
            self.held = true;
            if matches!(self.stage, Stage::Confirming { .. }) {
                self.confirmed(round.now_ms);
            }
            return;
        }
        let open_ms = self.backoff.open(round.rules, round.dice.roll(), round.now_ms);
        self.held = false;
        self.go(Stage::Open { until_ms: round.now_ms.saturating_add(open_ms) }, reason);
    }

    pub(super) fn go(&mut self, stage: Stage, reason: Reason) {
        self.stage = stage;
        self.reason = reason;
        self.changed = true;
    }

    /// A dead engine is not to be asked after for a while.
    fn confirmed(&mut self, now_ms: u64) {
        self.stage = Stage::Closed;
        self.confirm_after_ms = now_ms.saturating_add(CONFIRMED_MS);
    }

    /// Lets the next node probe where one is wanted and none is on its way.
    pub(super) fn ask(&mut self, round: &mut Round<'_>) {
        let now_ms = round.now_ms;
        let (Stage::Confirming { granted, .. } | Stage::HalfOpen { granted, .. }) = &self.stage
        else {
            return;
        };
        if matches!(answer(granted.as_ref(), now_ms), Answer::Pending) {
            return;
        }
        match self.stage {
            // One that uses the target, and never one that says itself that the engine is dead.
            Stage::Confirming { grants, .. } => {
                let node = self.next_node(|window| {
                    matches!(window.state, State::Closed | State::Suspect)
                        && window.long.started > 0
                });
                let granted = self.grant(node, round);
                self.stage = Stage::Confirming { grants: grants + 1, granted };
            }
            // One that has a call waiting, if there is one.
            Stage::HalfOpen { not_before_ms, .. } if not_before_ms <= now_ms => {
                let node =
                    self.next_node(|window| window.waiting).or_else(|| self.next_node(|_| true));
                let granted = self.grant(node, round);
                self.stage = Stage::HalfOpen { granted, not_before_ms };
            }
            Stage::HalfOpen { .. } | Stage::Closed | Stage::Open { .. } | Stage::Ramping { .. } => {
            }
        }
    }

    /// The next of such nodes after the one that had the last grant, in a circle.
    fn next_node(&self, suits: impl Fn(&Window) -> bool) -> Option<String> {
        let suiting = || self.windows.iter().filter(|(_, seen)| suits(&seen.window));
        let next = suiting().find(|(node, _)| **node > self.last_node);
        next.or_else(|| suiting().next()).map(|(node, _)| node.clone())
    }

    fn grant(&mut self, node: Option<String>, round: &mut Round<'_>) -> Option<Granted> {
        let node = node?;
        self.last_node.clone_from(&node);
        let generation = round.next_generation();
        let deadline_ms = round.rules.probe_ms;
        let target = round.target.clone();
        round.actions.push(Action::Grant(Grant { node, target, generation, deadline_ms }));
        let until_ms = round.now_ms.saturating_add(deadline_ms).saturating_add(TRANSIT_MS);
        Some(Granted { generation, until_ms, answer: None })
    }
}

/// What is known of a probe.
enum Answer {
    Pending,
    Given(Probe),
    /// None was granted, or nothing was heard of it in time.
    Missing,
}

fn answer(granted: Option<&Granted>, now_ms: u64) -> Answer {
    match granted {
        Some(Granted { answer: Some(probe), .. }) => Answer::Given(*probe),
        Some(Granted { until_ms, .. }) if now_ms < *until_ms => Answer::Pending,
        _ => Answer::Missing,
    }
}
