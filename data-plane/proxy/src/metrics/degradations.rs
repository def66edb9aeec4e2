//! What is taken away from requests, in numbers.

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
        Self { levels, requests }
    }

    /// How far each has gone; those that are not named are no more.
    pub fn set<'a>(&self, levels: impl IntoIterator<Item = (&'a str, u32)>) {
        self.levels.clear();
        for (degradation, level) in levels {
            let name = Name { degradation: degradation.to_owned() };
            self.levels.get_or_create(&name).set(level.into());
        }
    }

    pub(super) fn degraded(&self, level: u32) {
        self.requests.get_or_create(&Level { level }).inc();
    }
}
