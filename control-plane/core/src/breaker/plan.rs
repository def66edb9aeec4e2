//! What the desired state says of targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sluicegate_model::{Resource, resource};
use sluicegate_protocol::breaker::{CheckRules, Forces, Rules, TargetKey};

use crate::state::State;

/// Targets, their rules, which of them stand in for each other, and what operators want of them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) rules: BTreeMap<TargetKey, Arc<Rules>>,
    /// Targets that have health probes.
    pub(super) checks: BTreeMap<TargetKey, CheckRules>,
    /// The targets of each model, and the share of them that may be left alone.
    pub(super) groups: Vec<(Vec<TargetKey>, f64)>,
    pub(super) forces: Forces,
    /// The force that switches off retries and ends last.
    pub(super) no_retries: Option<resource::Force>,
}

impl Plan {
    pub(super) fn of(state: &State) -> Self {
        let all = || state.resources.values().map(|stored| &stored.parsed);
        let mut providers = BTreeMap::new();
        for resource in all() {
            if let Resource::Provider(spec) = resource {
                // Numbers that make no breaker are the data planes' to refuse.
                let rules = Rules::of(&spec.breaker).unwrap_or_default();
                let checks = spec.health.as_ref().map(CheckRules::of);
                providers.insert(spec.name.as_str(), (rules, checks));
            }
        }
        let mut plan = Self::default();
        let mut forces = Vec::new();
        for resource in all() {
            match resource {
                Resource::Model(model) => plan.add(model, &providers),
                Resource::Force(force) => forces.push(force),
                _ => {}
            }
        }
        plan.forces = Forces::new(forces.iter().copied());
        let retries = forces.iter().filter(|it| it.what == resource::Forced::NoRetries);
        let last = retries.max_by_key(|force| force.expires_unix_ms.unwrap_or(u64::MAX));
        plan.no_retries = last.map(|force| (*force).clone());
        plan
    }

    fn add(
        &mut self,
        model: &resource::Model,
        providers: &BTreeMap<&str, (Arc<Rules>, Option<CheckRules>)>,
    ) {
        let mut group = BTreeSet::new();
        for target in model.targets.iter().filter(|target| target.weight > 0) {
            let Some((rules, checks)) = providers.get(target.provider.as_str()) else { continue };
            let upstream = target.model.as_deref().unwrap_or(&model.name);
            let key = TargetKey::new(&target.provider, upstream);
            self.rules.insert(key.clone(), rules.clone());
            if let Some(checks) = checks {
                self.checks.insert(key.clone(), *checks);
            }
            group.insert(key);
        }
        self.groups.push((group.into_iter().collect(), model.max_ejected));
    }
}
