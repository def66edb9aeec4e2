//! Counts of requests that are kept for later.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Labels of requests that were taken: a model of the policy, and a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Taken {
    model: String,
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    what: &'static str,
}

/// What one data plane has taken and run.
#[derive(Debug, Default)]
pub struct DeferredMetrics {
    taken: Family<Taken, Counter>,
    runs: Family<Ended, Counter>,
    running: Gauge,
}

impl DeferredMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "deferred_taken",
            "Requests that are kept for later, because their model was unavailable or they asked for it",
            self.taken.clone(),
        );
        registry.register(
            "deferred_runs",
            "Runs of requests that were kept, by what came of them",
            self.runs.clone(),
        );
        registry.register(
            "deferred_running",
            "Requests that were kept, and are run or told now",
            self.running.clone(),
        );
    }

    /// A request is kept: `unavailable` or `asked`.
    pub fn taken(&self, model: &str, why: &'static str) {
        self.taken.get_or_create(&Taken { model: model.to_owned(), why }).inc();
    }

    /// One is run.
    pub fn began(&self) {
        self.running.inc();
    }

    /// It is not any more: `done`, `failed`, `released`, `lost` or `untold`.
    pub fn ended(&self, what: &'static str) {
        self.running.dec();
        self.runs.get_or_create(&Ended { what }).inc();
    }
}
