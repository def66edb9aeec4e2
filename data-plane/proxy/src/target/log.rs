//! Changes of breakers, for people and for metrics.

use std::sync::Arc;

use sluicegate_protocol::breaker::{Changed, State, TargetKey, Transition};

use super::Watcher;
use crate::metrics::Metrics;

/// Writes down what happens to targets.
#[derive(Debug)]
pub struct Log(Arc<Metrics>);

impl Log {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self(metrics)
    }
}

impl Watcher for Log {
    fn changed(&self, target: &TargetKey, changed: &Changed) {
        let Some(Transition { from, to, reason }) = changed.transition else { return };
        self.0.breaker_changed(target, to);
        let TargetKey { provider, model } = target;
        let (from, to_name) = (from.name(), to.name());
        if to == State::Open {
            tracing::warn!(provider, model, from, to = to_name, %reason, "a target is left alone");
        } else {
            tracing::info!(provider, model, from, to = to_name, %reason, "a target's breaker");
        }
    }
}
