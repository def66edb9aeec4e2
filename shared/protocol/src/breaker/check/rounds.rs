//! Which targets a node probes, when, and what it has found.

use std::collections::BTreeMap;

use super::{CheckRules, Checkup, Finding, Health, Tally};
use crate::breaker::{Check, MAX_COMMENT, TargetKey, dice::Dice};

/// Most targets whose being told is remembered.
const MAX_TOLD: usize = 10_000;
/// No word of the fleet's holds longer without being repeated. Milliseconds.
const MAX_TTL_MS: u64 = 600_000;

/// The health probes of one node. Probes of a target follow each other at its interval, so that with a
/// wait that is shorter there is never more than one under way.
#[derive(Debug, Clone)]
pub struct Rounds {
    turns: BTreeMap<TargetKey, Turn>,
    /// Until when targets are this node's to probe by the fleet's word, also of those that its policy
    /// does not name yet.
    told: BTreeMap<TargetKey, u64>,
    dice: Dice,
    seq: u64,
}

/// One target.
#[derive(Debug, Clone)]
struct Turn {
    rules: CheckRules,
    /// When it is probed next; `None`: it is not this node's to probe.
    due_ms: Option<u64>,
    tally: Tally,
    /// What the last probe found, and when.
    last: Option<(String, u64)>,
    /// It said nothing of the target.
    unclear: bool,
}

/// What one probe has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noted {
    /// They come to something else than before.
    pub turned: Option<Health>,
    /// It is the first of several that say nothing of the target.
    pub strange: bool,
}

/// What a node has found of one target, by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stand<'a> {
    pub target: &'a TargetKey,
    pub health: Health,
    /// It holds for so long yet.
    pub left_ms: u64,
}

impl Rounds {
    /// Nothing to probe. `seed` spreads its times apart from those of other nodes.
    pub fn new(seed: u64) -> Self {
        Self { turns: BTreeMap::new(), told: BTreeMap::new(), dice: Dice::new(seed), seq: 0 }
    }

    /// The policy has health probes of these targets. What was found of one stays unless its rules
    /// change.
    pub fn set(&mut self, rules: BTreeMap<TargetKey, CheckRules>) {
        self.turns.retain(|target, turn| rules.get(target) == Some(&turn.rules));
        for (target, rules) in rules {
            self.turns.entry(target).or_insert_with(|| Turn::new(rules));
        }
    }

    /// Does the policy have no health probes?
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The fleet says whose a target is to probe.
    pub fn told(&mut self, check: Check, now_ms: u64) {
        self.told.retain(|_, until_ms| *until_ms > now_ms);
        let Check { target, ttl_ms } = check;
        if ttl_ms == 0 {
            self.told.remove(&target);
        } else if self.told.len() < MAX_TOLD || self.told.contains_key(&target) {
            self.told.insert(target, now_ms.saturating_add(ttl_ms.min(MAX_TTL_MS)));
        }
    }

    /// The targets that are to be probed now. `alone`: nobody decides for the fleet, so that each node
    /// probes for itself. The first probe of a target comes at some time within its interval.
    pub fn begin(&mut self, alone: bool, now_ms: u64) -> Vec<TargetKey> {
        let mut begun = Vec::new();
        for (target, turn) in &mut self.turns {
            let mine = alone || self.told.get(target).is_some_and(|until_ms| *until_ms > now_ms);
            if !mine {
                turn.pass(now_ms);
                continue;
            }
            let interval_ms = turn.rules.interval_ms.max(1);
            let due_ms = *turn
                .due_ms
                .get_or_insert_with(|| now_ms.saturating_add(self.dice.roll() % interval_ms));
            if due_ms > now_ms {
                continue;
            }
            let next_ms = due_ms.saturating_add(interval_ms);
            // One that comes late does not bring the next one close.
            let late = next_ms <= now_ms.saturating_add(interval_ms / 2);
            let next_ms = if late { now_ms.saturating_add(interval_ms) } else { next_ms };
            turn.due_ms = Some(next_ms);
            begun.push(target.clone());
        }
        begun
    }

    /// When the next probe is due, in milliseconds from now; `None`: none is this node's.
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let due = self.turns.values().filter_map(|turn| turn.due_ms);
        due.min().map(|due_ms| due_ms.saturating_sub(now_ms))
    }

    /// A probe has ended. `reason` is for people.
    pub fn ended(
        &mut self,
        target: &TargetKey,
        checkup: Checkup,
        reason: &str,
        now_ms: u64,
    ) -> Noted {
        let Some(turn) = self.turns.get_mut(target) else { return Noted::default() };
        let before = turn.tally.health;
        turn.tally.count(checkup, &turn.rules);
        let reason = reason.chars().filter(|c| !c.is_control()).take(MAX_COMMENT).collect();
        turn.last = Some((reason, now_ms));
        let after = turn.tally.health;
        let unclear = checkup == Checkup::Unclear;
        let before_unclear = std::mem::replace(&mut turn.unclear, unclear);
        let strange = unclear && !before_unclear;
        Noted { turned: (before != after).then_some(after), strange }
    }

    /// What is to be told of the targets that are this node's to probe.
    pub fn findings(&mut self) -> Vec<(TargetKey, Finding)> {
        self.seq = self.seq.saturating_add(1);
        let seq = self.seq;
        let finding = |(target, turn): (&TargetKey, &Turn)| {
            turn.due_ms?;
            let (reason, _) = turn.last.as_ref()?;
            let health = turn.tally.health;
            Some((target.clone(), Finding { seq, health, reason: reason.clone() }))
        };
        self.turns.iter().filter_map(finding).collect()
    }

    /// What was found of all targets that this node probes, for itself.
    pub fn stands(&self, now_ms: u64) -> impl Iterator<Item = Stand<'_>> {
        self.turns.iter().filter_map(move |(target, turn)| {
            turn.due_ms?;
            let (_, at_ms) = turn.last.as_ref()?;
            let age_ms = now_ms.saturating_sub(*at_ms);
            let left_ms = turn.rules.held_ms().saturating_sub(age_ms);
            Some(Stand { target, health: turn.tally.health, left_ms })
        })
    }
}

impl Turn {
    fn new(rules: CheckRules) -> Self {
        Self { rules, due_ms: None, tally: Tally::default(), last: None, unclear: false }
    }

    /// It is another's to probe. What was found is kept for a while: it may come back.
    fn pass(&mut self, now_ms: u64) {
        self.due_ms = None;
        let held_ms = self.rules.held_ms();
        if self.last.take_if(|(_, at_ms)| now_ms.saturating_sub(*at_ms) >= held_ms).is_some() {
            *self = Self::new(self.rules);
        }
    }
}
