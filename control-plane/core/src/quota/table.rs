//! The limits of the desired state, ready to be asked: compiled whenever they change, swapped whole.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use sluicegate_model::{Kind, Resource, ResourceRef, resource::Override, rule::Rule};
use sluicegate_store::Revision;
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{sync::watch, time::timeout};

use crate::{desired::Desired, state::State};

/// The limits as of the newest state.
#[derive(Debug)]
pub struct Limits {
    table: watch::Sender<Arc<Table>>,
    /// A revision that was waited for in vain: nobody waits for it again.
    given_up: AtomicU64,
}

/// The limits as of one revision.
#[derive(Debug, Default)]
pub struct Table {
    pub revision: Revision,
    limits: BTreeMap<String, Arc<Rule>>,
    /// What it was made from: the history, and every limit and override with its version.
    made_from: (Bytes, Vec<(ResourceRef, Revision)>),
}

impl Limits {
    /// Compiles the limits, now and whenever they change, until the returned task is dropped.
    #[must_use]
    pub fn start(desired: &Desired) -> (Arc<Self>, AbortOnDrop<()>) {
        let mut states = desired.subscribe();
        let first = Table::default().next(&states.borrow_and_update().clone());
        let limits = Arc::new(Self {
            table: watch::Sender::new(Arc::new(first)),
            given_up: AtomicU64::new(0),
        });
        let following = limits.clone();
        let task = task::spawn("limits", async move {
            while states.changed().await.is_ok() {
                let state = states.borrow_and_update().clone();
                let table = following.table().next(&state);
                following.table.send_replace(Arc::new(table));
            }
        });
        (limits, AbortOnDrop(task))
    }

    /// The newest table.
    pub fn table(&self) -> Arc<Table> {
        self.table.borrow().clone()
    }

    /// The table as of `revision` or later, if it comes within `patience`; else the newest.
    pub async fn at_least(&self, revision: Revision, patience: Duration) -> Arc<Table> {
        let table = self.table();
        if table.revision >= revision || revision == self.given_up.load(Ordering::Relaxed) {
            return table;
        }
        let mut tables = self.table.subscribe();
        let reached = tables.wait_for(|table| table.revision >= revision);
        if let Ok(Ok(table)) = timeout(patience, reached).await {
            return table.clone();
        }
        // Nothing may ever bring it, as when a backup of the store was put in its place.
        self.given_up.store(revision, Ordering::Relaxed);
        self.table()
    }
}

impl Table {
    /// The limit with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Rule>> {
        self.limits.get(name)
    }

    /// The names of all limits.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.keys().map(String::as_str)
    }

    fn next(&self, state: &State) -> Self {
        let of = |kind| {
            let from = ResourceRef::new(kind, "");
            state.resources.range(from..).take_while(move |(reference, _)| reference.kind == kind)
        };
        let versions = of(Kind::Limit)
            .chain(of(Kind::Override))
            .map(|(reference, stored)| (reference.clone(), stored.version))
            .collect();
        let made_from = (state.epoch.clone(), versions);
        if made_from == self.made_from {
            return Self { revision: state.revision, limits: self.limits.clone(), made_from };
        }
        let mut overrides: HashMap<&str, Vec<&Override>> = HashMap::new();
        for (_, stored) in of(Kind::Override) {
            if let Resource::Override(spec) = &stored.parsed {
                overrides.entry(&spec.limit).or_default().push(spec);
            }
        }
        let entry = |resource: &Resource| {
            let Resource::Limit(limit) = resource else { return None };
            let overrides = overrides.remove(limit.name.as_str()).unwrap_or_default();
            let (rule, faults) = Rule::new(limit, &overrides);
            for (name, faults) in faults {
                tracing::error!(name, %faults, "an override does not fit its limit");
            }
            Some((limit.name.clone(), Arc::new(rule)))
        };
        let limits = of(Kind::Limit).map(|(_, stored)| &stored.parsed).filter_map(entry).collect();
        Self { revision: state.revision, limits, made_from }
    }
}
