//! What a data plane counts.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};
use sluicegate_model::Outcome;
use sluicegate_telemetry::{
    metric::{LATENCY_BUCKETS_S, registry, render},
    record::AccessRecord,
};

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
    tokens: Family<TokenLabels, Counter>,
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
        let tokens = Family::default();
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
            tokens,
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
        if let Some(usage) = &record.usage {
            let estimated = if usage.estimated { "true" } else { "false" };
            for (kind, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                self.tokens.get_or_create(&TokenLabels { kind, estimated }).inc_by(count);
            }
        }
    }

    /// Counts an attempt that ended.
    pub fn attempted(&self, provider: &str, outcome: Outcome) {
        let labels = AttemptLabels { provider: provider.to_owned(), outcome: outcome.name() };
        self.attempts.get_or_create(&labels).inc();
    }

    /// The exposition.
    pub fn render(&self) -> String {
        render(&self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
