//! Who of the fleet sends which health probes, and what they have found.

use std::collections::BTreeMap;

use super::Node;
use crate::breaker::{CheckRules, Finding, Health, TargetKey, dice::Dice};

/// An older finding than the newest is one that was overtaken, for so long. After that the node counts
/// anew. Milliseconds.
const OVERTAKEN_MS: u64 = 2_000;

/// The health probes of the fleet.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    of: BTreeMap<TargetKey, Checked>,
    /// Those who can be chosen, when they were chosen from last.
    nodes: Vec<String>,
    /// There are targets for which nobody was chosen yet.
    new: bool,
}

#[derive(Debug, Clone)]
struct Checked {
    rules: CheckRules,
    node: Option<String>,
    found: Option<Found>,
}

/// What was found last by whoever had found anything.
#[derive(Debug, Clone)]
struct Found {
    /// Why it is ill; `None`: it is well.
    ill: Option<String>,
    node: String,
    seq: u64,
    at_ms: u64,
}

impl Checks {
    /// The policy changed.
    pub(super) fn set(&mut self, rules: BTreeMap<TargetKey, CheckRules>) {
        self.of.retain(|target, _| rules.contains_key(target));
        for (target, rules) in rules {
            match self.of.get_mut(&target) {
                Some(checked) => checked.rules = rules,
                None => {
                    self.new = true;
                    self.of.insert(target, Checked { rules, node: None, found: None });
                }
            }
        }
    }

    /// Chooses who sends the probes of each target.
    pub(super) fn assign(&mut self, nodes: &BTreeMap<String, Node>) {
        let able = nodes.iter().filter(|(_, node)| node.checks).map(|(name, _)| name);
        if !self.new && able.clone().eq(&self.nodes) {
            return;
        }
        self.new = false;
        self.nodes = able.cloned().collect();
        for (target, checked) in &mut self.of {
            checked.node = self.nodes.iter().max_by_key(|node| score(node, target)).cloned();
        }
    }

    /// Takes over what another merger had said.
    pub(super) fn resume(&mut self, target: &TargetKey, node: &str) {
        if let Some(checked) = self.of.get_mut(target) {
            checked.node = Some(node.to_owned());
        }
    }

    /// The merger before had it ill.
    pub(super) fn resume_ill(&mut self, target: &TargetKey, reason: String, now_ms: u64) {
        if let Some(checked) = self.of.get_mut(target) {
            let node = String::new();
            checked.found = Some(Found { ill: Some(reason), node, seq: 0, at_ms: now_ms });
        }
    }

    /// A node tells what it found. Only whoever was chosen is heard; who does not know (yet) leaves
    /// what was known before, until that is over.
    pub(super) fn found(&mut self, node: &str, target: &TargetKey, finding: &Finding, now_ms: u64) {
        let Some(checked) = self.of.get_mut(target) else { return };
        let overtaken = checked.found.as_ref().is_some_and(|known| {
            known.node == node
                && known.seq >= finding.seq
                && now_ms.saturating_sub(known.at_ms) < OVERTAKEN_MS
        });
        if checked.node.as_deref() != Some(node) || overtaken {
            return;
        }
        let ill = match finding.health {
            Health::Unknown => return,
            Health::Well => None,
            Health::Ill => Some(finding.reason.clone()),
        };
        let node = node.to_owned();
        checked.found = Some(Found { ill, node, seq: finding.seq, at_ms: now_ms });
    }

    /// Targets that are ill, and why.
    pub(super) fn ill(&self, now_ms: u64) -> BTreeMap<TargetKey, String> {
        let ill = self.of.iter().filter_map(|(target, checked)| {
            let found = checked.found.as_ref()?;
            let holds = now_ms.saturating_sub(found.at_ms) < checked.rules.held_ms();
            let reason = found.ill.as_ref().filter(|_| holds)?;
            Some((target.clone(), reason.clone()))
        });
        ill.collect()
    }

    /// Who sends the probes of each target.
    pub(super) fn probers(&self) -> impl Iterator<Item = (&TargetKey, &str)> {
        self.of.iter().filter_map(|(target, checked)| Some((target, checked.node.as_deref()?)))
    }

    pub(super) fn prober(&self, target: &TargetKey) -> Option<&str> {
        self.of.get(target)?.node.as_deref()
    }
}

/// Who has the highest score for a target has it, so that a node that comes or goes moves only its own
/// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). The hash is
/// FNV-1a, mixed well.
fn score(node: &str, target: &TargetKey) -> u64 {
    let names = [node, &target.provider, &target.model];
    // Names have no control characters, so that none of them runs into the next.
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Dice::new(hash).roll()
}

#[cfg(test)]
mod tests;
