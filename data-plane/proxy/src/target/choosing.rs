//! Whose turn it is among the targets of one model.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use sluicegate_flow::choice::{Chooser, Pick, Policy, Prefix};
use sluicegate_model::resource::model::Spread;

use super::{Target, lock};

/// Remembers whose turn it is, for each priority by itself.
#[derive(Debug)]
pub struct Choosing {
    spread: Spread,
    turns: Mutex<BTreeMap<u32, Chooser>>,
}

impl Choosing {
    pub fn new(spread: Spread) -> Self {
        Self { spread, turns: Mutex::default() }
    }

    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// Does it depend on how prompts begin?
    pub fn by_prefix(&self) -> bool {
        self.spread == Spread::Prefix
    }

    /// The place of one of these targets, each with its weight; `None`: all are left alone.
    pub fn choose(
        &self,
        priority: u32,
        targets: &[(&Arc<Target>, u32)],
        prompt_tokens: u64,
        pick: &Pick,
    ) -> Option<usize> {
        let timed = self.spread == Spread::Latency;
        let candidates: Vec<_> = targets
            .iter()
            .map(|(target, weight)| target.candidate(*weight, prompt_tokens, timed))
            .collect();
        // Who finds out whether a target is well again is not left to chance.
        let probe = targets.iter().position(|(target, _)| target.breaker().wants_probe());
        if let Some(probe) = probe {
            return Some(probe);
        }
        if let [only] = candidates.as_slice() {
            return (only.percent > 0).then_some(0);
        }
        let policy = match self.spread {
            Spread::Weighted => Policy::Weighted,
            Spread::LeastBusy => Policy::LeastBusy,
            Spread::Latency => Policy::Latency,
            Spread::Prefix => Policy::Prefix(Prefix::default()),
        };
        let mut turns = lock(&self.turns);
        turns.entry(priority).or_insert_with(|| Chooser::new(policy)).choose(&candidates, pick)
    }
}
