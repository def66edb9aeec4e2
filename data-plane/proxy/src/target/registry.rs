//! Every target that a policy names. They outlive policies, so that a change forgets nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use sluicegate_flow::{
    capacity::{self, Adaptive},
    gate::Gate,
    queue::Bounds,
};
use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::resource;
use sluicegate_protocol::breaker::{
    Changed, Counts, Forces, Local, Rules, State, TargetKey, Window, Word,
};

use super::{Target, Watcher, lock};

/// Requests that may wait for one target. How many of a model may is the model's to say.
const WAITING: Bounds = Bounds { length: 100_000, tenant_percent: 50, wait_ms: 600_000 };

/// Most targets whose orders are remembered.
const MOST_TOLD: usize = 10_000;

/// Every target.
#[derive(Debug)]
pub struct Targets {
    known: Mutex<HashMap<TargetKey, Arc<Target>>>,
    /// What the fleet said last, also of targets that no policy names yet; and when.
    told: Mutex<HashMap<TargetKey, (Word, u64)>>,
    /// Nodes of the fleet; 0: nobody decides for it.
    nodes: AtomicU32,
    watcher: Arc<dyn Watcher>,
}

impl Targets {
    pub fn new(watcher: Arc<dyn Watcher>) -> Arc<Self> {
        Arc::new(Self {
            known: Mutex::default(),
            told: Mutex::default(),
            nodes: AtomicU32::new(0),
            watcher,
        })
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
        let mut local = Local::new(rules, fastrand::u64(..));
        self.initiate(&key, &mut local);
        let gate = Gate::new(capacity, WAITING);
        let target = Arc::new(Target::new(key.clone(), local, gate, self.watcher.clone()));
        known.insert(key, target.clone());
        Ok(target)
    }

    /// A new one is as the fleet has it.
    fn initiate(&self, key: &TargetKey, local: &mut Local) {
        let now_ms = boottime_ms();
        present(local, self.nodes.load(Ordering::Relaxed));
        if let Some((word, at_ms)) = lock(&self.told).get(key) {
            let changed = obey(local, &word.aged(now_ms.saturating_sub(*at_ms)), now_ms);
            self.watcher.changed(key, &changed);
        }
    }

    /// Somebody decides for a fleet of so many nodes; 0: nobody does.
    pub fn fleet(&self, nodes: u32) {
        self.nodes.store(nodes, Ordering::Relaxed);
        for target in self.all() {
            present(&mut target.breaker(), nodes);
        }
    }

    /// Does nobody decide for the fleet?
    pub(super) fn is_alone(&self) -> bool {
        self.nodes.load(Ordering::Relaxed) == 0
    }

    /// Does as the fleet says.
    pub fn obey(&self, word: Word) {
        let now_ms = boottime_ms();
        if let Some(target) = self.get(word.target()) {
            target.change(|local, now_ms| obey(local, &word, now_ms));
        }
        let mut told = lock(&self.told);
        told.retain(|_, (word, at_ms)| !is_over(word, now_ms.saturating_sub(*at_ms)));
        match word {
            Word::Withdrawn { .. } => drop(told.remove(word.target())),
            Word::Order(_) if told.len() < MOST_TOLD => {
                told.insert(word.target().clone(), (word, now_ms));
            }
            Word::Order(_) => {}
        }
    }

    /// What time alone changes, and what operators want at this time, in milliseconds since the Unix
    /// epoch.
    pub fn tick(&self, forces: Option<&Forces>, unix_ms: u64) {
        for target in self.all() {
            let forced = forces.and_then(|forces| forces.forced(&target.key, unix_ms));
            let forced = forced.map(|forced| (forced.open, forced.left_ms));
            target.change(|local, now_ms| local.force(forced, now_ms));
        }
    }

    /// What is seen of those that have traffic, or are not closed.
    pub fn windows(&self, now_ms: u64) -> Vec<(TargetKey, Window)> {
        let windows = self.all().into_iter().filter_map(|target| {
            let window = target.breaker().window(now_ms);
            let quiet = window.state == State::Closed
                && window.long == Counts::default()
                && window.in_flight == 0;
            (!quiet).then(|| (target.key.clone(), window))
        });
        windows.collect()
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

/// What the fleet says, or that it is over.
fn obey(local: &mut Local, word: &Word, now_ms: u64) -> Changed {
    match word {
        Word::Order(directive) => local.obey(directive, now_ms),
        Word::Withdrawn { generation, .. } => local.withdraw(*generation, now_ms),
    }
}

fn is_over(word: &Word, age_ms: u64) -> bool {
    matches!(word, Word::Order(directive) if directive.ttl_ms <= age_ms)
}

fn present(local: &mut Local, nodes: u32) {
    if nodes == 0 { local.fleet_away() } else { local.fleet_present(nodes) }
}

fn capacity(spec: &resource::Capacity) -> capacity::Settings {
    capacity::Settings {
        max_requests: spec.max_requests.and_then(|most| u64::from(most).try_into().ok()),
        max_tokens: spec.max_tokens.and_then(|most| most.try_into().ok()),
        adaptive: spec.adaptive.then(Adaptive::default),
        ..capacity::Settings::default()
    }
}
