//! What all nodes together see of all targets, and what follows for everybody.

mod checks;
mod groups;
mod sight;
mod slot;
mod stage;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Action, CheckRules, Counts, Directive, Finding, Forced, InvalidName, Order, Probe, Reason,
    Rules, State, TargetKey, Window, dice::Dice, target::check,
};
use checks::Checks;
use groups::Groups;
pub use groups::emptied;
use slot::{Round, Slot, ill_by};

/// A node that says nothing for so long is not counted. Milliseconds.
const SILENT_MS: u64 = 5_000;
/// A target that no node speaks of for so long is forgotten. Milliseconds.
const FORGOTTEN_MS: u64 = 600_000;
/// Most nodes, most targets, and most windows of both together.
const MAX_NODES: usize = 10_000;
const MAX_TARGETS: usize = 10_000;
const MAX_WINDOWS: usize = 250_000;
/// A merger that died may have granted more than it published: its heir counts on from so far.
const HEIR: u64 = 1 << 20;
/// No merger has counted so far; whoever says so is not believed.
const MAX_GENERATION: u64 = 1 << 62;

/// The merger, run by the elected control plane.
///
/// One bad node, or one bad zone, never opens a target for all; a fleet of one node is opened by it.
/// Everything it is told is a state that replaces an older one, and everything it says is repeated
/// until it changes, so that what is lost or comes twice does no harm.
#[derive(Debug, Clone)]
pub struct Fleet {
    usual: Arc<Rules>,
    own: BTreeMap<TargetKey, Arc<Rules>>,
    dice: Dice,
    generation: u64,
    nodes: BTreeMap<String, Node>,
    slots: BTreeMap<TargetKey, Slot>,
    /// Windows of all slots.
    windows: usize,
    groups: Groups,
    checks: Checks,
}

#[derive(Debug, Clone)]
struct Node {
    zone: Option<String>,
    seen_ms: u64,
    /// It sends health probes where it is told to.
    checks: bool,
}

/// A report, or a wish, that the merger cannot keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("too many nodes, targets, or both together")]
    Full,
}

/// How a target stands in the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub target: TargetKey,
    pub state: State,
    pub reason: Reason,
    /// Of what was published last.
    pub generation: u64,
    /// What an operator wants, while it lasts.
    pub forced: Option<Forced>,
    /// Until it is tried again.
    pub left_ms: u64,
    /// Openings in a row.
    pub strikes: u32,
    /// Nodes that speak of it.
    pub nodes: u32,
    /// Nodes that have it open by what they saw themselves.
    pub nodes_open: u32,
    /// Nodes that see it well while the fleet has it open.
    pub nodes_split: u32,
    pub in_flight: u32,
    /// Of all nodes, in the last 5 seconds.
    pub recent: Counts,
    /// It would be open, but too much of its group is left out.
    pub held: bool,
}

impl Fleet {
    /// Knows of nothing. `seed` spreads times.
    pub fn new(rules: Arc<Rules>, seed: u64) -> Self {
        Self {
            usual: rules,
            own: BTreeMap::new(),
            dice: Dice::new(seed),
            generation: 0,
            nodes: BTreeMap::new(),
            slots: BTreeMap::new(),
            windows: 0,
            groups: Groups::default(),
            checks: Checks::default(),
        }
    }

    /// The policy changed: the usual rules, and those of targets that have their own.
    pub fn set_rules(&mut self, usual: Arc<Rules>, own: BTreeMap<TargetKey, Arc<Rules>>) {
        self.usual = usual;
        self.own = own;
    }

    /// The policy changed: targets that stand in for each other. Of a group of more than one, at most
    /// the share beside it is open at once and never all; a target of several groups heeds them all.
    /// What is open beyond that is closed with the next tick, the nearest to health first.
    pub fn set_groups(&mut self, groups: Vec<(Vec<TargetKey>, f64)>) {
        self.groups.set(groups);
    }

    /// The policy changed: targets that have health probes.
    pub fn set_checks(&mut self, rules: BTreeMap<TargetKey, CheckRules>) {
        self.checks.set(rules);
    }

    /// A node is there; `checks`: it sends health probes where it is told to.
    ///
    /// # Errors
    /// A name cannot be kept, or there are too many.
    pub fn heartbeat(
        &mut self,
        node: &str,
        zone: Option<&str>,
        checks: bool,
        now_ms: u64,
    ) -> Result<(), NotTaken> {
        check(node)?;
        zone.map_or(Ok(()), check)?;
        if !self.nodes.contains_key(node) && self.nodes.len() >= MAX_NODES {
            return Err(NotTaken::Full);
        }
        let zone = zone.map(str::to_owned);
        self.nodes.insert(node.to_owned(), Node { zone, seen_ms: now_ms, checks });
        Ok(())
    }

    /// A node tells what its health probes of a target have come to. Only whoever is to send them is
    /// heard.
    pub fn finding(&mut self, node: &str, target: &TargetKey, finding: &Finding, now_ms: u64) {
        self.checks.found(node, target, finding, now_ms);
    }

    /// Chooses the node that sends the health probes of each target, of those that were heard of
    /// lately. To be asked together with [`Fleet::tick`], once enough has been heard.
    pub fn assign_checks(&mut self) {
        self.checks.assign(&self.nodes);
    }

    /// The node that sends the health probes of each target, where there is one.
    pub fn probers(&self) -> impl Iterator<Item = (&TargetKey, &str)> {
        self.checks.probers()
    }

    /// The node that sends the health probes of a target.
    pub fn prober(&self, target: &TargetKey) -> Option<&str> {
        self.checks.prober(target)
    }

    /// Takes over from another merger which node sends the health probes of a target.
    pub fn resume_prober(&mut self, target: &TargetKey, node: &str) {
        self.checks.resume(target, node);
    }

    /// A node tells what it sees of a target.
    ///
    /// # Errors
    /// A name cannot be kept, or there are too many.
    pub fn report(
        &mut self,
        node: &str,
        zone: Option<&str>,
        target: &TargetKey,
        window: Window,
        now_ms: u64,
    ) -> Result<(), NotTaken> {
        check(node)?;
        zone.map_or(Ok(()), check)?;
        let new_node = !self.nodes.contains_key(node);
        let new_window = !self.slots.get(target).is_some_and(|slot| slot.knows(node));
        if (new_node && self.nodes.len() >= MAX_NODES)
            || (new_window && self.windows >= MAX_WINDOWS)
        {
            return Err(NotTaken::Full);
        }
        if window.heard < MAX_GENERATION {
            self.generation = self.generation.max(window.heard);
        }
        self.slot(target, now_ms)?.report(node, window, now_ms);
        self.windows += usize::from(new_window);
        let zone = zone.map(str::to_owned);
        let checks = self.nodes.get(node).is_some_and(|known| known.checks);
        self.nodes.insert(node.to_owned(), Node { zone, seen_ms: now_ms, checks });
        Ok(())
    }

    /// A node tells what came of a probe. What is not the newest grant of the target is ignored.
    pub fn probe_result(&mut self, target: &TargetKey, generation: u64, probe: Probe) {
        if let Some(slot) = self.slots.get_mut(target) {
            slot.probed(generation, probe);
        }
    }

    /// An operator wants a target open or closed for a while, whatever anybody sees.
    ///
    /// # Errors
    /// A name cannot be kept, or there are too many targets.
    pub fn force(
        &mut self,
        target: &TargetKey,
        forced: Forced,
        now_ms: u64,
    ) -> Result<(), NotTaken> {
        let slot = self.slot(target, now_ms)?;
        slot.force(forced, now_ms);
        let ejected = slot.is_ejected();
        self.groups.set_ejected(target, ejected);
        Ok(())
    }

    /// Takes back what an operator wanted. What was open is tried by a probe first.
    pub fn unforce(&mut self, target: &TargetKey, now_ms: u64) {
        if let Some(slot) = self.slots.get_mut(target) {
            slot.unforce(now_ms);
        }
    }

    /// Takes over from another merger what it published last.
    pub fn resume(&mut self, directives: &[Directive], now_ms: u64) {
        for directive in directives {
            let rules = self.own.get(&directive.target).unwrap_or(&self.usual).clone();
            if directive.generation < MAX_GENERATION {
                self.generation = self.generation.max(directive.generation);
            }
            if let Order::Ill { .. } = directive.order {
                let reason = ill_by(&directive.reason).to_owned();
                self.checks.resume_ill(&directive.target, reason, now_ms);
            }
            // One with names that cannot be kept was never published.
            if let Ok(slot) = self.slot(&directive.target, now_ms) {
                slot.resume(directive, &rules, now_ms);
                let ejected = slot.is_ejected();
                self.groups.set_ejected(&directive.target, ejected);
            }
        }
        self.generation = self.generation.saturating_add(HEIR);
    }

    /// Counts on from what was said before, also of targets that are closed.
    pub fn heard_of(&mut self, generation: u64) {
        if generation < MAX_GENERATION {
            self.generation = self.generation.max(generation);
        }
    }

    /// Draws the conclusions; to be asked about twice a second, and at once after a report that tells
    /// of a change.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Action> {
        self.nodes.retain(|_, node| now_ms.saturating_sub(node.seen_ms) < SILENT_MS);
        for slot in self.slots.values_mut() {
            slot.forget_silent(now_ms);
        }
        self.windows = self.slots.values().map(Slot::windows).sum();
        self.heed_checks(now_ms);
        self.release();
        let mut actions = Vec::new();
        for (target, slot) in &mut self.slots {
            slot.step(&mut Round {
                target,
                rules: self.own.get(target).unwrap_or(&self.usual),
                nodes: &self.nodes,
                groups: &mut self.groups,
                dice: &mut self.dice,
                generation: &mut self.generation,
                now_ms,
                actions: &mut actions,
            });
        }
        let groups = &mut self.groups;
        self.slots.retain(|target, slot| {
            let kept = !slot.is_forgotten(now_ms);
            if !kept {
                groups.set_ejected(target, false);
            }
            kept
        });
        actions
    }

    /// How the targets stand, by name.
    pub fn standings(&self, now_ms: u64) -> impl Iterator<Item = Standing> + '_ {
        self.slots.iter().map(move |(target, slot)| slot.standing(target, &self.nodes, now_ms))
    }

    /// Nodes that were heard of lately.
    pub fn nodes(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// Leaves alone what health probes find ill. Of targets that stand in for each other the last that
    /// is not ill stays in use; where all are ill none is left alone, since it is as likely that the
    /// probes are wrong.
    fn heed_checks(&mut self, now_ms: u64) {
        let ill = self.checks.ill(now_ms);
        for target in ill.keys() {
            // One that cannot be kept is not left alone.
            self.slot(target, now_ms).ok();
        }
        let out = |target: &TargetKey| {
            let forced = self.slots.get(target).and_then(Slot::forced);
            forced.unwrap_or_else(|| ill.contains_key(target))
        };
        let spared = if ill.is_empty() { BTreeSet::new() } else { self.groups.emptied(out) };
        for (target, slot) in &mut self.slots {
            match ill.get(target) {
                Some(_) if spared.contains(target) => slot.spare(),
                Some(reason) => slot.ail(reason),
                None => slot.recover(now_ms),
            }
            self.groups.set_ejected(target, slot.is_ejected());
        }
    }

    /// Closes what is open beyond what groups allow, the nearest to health first.
    fn release(&mut self) {
        let mut done: BTreeSet<TargetKey> = BTreeSet::new();
        while let Some(group) = self.groups.crowded(&done) {
            let health = |target: &&TargetKey| self.slots.get(*target).map(Slot::health);
            let released = group.iter().filter(|target| {
                self.slots.get(*target).is_some_and(|slot| slot.is_ejected() && !slot.is_forced())
            });
            let Some(target) = released.max_by_key(health).cloned() else {
                // All of it is an operator's will.
                done.extend(group);
                continue;
            };
            if let Some(slot) = self.slots.get_mut(&target) {
                slot.release();
            }
            self.groups.set_ejected(&target, false);
        }
    }

    fn slot(&mut self, target: &TargetKey, now_ms: u64) -> Result<&mut Slot, NotTaken> {
        if !self.slots.contains_key(target) {
            target.clone().checked()?;
            if self.slots.len() >= MAX_TARGETS {
                return Err(NotTaken::Full);
            }
        }
        Ok(self.slots.entry(target.clone()).or_insert_with(|| Slot::new(now_ms)))
    }
}
