//! One target in the fleet: what nodes say of it, and what is said to them.

mod course;

use std::collections::BTreeMap;

use super::{FORGOTTEN_MS, Node, SILENT_MS, Standing, groups::Groups, sight::Sight, stage::Stage};
use crate::breaker::{
    Action, Directive, Forced, MAX_COMMENT, Order, Probe, Reason, Rules, State, TargetKey, Window,
    backoff::Backoff, dice::Dice,
};

/// A directive holds so long, and is repeated so often. Milliseconds.
const TTL_MS: u64 = 30_000;
const REFRESH_MS: u64 = 10_000;
/// How the reason of an order begins that health probes have led to.
const PROBED: &str = "health probe: ";
/// No operator's word holds longer. Milliseconds.
const MAX_FORCED_MS: u64 = 31 * 86_400_000;
/// An older report than the newest is one that was overtaken, for so long. After that the node counts
/// anew. Milliseconds.
const OVERTAKEN_MS: u64 = 2_000;

/// The newest window of a node.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) window: Window,
    pub(super) at_ms: u64,
}

/// What one step of the merger works with.
pub(super) struct Round<'a> {
    pub(super) target: &'a TargetKey,
    pub(super) rules: &'a Rules,
    pub(super) nodes: &'a BTreeMap<String, Node>,
    pub(super) groups: &'a mut Groups,
    pub(super) dice: &'a mut Dice,
    pub(super) generation: &'a mut u64,
    pub(super) now_ms: u64,
    pub(super) actions: &'a mut Vec<Action>,
}

impl Round<'_> {
    fn next_generation(&mut self) -> u64 {
        *self.generation = self.generation.saturating_add(1);
        *self.generation
    }
}

#[derive(Debug, Clone)]
struct ForcedUntil {
    open: bool,
    until_ms: u64,
    comment: String,
}

/// One target.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    windows: BTreeMap<String, Seen>,
    seen_ms: u64,
    stage: Stage,
    reason: Reason,
    forced: Option<ForcedUntil>,
    /// What its health probes have found, while they have it ill and it can be done without.
    ill: Option<String>,
    backoff: Backoff,
    /// What is to be said is new.
    changed: bool,
    generation: u64,
    /// When it was last said; `None`: there is nothing in force.
    published_ms: Option<u64>,
    /// The node that had the last grant.
    last_node: String,
    confirm_after_ms: u64,
    held: bool,
}

impl Slot {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            windows: BTreeMap::new(),
            seen_ms: now_ms,
            stage: Stage::Closed,
            reason: Reason::Well,
            forced: None,
            ill: None,
            backoff: Backoff::default(),
            changed: false,
            generation: 0,
            published_ms: None,
            last_node: String::new(),
            confirm_after_ms: 0,
            held: false,
        }
    }

    pub(super) fn windows(&self) -> usize {
        self.windows.len()
    }

    pub(super) fn knows(&self, node: &str) -> bool {
        self.windows.contains_key(node)
    }

    pub(super) fn report(&mut self, node: &str, window: Window, now_ms: u64) {
        self.seen_ms = now_ms;
        let overtaken = self.windows.get(node).is_some_and(|seen| {
            seen.window.seq >= window.seq && now_ms.saturating_sub(seen.at_ms) < OVERTAKEN_MS
        });
        if !overtaken {
            self.windows.insert(node.to_owned(), Seen { window, at_ms: now_ms });
        }
    }

    pub(super) fn probed(&mut self, generation: u64, probe: Probe) {
        let granted = self.stage.granted().filter(|granted| granted.generation == generation);
        if let Some(granted) = granted {
            granted.answer.get_or_insert(probe);
        }
    }

    pub(super) fn forget_silent(&mut self, now_ms: u64) {
        self.windows.retain(|_, seen| now_ms.saturating_sub(seen.at_ms) < SILENT_MS);
    }

    /// Nobody speaks of it any more.
    pub(super) fn is_forgotten(&self, now_ms: u64) -> bool {
        self.published_ms.is_none()
            && self.forced.is_none()
            && self.ill.is_none()
            && now_ms.saturating_sub(self.seen_ms) >= FORGOTTEN_MS
    }

    pub(super) fn is_ejected(&self) -> bool {
        match &self.forced {
            Some(forced) => forced.open,
            None => self.ill.is_some() || self.stage.is_ejected(),
        }
    }

    /// Does an operator want it open or closed?
    pub(super) fn forced(&self) -> Option<bool> {
        self.forced.as_ref().map(|forced| forced.open)
    }

    /// Is how it stands not for what nodes see to say?
    pub(super) fn is_forced(&self) -> bool {
        self.forced.is_some() || self.ill.is_some()
    }

    pub(super) fn health(&self) -> (u8, u64) {
        self.stage.health()
    }

    pub(super) fn force(&mut self, forced: Forced, now_ms: u64) {
        let comment =
            forced.comment.chars().filter(|c| !c.is_control()).take(MAX_COMMENT).collect();
        let until_ms = now_ms.saturating_add(forced.left_ms.min(MAX_FORCED_MS));
        self.forced = Some(ForcedUntil { open: forced.open, until_ms, comment });
        self.go(Stage::Closed, Reason::Operator);
    }

    pub(super) fn unforce(&mut self, now_ms: u64) {
        let Some(forced) = self.forced.take() else { return };
        let stage = if forced.open {
            Stage::HalfOpen { granted: None, not_before_ms: now_ms }
        } else {
            Stage::Closed
        };
        self.go(stage, Reason::OpenTimeOver);
    }

    /// Its health probes fail: it is left alone whatever nodes see, unless an operator wants it used.
    pub(super) fn ail(&mut self, reason: &str) {
        if self.ill.is_none() {
            self.go(Stage::Closed, Reason::Ill);
        }
        if self.ill.as_deref() != Some(reason) {
            self.ill = Some(reason.to_owned());
        }
    }

    /// Its health probes do not fail (any more). It is tried by a probe first.
    pub(super) fn recover(&mut self, now_ms: u64) {
        if self.ill.take().is_some() {
            let stage = Stage::HalfOpen { granted: None, not_before_ms: now_ms };
            self.go(stage, Reason::HealthBack);
        }
    }

    /// Its health probes fail, but its group cannot do without it.
    pub(super) fn spare(&mut self) {
        if self.ill.take().is_some() {
            self.release();
        }
    }

    /// Closes: too much of its group is left out.
    pub(super) fn release(&mut self) {
        self.held = true;
        self.go(Stage::Closed, Reason::GroupSpent);
    }

    pub(super) fn resume(&mut self, directive: &Directive, rules: &Rules, now_ms: u64) {
        let forced = |open, left_ms: u64| {
            let comment = directive.reason.chars().take(MAX_COMMENT).collect();
            let until_ms = now_ms.saturating_add(left_ms.min(MAX_FORCED_MS));
            Some(ForcedUntil { open, until_ms, comment })
        };
        self.reason = Reason::Fleet;
        match directive.order {
            Order::Open { left_ms } => {
                let left_ms = left_ms.min(rules.max_open_ms.saturating_mul(6) / 5);
                self.backoff = Backoff::resumed(rules, left_ms);
                self.stage = Stage::Open { until_ms: now_ms.saturating_add(left_ms) };
            }
            Order::HalfOpen => {
                // A probe of the merger before may be on its way.
                let not_before_ms = now_ms.saturating_add(rules.probe_ms);
                self.stage = Stage::HalfOpen { granted: None, not_before_ms };
            }
            Order::Ramp { percent } => {
                self.stage = Stage::Ramping { percent: percent.clamp(1, 100), since_ms: now_ms };
            }
            Order::ForcedOpen { left_ms } => self.forced = forced(true, left_ms),
            Order::ForcedClosed { left_ms } => self.forced = forced(false, left_ms),
            Order::Ill { .. } => self.ill = Some(ill_by(&directive.reason).to_owned()),
        }
        self.generation = directive.generation;
        self.published_ms = Some(now_ms);
        self.changed = true;
    }

    pub(super) fn standing(
        &self,
        target: &TargetKey,
        nodes: &BTreeMap<String, Node>,
        now_ms: u64,
    ) -> Standing {
        let sight = Sight::of(&self.windows, nodes, 0);
        let until_ms = match (&self.forced, &self.stage) {
            (Some(forced), _) => forced.until_ms,
            (None, Stage::Open { until_ms }) => *until_ms,
            (None, _) => now_ms,
        };
        Standing {
            target: target.clone(),
            state: match &self.forced {
                Some(forced) if forced.open => State::Open,
                Some(_) => State::Closed,
                None if self.ill.is_some() => State::Open,
                None => self.stage.state(),
            },
            reason: match (&self.forced, &self.ill) {
                (None, Some(_)) => Reason::Ill,
                _ => self.reason,
            },
            generation: self.generation,
            forced: self.forced.as_ref().map(|forced| Forced {
                open: forced.open,
                left_ms: forced.until_ms.saturating_sub(now_ms),
                comment: forced.comment.clone(),
            }),
            left_ms: until_ms.saturating_sub(now_ms),
            strikes: self.backoff.openings(),
            nodes: u32::try_from(self.windows.len()).unwrap_or(u32::MAX),
            nodes_open: sight.open,
            nodes_split: sight.split,
            in_flight: sight.in_flight,
            recent: sight.recent,
            held: self.held,
        }
    }

    /// Draws the conclusions of one target.
    pub(super) fn step(&mut self, round: &mut Round<'_>) {
        if self.forced.as_ref().is_some_and(|forced| forced.until_ms <= round.now_ms) {
            self.unforce(round.now_ms);
        }
        if !self.is_forced() {
            if round.now_ms.saturating_sub(self.seen_ms) >= FORGOTTEN_MS
                && self.stage != Stage::Closed
            {
                self.go(Stage::Closed, Reason::Well);
            }
            self.move_on(round);
        }
        round.groups.set_ejected(round.target, self.is_ejected());
        // First what holds for all, so that a grant is the newest word.
        self.publish(round);
        if !self.is_forced() {
            self.ask(round);
        }
    }

    /// Says what is new, and repeats what holds.
    fn publish(&mut self, round: &mut Round<'_>) {
        let now_ms = round.now_ms;
        let changed = std::mem::take(&mut self.changed);
        let Some((order, ttl_ms)) = self.order(now_ms) else {
            if self.published_ms.take().is_some() {
                self.generation = round.next_generation();
                let (target, generation) = (round.target.clone(), self.generation);
                round.actions.push(Action::Withdraw { target, generation });
            }
            return;
        };
        let due = self.published_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= REFRESH_MS);
        if changed {
            self.generation = round.next_generation();
        } else if !due {
            return;
        }
        self.published_ms = Some(now_ms);
        round.actions.push(Action::Publish(Directive {
            target: round.target.clone(),
            generation: self.generation,
            order,
            ttl_ms,
            reason: match (&self.forced, &self.ill) {
                (Some(forced), _) => forced.comment.clone(),
                (None, Some(ill)) => format!("{PROBED}{ill}").chars().take(MAX_COMMENT).collect(),
                (None, None) => self.reason.to_string(),
            },
        }));
    }

    /// What is to be said, and for how long it holds.
    fn order(&self, now_ms: u64) -> Option<(Order, u64)> {
        if let Some(forced) = &self.forced {
            let left_ms = forced.until_ms.saturating_sub(now_ms);
            let order = if forced.open {
                Order::ForcedOpen { left_ms }
            } else {
                Order::ForcedClosed { left_ms }
            };
            return Some((order, left_ms));
        }
        if self.ill.is_some() {
            return Some((Order::Ill { left_ms: TTL_MS }, TTL_MS));
        }
        let order = match self.stage {
            Stage::Closed | Stage::Confirming { .. } => return None,
            Stage::Open { until_ms } => Order::Open { left_ms: until_ms.saturating_sub(now_ms) },
            Stage::HalfOpen { .. } => Order::HalfOpen,
            Stage::Ramping { percent, .. } => Order::Ramp { percent },
        };
        Some((order, TTL_MS))
    }
}

/// What health probes had found, by the reason of the order that it led to.
pub(super) fn ill_by(reason: &str) -> &str {
    reason.strip_prefix(PROBED).unwrap_or(reason)
}
