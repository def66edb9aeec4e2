//! Every target that a policy names. They outlive policies, so that a change forgets nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use sluicegate_flow::{
    capacity::{self, Adaptive},
    gate::Gate,
    queue::Bounds,
};
use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::resource;
use sluicegate_protocol::breaker::{Local, Rules, TargetKey};

use super::{Target, Watcher, lock};

/// Requests that may wait for one target. How many of a model may is the model's to say.
const WAITING: Bounds = Bounds { length: 100_000, tenant_percent: 50, wait_ms: 600_000 };

/// Every target.
#[derive(Debug)]
pub struct Targets {
    known: Mutex<HashMap<TargetKey, Arc<Target>>>,
    watcher: Arc<dyn Watcher>,
}

impl Targets {
    pub fn new(watcher: Arc<dyn Watcher>) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), watcher })
    }

    /// A model of a provider, as it stands, under the provider's rules of today.
    ///
    /// # Errors
    /// The provider's numbers make no breaker.
    pub fn of(&self, provider: &resource::Provider, model: &str) -> Result<Arc<Target>, String> {
        let key = TargetKey::new(&provider.name, model);
        let rules = Rules::of(&provider.breaker)
            .map_err(|error| format!("provider/{}: breaker: {error}", provider.name))?;
        let capacity = capacity(&provider.capacity);
        let mut known = lock(&self.known);
        if let Some(target) = known.get(&key) {
            let changed = target.breaker().set_rules(rules, boottime_ms());
            target.tell(&changed);
            target.gate.set(capacity, WAITING);
            return Ok(target.clone());
        }
        let local = Local::new(rules, fastrand::u64(..));
        let gate = Gate::new(capacity, WAITING);
        let target = Arc::new(Target::new(key.clone(), local, gate, self.watcher.clone()));
        known.insert(key, target.clone());
        Ok(target)
    }

    /// Those that are known, by name.
    pub fn all(&self) -> Vec<Arc<Target>> {
        let mut all: Vec<_> = lock(&self.known).values().cloned().collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// The target of that name.
    pub fn get(&self, key: &TargetKey) -> Option<Arc<Target>> {
        lock(&self.known).get(key).cloned()
    }

    /// Forgets what no policy names and nobody uses any more.
    pub fn tidy(&self) {
        lock(&self.known).retain(|_, target| Arc::strong_count(target) > 1);
    }
}

fn capacity(spec: &resource::Capacity) -> capacity::Settings {
    capacity::Settings {
        max_requests: spec.max_requests.and_then(|most| u64::from(most).try_into().ok()),
        max_tokens: spec.max_tokens.and_then(|most| most.try_into().ok()),
        adaptive: spec.adaptive.then(Adaptive::default),
        ..capacity::Settings::default()
    }
}
