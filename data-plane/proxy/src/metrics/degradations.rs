//! What is taken away from requests, in numbers.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Labels of degradations: names of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    degradation: String,
}

/// Labels of degraded requests: 1 to 3.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Level {
    level: u32,
}

/// How far degradations have gone, and how many requests they were for.
#[derive(Debug)]
pub struct Degradations {
    levels: Family<Name, Gauge>,
    /// Those that are shown.
    known: Mutex<BTreeSet<String>>,
    requests: Family<Level, Counter>,
}

impl Degradations {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (levels, requests) = (Family::default(), Family::default());
        registry.register(
            "degradation_level",
            "How far each degradation has gone here, from 0 to 3",
            levels.clone(),
        );
        registry.register(
            "degraded_requests",
            "Requests that something was taken away from, by level",
            requests.clone(),
        );
        Self { levels, known: Mutex::default(), requests }
    }

    /// How far each has gone; those that are not named are no more. Whoever reads meanwhile misses none
    /// of those that stay.
    pub fn set<'a>(&self, levels: impl IntoIterator<Item = (&'a str, u32)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = std::mem::take(&mut *known);
        for (degradation, level) in levels {
            let name = gone.take(degradation).unwrap_or_else(|| degradation.to_owned());
            self.levels.get_or_create(&Name { degradation: name.clone() }).set(level.into());
            known.insert(name);
        }
        for degradation in gone {
            self.levels.remove(&Name { degradation });
        }
    }

    pub(super) fn degraded(&self, level: u32) {
        self.requests.get_or_create(&Level { level }).inc();
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_telemetry::metric::render;

    use super::*;

    #[test]
    fn b5_levels_are_shown_for_as_long_as_there_are_such_degradations() {
        let mut registry = Registry::default();
        let degradations = Degradations::register(&mut registry);
        let shows = |text: &str| render(&registry).lines().any(|line| line == text);
        degradations.set([("a", 2), ("b", 0)]);
        assert!(shows("degradation_level{degradation=\"a\"} 2"));
        assert!(shows("degradation_level{degradation=\"b\"} 0"));
        degradations.set([("b", 3)]);
        assert!(!render(&registry).contains("degradation=\"a\""));
        assert!(shows("degradation_level{degradation=\"b\"} 3"));
        degradations.degraded(3);
        assert!(shows("degraded_requests_total{level=\"3\"} 1"));
    }
}
