//! What is counted of limits and usage.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use sluicegate_control_core::Taken;
use sluicegate_proto::quota::v1::{LeaseReply, LeaseStatus};
use sluicegate_store::StoreError;

/// Bounds of the latency of one call, in seconds.
const BOUNDS_S: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

/// One name with one of a closed set of values.
type Label = [(&'static str, &'static str); 1];

/// A call of the ledger.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Lease,
    Count,
    Totals,
    Meters,
    Cells,
    Notes,
    Time,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Count => "count",
            Self::Totals => "totals",
            Self::Meters => "meters",
            Self::Cells => "cells",
            Self::Notes => "notes",
            Self::Time => "time",
        }
    }
}

/// Can the ledger be used?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerLevel {
    Ready,
    Recovering,
    Away,
}

/// Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub(crate) struct LedgerMetrics {
    up: Gauge,
    recovering: Gauge,
    calls: Family<Label, Histogram, fn() -> Histogram>,
    errors: Family<Label, Counter>,
    leases: Family<Label, Counter>,
    events: Counter,
    lost: Counter,
    duplicates: Counter,
    resends: Counter,
}

impl Default for LedgerMetrics {
    fn default() -> Self {
        Self {
            up: Gauge::default(),
            recovering: Gauge::default(),
            calls: Family::new_with_constructor(|| Histogram::new(BOUNDS_S)),
            errors: Family::default(),
            leases: Family::default(),
            events: Counter::default(),
            lost: Counter::default(),
            duplicates: Counter::default(),
            resends: Counter::default(),
        }
    }
}

impl LedgerMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("ledger_up", "1 while the ledger answers", self.up.clone());
        registry.register(
            "ledger_recovering",
            "1 while the ledger may have lost its latest grants",
            self.recovering.clone(),
        );
        registry.register_with_unit(
            "ledger_call",
            "How long the ledger takes to answer",
            Unit::Seconds,
            self.calls.clone(),
        );
        registry.register("ledger_errors", "Calls that the ledger failed", self.errors.clone());
        registry.register(
            "lease_ops",
            "Operations on leases that data planes asked for, by what became of them",
            self.leases.clone(),
        );
        registry.register("usage_events", "Usage events that were counted", self.events.clone());
        registry.register(
            "usage_lost_events",
            "Usage events that data planes no longer have and that were never counted",
            self.lost.clone(),
        );
        registry.register(
            "usage_duplicate_batches",
            "Batches of usage that had been counted before",
            self.duplicates.clone(),
        );
        registry.register(
            "usage_resends",
            "Batches of usage that came out of order and are asked for again",
            self.resends.clone(),
        );
    }

    /// The ledger has answered, or failed to.
    pub(crate) fn called<T>(&self, call: Call, took: Duration, outcome: &Result<T, StoreError>) {
        let label = [("call", call.name())];
        self.calls.get_or_create(&label).observe(took.as_secs_f64());
        if outcome.is_err() {
            self.errors.get_or_create(&label).inc();
        }
    }

    /// A data plane's operations were answered.
    pub(crate) fn leased(&self, reply: &LeaseReply) {
        for state in &reply.states {
            let name = match state.status() {
                LeaseStatus::Unspecified => "unspecified",
                LeaseStatus::Granted => "granted",
                LeaseStatus::Partial => "partial",
                LeaseStatus::Denied => "denied",
                LeaseStatus::Expired => "expired",
                LeaseStatus::WindowOver => "window_over",
                LeaseStatus::UnknownLimit => "unknown_limit",
                LeaseStatus::Unavailable => "unavailable",
                LeaseStatus::Recovering => "recovering",
                LeaseStatus::Overtaken => "overtaken",
            };
            self.leases.get_or_create(&[("status", name)]).inc();
        }
    }

    /// A data plane's usage was taken.
    pub(crate) fn used(&self, taken: &Taken) {
        self.lost.inc_by(taken.lost);
        if taken.duplicate {
            self.duplicates.inc();
        } else {
            self.events.inc_by(taken.events);
        }
        if taken.ack.resend_from > 0 {
            self.resends.inc();
        }
    }

    /// Sets the gauges.
    pub(crate) fn set(&self, level: LedgerLevel) {
        self.up.set(i64::from(level != LedgerLevel::Away));
        self.recovering.set(i64::from(level == LedgerLevel::Recovering));
    }
}
