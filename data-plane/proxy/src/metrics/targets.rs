//! What is counted of targets.

use prometheus_client::encoding::EncodeLabelSet;
use sluicegate_protocol::breaker::{Checkup, State, TargetKey};

use super::Metrics;

/// Labels of targets: names of the policy, and a closed list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TargetLabels {
    provider: String,
    model: String,
    state: &'static str,
}

/// Labels of targets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TargetName {
    provider: String,
    model: String,
}

impl TargetName {
    fn of(target: &TargetKey) -> Self {
        Self { provider: target.provider.clone(), model: target.model.clone() }
    }
}

/// Labels of probes of the gateway's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PingLabels {
    provider: String,
    model: String,
    result: &'static str,
}

impl Metrics {
    /// How a target stands.
    pub fn breaker_state(&self, target: &TargetKey, state: State) {
        let gauge = self.breaker_state.get_or_create(&TargetName::of(target));
        gauge.set(state.number().into());
    }

    /// A target was forgotten.
    pub fn breaker_gone(&self, target: &TargetKey) {
        self.breaker_state.remove(&TargetName::of(target));
    }

    /// Counts a probe of the gateway's own.
    pub fn pinged(&self, target: &TargetKey, well: bool) {
        let TargetName { provider, model } = TargetName::of(target);
        let labels = PingLabels { provider, model, result: if well { "ok" } else { "failed" } };
        self.breaker_probes.get_or_create(&labels).inc();
    }

    /// Counts a health probe.
    pub fn checked(&self, target: &TargetKey, checkup: Checkup) {
        let TargetName { provider, model } = TargetName::of(target);
        let result = match checkup {
            Checkup::Well => "well",
            Checkup::Ill => "ill",
            Checkup::Unclear => "unclear",
        };
        self.health_probes.get_or_create(&PingLabels { provider, model, result }).inc();
    }

    /// Counts a target whose breaker has come into a state.
    pub fn breaker_changed(&self, target: &TargetKey, state: State) {
        let labels = TargetLabels {
            provider: target.provider.clone(),
            model: target.model.clone(),
            state: state.name(),
        };
        self.breaker_changes.get_or_create(&labels).inc();
    }
}
