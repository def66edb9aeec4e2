//! What the windows of all nodes say together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Node, slot::Seen};
use crate::breaker::{Counts, Reason, Rules, State};

/// The fleet's failures open a target at this share of so many calls of the last 5 seconds.
const RATIO: f64 = 0.5;
const LEAST: u32 = 100;
/// The same without the worst: there must be so many calls left.
const LEAST_OTHERS: u32 = 10;
/// Of the nodes with traffic, this share must have it open.
const SHARE: f64 = 0.3;
/// With fewer failures traffic that comes back is not stopped.
const RAMP_FAILURES: u32 = 3;

/// All nodes together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sight {
    pub(super) recent: Counts,
    /// Without the node, or the zone if there are several, that fails most: none alone decides.
    others: Counts,
    busy: u32,
    pub(super) open: u32,
    pub(super) split: u32,
    zones: usize,
    zones_open: usize,
    pub(super) in_flight: u32,
    /// A node has it open because no later call would go well.
    pub(super) fatal: bool,
    alone: bool,
}

impl Sight {
    /// Of the nodes that have heard at least of this generation.
    pub(super) fn of(
        windows: &BTreeMap<String, Seen>,
        nodes: &BTreeMap<String, Node>,
        generation: u64,
    ) -> Self {
        let mut sight = Self { alone: nodes.len() == 1, ..Self::default() };
        let mut by_node = Vec::new();
        let (mut zones, mut zones_open) = (BTreeMap::<_, Counts>::new(), BTreeSet::new());
        for (name, seen) in windows {
            let window = &seen.window;
            if window.heard < generation {
                continue;
            }
            sight.recent = sight.recent.plus(&window.recent);
            sight.in_flight = sight.in_flight.saturating_add(window.in_flight);
            sight.split += u32::from(window.split);
            let open = window.own && matches!(window.state, State::Open | State::HalfOpen);
            let busy = open || window.in_flight > 0 || window.long.started > 0;
            if !busy {
                continue;
            }
            let zone = nodes.get(name).and_then(|node| node.zone.as_deref());
            sight.busy += 1;
            by_node.push(window.recent);
            let counts = zones.entry(zone).or_default();
            *counts = counts.plus(&window.recent);
            if open {
                sight.open += 1;
                zones_open.insert(zone);
                sight.fatal |= window.fatal;
            }
        }
        (sight.zones, sight.zones_open) = (zones.len(), zones_open.len());
        let by_zone: Vec<_> = zones.into_values().collect();
        sight.others = if sight.alone {
            sight.recent
        } else {
            without_worst(if by_zone.len() > 1 { &by_zone } else { &by_node })
        };
        sight
    }

    /// Do the nodes agree that the target is to be left alone?
    pub(super) fn opens(&self) -> Option<Reason> {
        self.nodes_agree().or_else(|| {
            let (all, others) = (&self.recent, &self.others);
            let fails = all.attempts() >= LEAST
                && all.failure_ratio() >= RATIO
                && others.attempts() >= LEAST_OTHERS
                && others.failure_ratio() >= RATIO;
            let (failed, of) = (all.failed, all.attempts());
            fails.then_some(Reason::FailureRate { failed, of, window_ms: 5_000 })
        })
    }

    fn nodes_agree(&self) -> Option<Reason> {
        let wanted = (f64::from(self.busy) * SHARE).max(2.0);
        let many = f64::from(self.open) >= wanted && (self.zones < 2 || self.zones_open >= 2);
        let agree = many || (self.alone && self.open > 0);
        agree.then_some(Reason::Nodes { open: self.open, of: self.busy })
    }

    /// Does traffic that comes back show that it comes too soon?
    pub(super) fn ramp_fails(&self, rules: &Rules) -> Option<Reason> {
        let dead = self.fatal || self.recent.dead > 0;
        dead.then_some(Reason::Confirmed).or_else(|| self.nodes_agree()).or_else(|| {
            let fails = self.others.failed >= RAMP_FAILURES
                && self.others.failure_ratio() > rules.ramp.reopen_ratio
                && self.recent.failure_ratio() > rules.ramp.reopen_ratio;
            let (failed, of) = (self.recent.failed, self.recent.attempts());
            fails.then_some(Reason::RampFailed { failed, of })
        })
    }

    /// May more traffic come back?
    pub(super) fn ramp_goes_on(&self, rules: &Rules) -> bool {
        rules.ramp.goes_on(&self.recent)
            || (!self.recent.is_pending() && rules.ramp.goes_on(&self.others))
    }
}

/// Everything but the part with the most failures.
fn without_worst(parts: &[Counts]) -> Counts {
    let worst = parts.iter().enumerate().max_by_key(|(_, counts)| counts.failed).map(|(at, _)| at);
    parts
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != worst)
        .fold(Counts::default(), |sum, (_, counts)| sum.plus(counts))
}
