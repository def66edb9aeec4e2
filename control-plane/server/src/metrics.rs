//! What the control plane counts.

mod ledger;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use sluicegate_control_core::{CoreError, Outcome};
use sluicegate_protocol::{breaker::State, policy::Lane};
use sluicegate_store::{StoreError, deferred::QueueCount};
use sluicegate_telemetry::metric;

pub(crate) use self::ledger::{Call, LedgerLevel, LedgerMetrics};

/// Counters that move as things happen, and gauges that are set when they are looked at.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    store_errors: Counter,
    acks: Family<LaneLabels, Counter>,
    refusals: Family<LaneLabels, Counter>,
    rejected: Family<LaneLabels, Counter>,
    head: Gauge,
    resources: Gauge,
    broken: Gauge,
    data_planes: Gauge,
    store_up: Gauge,
    credentials: Family<CredentialLabels, Gauge>,
    degradations: Family<[(&'static str, String); 1], Gauge>,
    targets: Family<TargetLabels, Gauge>,
    deferred: Family<QueueLabels, Gauge>,
    /// Ends of deferred requests that callers' servers were told, by what came of it.
    pub(crate) webhooks: Family<[(&'static str, &'static str); 1], Counter>,
    /// Limits and usage.
    pub(crate) ledger: LedgerMetrics,
}

/// Which lane of the policy.
type LaneLabels = [(&'static str, &'static str); 1];

/// Labels of provider keys: names of the configuration, and a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    credential: String,
    state: &'static str,
}

/// Labels of targets: names of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    provider: String,
    model: String,
}

/// Labels of queues: as many as have requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: String,
    state: &'static str,
}

/// What the gauges show.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    pub(crate) head: u64,
    pub(crate) resources: usize,
    pub(crate) broken: usize,
    pub(crate) data_planes: usize,
    pub(crate) store_up: bool,
    pub(crate) ledger: LedgerLevel,
    /// Each provider key with its state.
    pub(crate) credentials: Vec<(String, &'static str)>,
    /// Each degradation with its level.
    pub(crate) degradations: Vec<(String, u32)>,
    /// Each target, provider and model, with its state in the fleet.
    pub(crate) targets: Vec<(String, String, State)>,
    /// Deferred requests.
    pub(crate) deferred: Vec<QueueCount>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: metric::registry(),
            changes: Family::default(),
            store_errors: Counter::default(),
            acks: Family::default(),
            refusals: Family::default(),
            rejected: Family::default(),
            head: Gauge::default(),
            resources: Gauge::default(),
            broken: Gauge::default(),
            data_planes: Gauge::default(),
            store_up: Gauge::default(),
            credentials: Family::default(),
            degradations: Family::default(),
            targets: Family::default(),
            deferred: Family::default(),
            webhooks: Family::default(),
            ledger: LedgerMetrics::default(),
        };
        metrics.registry.register(
            "credential_state",
            "1 for the state of each provider key",
            metrics.credentials.clone(),
        );
        metrics.registry.register(
            "degradation_level",
            "How far each degradation has gone, from 0 to 3",
            metrics.degradations.clone(),
        );
        metrics.registry.register(
            "breaker_state",
            "State of each target in the fleet: 0 closed, 1 suspect, 2 ramping, 3 half open, 4 open",
            metrics.targets.clone(),
        );
        metrics.registry.register(
            "deferred_requests",
            "Deferred requests that have not ended, by queue",
            metrics.deferred.clone(),
        );
        let registry = metrics.registry.sub_registry_with_prefix("control");
        registry.register(
            "webhooks",
            "Attempts to tell the end of a deferred request, by what came of it",
            metrics.webhooks.clone(),
        );
        registry.register(
            "changes",
            "Calls that change the configuration, by outcome",
            metrics.changes.clone(),
        );
        registry.register(
            "store_errors",
            "Calls that failed because of the configuration store",
            metrics.store_errors.clone(),
        );
        registry.register(
            "policy_acks",
            "Change sets that data planes took over",
            metrics.acks.clone(),
        );
        registry.register(
            "policy_refusals",
            "Change sets that data planes refused as a whole",
            metrics.refusals.clone(),
        );
        registry.register(
            "policy_rejected_resources",
            "Single resources that data planes kept in their previous version",
            metrics.rejected.clone(),
        );
        registry.register("head_revision", "Revision of the configuration", metrics.head.clone());
        registry.register("resources", "Resources served", metrics.resources.clone());
        registry.register(
            "broken_resources",
            "Resources stored but not served",
            metrics.broken.clone(),
        );
        registry.register("data_planes", "Data planes connected", metrics.data_planes.clone());
        registry.register(
            "store_up",
            "1 while the configuration store can be watched",
            metrics.store_up.clone(),
        );
        metrics.ledger.register(registry);
        metrics
    }

    /// A call that changes the configuration has ended.
    pub(crate) fn changed(&self, outcome: &Result<Outcome, CoreError>, dry_run: bool) {
        let name = match outcome {
            Ok(_) if dry_run => "dry_run",
            Ok(outcome) if outcome.repeated => "repeated",
            Ok(outcome) if outcome.differences.is_empty() => "unchanged",
            Ok(_) => "changed",
            Err(CoreError::Invalid(_)) => "invalid",
            Err(CoreError::Conflict(_)) => "conflict",
            Err(CoreError::NotFound { .. }) => "not_found",
            Err(CoreError::Store(StoreError::Unavailable { .. })) => "store_unavailable",
            Err(_) => "failed",
        };
        self.changes.get_or_create(&[("outcome", name)]).inc();
        if let Err(error) = outcome {
            self.failed(error);
        }
    }

    /// A call has failed.
    pub(crate) fn failed(&self, error: &CoreError) {
        if matches!(error, CoreError::Store(_) | CoreError::Corrupt { .. }) {
            self.store_errors.inc();
        }
    }

    /// A data plane has answered a change set of a lane.
    pub(crate) fn answered(&self, lane: Lane, applied: bool, rejected: usize) {
        let labels = [("lane", lane.name())];
        let family = if applied { &self.acks } else { &self.refusals };
        family.get_or_create(&labels).inc();
        self.rejected.get_or_create(&labels).inc_by(rejected as u64);
    }

    /// The exposition.
    pub(crate) fn render(&self, levels: Levels) -> String {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.head, levels.head);
        set(&self.resources, levels.resources as u64);
        set(&self.broken, levels.broken as u64);
        set(&self.data_planes, levels.data_planes as u64);
        set(&self.store_up, u64::from(levels.store_up));
        self.ledger.set(levels.ledger);
        self.deferred.clear();
        for QueueCount { queue, waiting, running } in levels.deferred {
            for (state, count) in [("waiting", waiting), ("running", running)] {
                let labels = QueueLabels { queue: queue.clone(), state };
                set(&self.deferred.get_or_create(&labels), count);
            }
        }
        self.degradations.clear();
        for (degradation, level) in levels.degradations {
            self.degradations.get_or_create(&[("degradation", degradation)]).set(level.into());
        }
        self.credentials.clear();
        for (credential, state) in levels.credentials {
            self.credentials.get_or_create(&CredentialLabels { credential, state }).set(1);
        }
        self.targets.clear();
        for (provider, model, state) in levels.targets {
            let gauge = self.targets.get_or_create(&TargetLabels { provider, model });
            gauge.set(state.number().into());
        }
        metric::render(&self.registry)
    }
}
