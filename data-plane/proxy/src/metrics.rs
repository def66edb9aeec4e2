//! What a data plane counts.

mod deferred;
mod degradations;
mod targets;

pub use degradations::Degradations;

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};
use sluicegate_flow::Class;
use sluicegate_journal::{Numbers, clock::boottime_ms};
use sluicegate_model::{Outcome, resource::limit::Dimension};
use sluicegate_proto::policy::v1::LedgerStatus;
use sluicegate_telemetry::{
    metric::{LATENCY_BUCKETS_S, registry, render},
    record::AccessRecord,
};

pub use deferred::DeferredMetrics;
use targets::{PingLabels, TargetLabels, TargetName};

/// Labels of finished requests; every value comes from a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    endpoint: &'static str,
    outcome: &'static str,
    /// `2xx`, `4xx`, `5xx`, or `none` when the caller left.
    status: &'static str,
}

/// Labels of attempts: a provider of the policy and an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AttemptLabels {
    provider: String,
    outcome: &'static str,
}

/// Labels of tasks that were routed: models of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    model: String,
    to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

/// Labels of limits: names of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: String,
    dimension: &'static str,
    shadow: &'static str,
}

/// Labels of provider keys: names of the policy, and a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    credential: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitName {
    limit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    kind: &'static str,
    estimated: &'static str,
}

/// Counters, gauges and histograms of one data plane.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    duration: Histogram,
    /// Seconds from arrival to the first meaningful event.
    pub first_event: Histogram,
    attempts: Family<AttemptLabels, Counter>,
    credential_changes: Family<CredentialLabels, Counter>,
    breaker_changes: Family<TargetLabels, Counter>,
    breaker_state: Family<TargetName, Gauge>,
    breaker_probes: Family<PingLabels, Counter>,
    health_probes: Family<PingLabels, Counter>,
    routed: Family<RouteLabels, Counter>,
    shed: Family<ClassLabels, Counter>,
    pressure: Gauge<f64, AtomicU64>,
    /// 1 while a control plane tells how provider keys stand.
    pub key_pool_connected: Gauge,
    /// What is taken away from requests.
    pub degradations: Degradations,
    tokens: Family<TokenLabels, Counter>,
    limit_refusals: Family<LimitLabels, Counter>,
    limit_unasked: Family<LimitName, Counter>,
    limit_headroom: Family<LimitName, Gauge<f64, AtomicU64>>,
    /// Seconds that a control plane takes to answer for limits.
    pub quota_call: Histogram,
    quota_available: Gauge,
    /// Since when they cannot; 0 while they can.
    quota_away_since_ms: AtomicU64,
    cost: Counter<f64, AtomicU64>,
    units: Counter<f64, AtomicU64>,
    usage_waiting: Gauge,
    usage_oldest: Gauge<f64, AtomicU64>,
    usage_bytes: Gauge,
    /// Usage events that could not be written down.
    pub usage_dropped: Gauge,
    /// Requests that are kept for later.
    pub deferred: DeferredMetrics,
    /// Requests that have arrived and not ended.
    pub in_flight: Gauge,
    /// Requests sent anew because a kept connection had been closed meanwhile.
    pub resends: Counter,
    /// Access records that a full queue lost.
    pub records_dropped: Counter,
    pub policy_revision: Gauge<u64, AtomicU64>,
    /// 1 while the policy stream stands.
    pub control_plane_connected: Gauge<i64, AtomicI64>,
    /// Resources that the newest policy holds in an older version.
    pub policy_rejected: Gauge,
    /// Change sets that were refused as a whole.
    pub policy_refused: Counter,
    /// Times that the state differed from its digest.
    pub policy_resyncs: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = registry();
        let requests = Family::default();
        let duration = Histogram::new(LATENCY_BUCKETS_S);
        let first_event = Histogram::new(LATENCY_BUCKETS_S);
        let attempts = Family::default();
        let credential_changes = Family::default();
        let breaker_state = Family::<TargetName, Gauge>::default();
        registry.register(
            "breaker_state",
            "State of each target here: 0 closed, 1 suspect, 2 ramping, 3 half open, 4 open",
            breaker_state.clone(),
        );
        let breaker_probes = Family::<PingLabels, Counter>::default();
        registry.register(
            "breaker_probes",
            "Calls of the gateway's own that found out how a target does",
            breaker_probes.clone(),
        );
        let health_probes = Family::<PingLabels, Counter>::default();
        registry.register(
            "health_probes",
            "Health probes that this data plane has sent, by what they found",
            health_probes.clone(),
        );
        let breaker_changes = Family::<TargetLabels, Counter>::default();
        registry.register(
            "breaker_changes",
            "Times that a target's breaker came into a state",
            breaker_changes.clone(),
        );
        let degradations = Degradations::register(&mut registry);
        let routed = Family::<RouteLabels, Counter>::default();
        registry.register("routed", "Tasks of a routed model, by where they went", routed.clone());
        let shed = Family::<ClassLabels, Counter>::default();
        registry.register(
            "shed",
            "Requests turned away because the process runs short",
            shed.clone(),
        );
        let pressure = Gauge::default();
        registry.register(
            "pressure",
            "How much of what the process can stand is used, from 0 to 1",
            pressure.clone(),
        );
        let key_pool_connected = Gauge::default();
        let tokens = Family::default();
        let limit_refusals = Family::default();
        let limit_unasked = Family::default();
        let limit_headroom = Family::default();
        let quota_call = Histogram::new(LATENCY_BUCKETS_S);
        let quota_available = Gauge::default();
        quota_available.set(1);
        let cost = Counter::default();
        let units = Counter::default();
        let usage_waiting = Gauge::default();
        let usage_oldest = Gauge::default();
        let usage_bytes = Gauge::default();
        let usage_dropped = Gauge::default();
        registry.register(
            "limit_refusals",
            "Requests that a limit refused, or would have",
            limit_refusals.clone(),
        );
        registry.register(
            "limit_unasked",
            "Requests that were let through while a limit could not be asked",
            limit_unasked.clone(),
        );
        registry.register(
            "limit_headroom_ratio",
            "What the fullest counter of a limit on this data plane has left, 0 to 1",
            limit_headroom.clone(),
        );
        registry.register_with_unit(
            "quota_call",
            "Time that a control plane takes to answer for limits",
            Unit::Seconds,
            quota_call.clone(),
        );
        registry.register(
            "quota_available",
            "1 while limits can be asked for",
            quota_available.clone(),
        );
        registry.register("cost_dollars", "Cost of what was served", cost.clone());
        registry.register("units", "Units of what was served", units.clone());
        registry.register(
            "usage_events_waiting",
            "Usage events that are not counted yet",
            usage_waiting.clone(),
        );
        registry.register_with_unit(
            "usage_oldest",
            "Age of the oldest usage event that is not counted yet",
            Unit::Seconds,
            usage_oldest.clone(),
        );
        registry.register_with_unit(
            "usage_journal",
            "Size of the usage journal",
            Unit::Bytes,
            usage_bytes.clone(),
        );
        registry.register(
            "usage_events_dropped",
            "Usage events that could not be written down",
            usage_dropped.clone(),
        );
        let deferred = DeferredMetrics::default();
        deferred.register(&mut registry);
        let in_flight = Gauge::default();
        let resends = Counter::default();
        let records_dropped = Counter::default();
        let policy_revision = Gauge::default();
        let control_plane_connected = Gauge::default();
        let policy_rejected = Gauge::default();
        let policy_refused = Counter::default();
        let policy_resyncs = Counter::default();
        registry.register("requests", "Requests that ended", requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Arrival to last byte",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register_with_unit(
            "first_event",
            "Arrival to first meaningful event",
            Unit::Seconds,
            first_event.clone(),
        );
        registry.register(
            "upstream_attempts",
            "Attempts by provider and outcome",
            attempts.clone(),
        );
        registry.register(
            "credential_state_changes",
            "Times that a provider key went out of use here, or came back",
            credential_changes.clone(),
        );
        registry.register(
            "key_pool_connected",
            "1 while a control plane tells how provider keys stand",
            key_pool_connected.clone(),
        );
        registry.register("tokens", "Tokens served", tokens.clone());
        registry.register("requests_in_flight", "Requests that have not ended", in_flight.clone());
        registry.register(
            "upstream_resends",
            "Requests sent anew because a kept connection had been closed meanwhile",
            resends.clone(),
        );
        registry.register(
            "access_records_dropped",
            "Access records lost to a full queue",
            records_dropped.clone(),
        );
        registry.register(
            "policy_revision",
            "Revision that requests run under",
            policy_revision.clone(),
        );
        registry.register(
            "control_plane_connected",
            "1 while the policy stream stands",
            control_plane_connected.clone(),
        );
        registry.register(
            "policy_rejected_resources",
            "Resources served in an older version",
            policy_rejected.clone(),
        );
        registry.register(
            "policy_refused",
            "Change sets refused as a whole",
            policy_refused.clone(),
        );
        registry.register(
            "policy_resyncs",
            "Full states asked for after a mismatch",
            policy_resyncs.clone(),
        );
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This build", build);
        Self {
            registry: Mutex::new(registry),
            requests,
            duration,
            first_event,
            attempts,
            credential_changes,
            breaker_changes,
            breaker_state,
            breaker_probes,
            health_probes,
            routed,
            shed,
            pressure,
            key_pool_connected,
            degradations,
            tokens,
            limit_refusals,
            limit_unasked,
            limit_headroom,
            quota_call,
            quota_available,
            quota_away_since_ms: AtomicU64::new(0),
            cost,
            units,
            usage_waiting,
            usage_oldest,
            usage_bytes,
            usage_dropped,
            deferred,
            in_flight,
            resends,
            records_dropped,
            policy_revision,
            control_plane_connected,
            policy_rejected,
            policy_refused,
            policy_resyncs,
        }
    }

    /// Counts a request that ended.
    pub fn finished(&self, record: &AccessRecord) {
        let status = match record.status {
            499 => "none",
            200..=299 => "2xx",
            400..=499 => "4xx",
            _ => "5xx",
        };
        let labels = RequestLabels { endpoint: record.endpoint, outcome: record.outcome, status };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(record.latency_ms.total / 1000.0);
        if let Some(level) = record.degraded_level {
            self.degradations.degraded(level);
        }
        let passed_over = record.route.iter().flat_map(|route| &route.passed_over);
        let unused = passed_over.filter_map(|passed_over| passed_over.usage.as_ref());
        for usage in record.usage.iter().chain(unused) {
            let estimated = if usage.estimated { "true" } else { "false" };
            for (kind, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                self.tokens.get_or_create(&TokenLabels { kind, estimated }).inc_by(count);
            }
            #[expect(clippy::cast_precision_loss, reason = "a metric; the journal is exact")]
            let (cost, units) = (usage.cost_nano as f64 / 1e9, usage.micro_units as f64 / 1e6);
            self.cost.inc_by(cost);
            self.units.inc_by(units);
        }
    }

    /// Counts a task that went to a model.
    pub fn routed(&self, model: &str, to: &str) {
        let labels = RouteLabels { model: model.to_owned(), to: to.to_owned() };
        self.routed.get_or_create(&labels).inc();
    }

    /// Counts a request that was turned away, since the process runs short.
    pub fn shed(&self, class: Class) {
        self.shed.get_or_create(&ClassLabels { class: class.name() }).inc();
    }

    /// How much of what the process can stand is used.
    pub fn pressure(&self, share: f64) {
        self.pressure.set(share);
    }

    /// Counts an attempt that ended.
    pub fn attempted(&self, provider: &str, outcome: Outcome) {
        let labels = AttemptLabels { provider: provider.to_owned(), outcome: outcome.name() };
        self.attempts.get_or_create(&labels).inc();
    }

    /// Counts a key that went out of use, or came back.
    pub fn credential_changed(&self, credential: &str, state: &'static str) {
        let labels = CredentialLabels { credential: credential.to_owned(), state };
        self.credential_changes.get_or_create(&labels).inc();
    }

    /// Counts a refusal by a limit; `shadow`: it only would have refused.
    pub fn limit_refused(&self, limit: &str, dimension: Dimension, shadow: bool) {
        let labels = LimitLabels {
            limit: limit.to_owned(),
            dimension: dimension.name(),
            shadow: if shadow { "true" } else { "false" },
        };
        self.limit_refusals.get_or_create(&labels).inc();
    }

    /// Limits can be asked for, or not any more.
    pub fn quota_available(&self, available: bool) {
        self.quota_available.set(i64::from(available));
        let since = if available { 0 } else { boottime_ms() };
        self.quota_away_since_ms.store(since, Ordering::Relaxed);
    }

    /// How limits and usage stand, for the fleet's view.
    pub fn ledger_status(&self) -> LedgerStatus {
        let whole = |gauge: &Gauge| u64::try_from(gauge.get()).unwrap_or(0);
        let away_since = self.quota_away_since_ms.load(Ordering::Relaxed);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an age in milliseconds; the cast saturates"
        )]
        let oldest_ms = (self.usage_oldest.get() * 1000.0) as u64;
        LedgerStatus {
            mode: if away_since == 0 { "ok" } else { "on_outage" }.to_owned(),
            degraded_ms: match away_since {
                0 => 0,
                since => boottime_ms().saturating_sub(since),
            },
            usage_waiting: whole(&self.usage_waiting),
            oldest_ms,
            journal_bytes: whole(&self.usage_bytes),
            dropped: whole(&self.usage_dropped),
        }
    }

    /// Counts a request that was let through without asking.
    pub fn limit_unasked(&self, limit: &str) {
        self.limit_unasked.get_or_create(&LimitName { limit: limit.to_owned() }).inc();
    }

    /// What the fullest counters of limits have left; limits that are not named have none.
    pub fn limit_headroom(&self, ratios: impl IntoIterator<Item = (String, f64)>) {
        self.limit_headroom.clear();
        for (limit, ratio) in ratios {
            self.limit_headroom.get_or_create(&LimitName { limit }).set(ratio);
        }
    }

    /// How the usage journal stands.
    pub fn usage(&self, numbers: &Numbers) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.usage_waiting.set(whole(numbers.waiting));
        #[expect(clippy::cast_precision_loss, reason = "an age")]
        self.usage_oldest.set(numbers.oldest_waiting_ms as f64 / 1000.0);
        self.usage_bytes.set(whole(numbers.bytes));
        self.usage_dropped.set(whole(numbers.dropped));
    }

    /// The exposition.
    pub fn render(&self) -> String {
        render(&self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
