//! Every degradation with what is known for its conditions. Takes the time; does no I/O.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use sluicegate_model::{
    expression::Reading,
    resource::{
        Degradation,
        degradation::{Level, MetricSource},
    },
};
use sluicegate_protocol::degrade::{Machine, Manual, Reason, Tally, Transition};

use super::exposition::Sample;

/// What is known of breakers is not believed for longer. Milliseconds.
const BREAKERS_KEPT_MS: u64 = 30_000;
/// Samples are believed for this many intervals.
const INTERVALS_KEPT: u64 = 3;
/// Most targets whose breakers are known.
const MAX_TARGETS: usize = 100_000;

/// Where samples come from: provider and path.
pub(super) type SourceKey = (String, String);

/// One degradation's level as it is published.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    pub level: Level,
    pub reason: Reason,
    /// Milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// Readings that its conditions ask for and that are not known now: sources that are away, or names
    /// that no source has.
    pub unknown: Vec<String>,
}

impl Published {
    /// Do both say the same, whenever it began?
    pub(super) fn says_what(&self, other: &Self) -> bool {
        (self.level, &self.reason, &self.unknown) == (other.level, &other.reason, &other.unknown)
    }
}

/// Levels by the names of degradations. Empty on a replica that is not the leader.
pub type Levels = BTreeMap<String, Published>;

/// A target's breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    /// Public name of the model that it is a target of.
    pub model: String,
    /// It is left alone.
    pub open: bool,
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) ms: u64,
    pub(super) unix_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    entries: BTreeMap<String, Entry>,
    scraped: HashMap<SourceKey, Scraped>,
    breakers: Vec<Breaker>,
    breakers_at_ms: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    spec: Degradation,
    machine: Machine,
    timeouts: Tally,
    unknown: Vec<String>,
}

#[derive(Debug)]
struct Scraped {
    at_ms: u64,
    samples: Vec<Sample>,
}

impl Board {
    /// Makes the degradations these. Transitions are told with the names.
    pub(super) fn configure<'a>(
        &mut self,
        specs: impl IntoIterator<Item = &'a Degradation>,
        now: Now,
    ) -> Vec<(String, Transition)> {
        let mut before = std::mem::take(&mut self.entries);
        let mut transitions = Vec::new();
        for spec in specs {
            let mut entry = match before.remove(&spec.name) {
                Some(mut entry) => {
                    let changed = entry.machine.redefine(spec, now.ms);
                    transitions.extend(changed.map(|changed| (spec.name.clone(), changed)));
                    if entry.spec.tool_timeout_window != spec.tool_timeout_window {
                        entry.timeouts = Tally::new(spec.tool_timeout_window);
                    }
                    Entry { spec: spec.clone(), ..entry }
                }
                None => Entry {
                    spec: spec.clone(),
                    machine: Machine::new(spec),
                    timeouts: Tally::new(spec.tool_timeout_window),
                    unknown: Vec::new(),
                },
            };
            let manual = spec.manual.as_ref().and_then(|manual| {
                let left = manual.expires_unix_ms.checked_sub(now.unix_ms)?;
                let until_ms = now.ms.saturating_add(left);
                let comment = manual.comment.clone();
                Some(Manual { level: manual.level, until_ms, comment })
            });
            let changed = entry.machine.set_by_hand(manual, now.ms);
            transitions.extend(changed.map(|changed| (spec.name.clone(), changed)));
            self.entries.insert(spec.name.clone(), entry);
        }
        let sources = self.sources();
        self.scraped.retain(|key, _| sources.contains_key(key));
        transitions
    }

    /// Every source, how often it is read, and which metrics are wanted of it.
    pub(super) fn sources(&self) -> BTreeMap<SourceKey, Wanted> {
        let mut sources: BTreeMap<SourceKey, Wanted> = BTreeMap::new();
        for entry in self.entries.values() {
            for source in &entry.spec.sources {
                let wanted = sources
                    .entry(key(source))
                    .or_insert_with(|| Wanted { interval: source.interval, metrics: Vec::new() });
                wanted.interval = wanted.interval.min(source.interval);
                wanted.metrics.extend(metrics(&entry.spec));
                wanted.metrics.sort_unstable();
                wanted.metrics.dedup();
            }
        }
        sources
    }

    /// What a source says.
    pub(super) fn scraped(&mut self, key: SourceKey, samples: Vec<Sample>, now: Now) {
        self.scraped.insert(key, Scraped { at_ms: now.ms, samples });
    }

    /// Calls of tools timed out.
    pub(super) fn tool_timeouts(&mut self, model: &str, tenants: &[&str], count: u64, now: Now) {
        for entry in self.entries.values_mut() {
            if entry.spec.concerns(model, tenants.iter().copied()) {
                entry.timeouts.add(count, now.ms);
            }
        }
    }

    /// How the breakers of all targets stand.
    pub(super) fn breakers(&mut self, mut breakers: Vec<Breaker>, now: Now) {
        breakers.truncate(MAX_TARGETS);
        self.breakers = breakers;
        self.breakers_at_ms = Some(now.ms);
    }

    /// Looks at every condition.
    pub(super) fn evaluate(&mut self, now: Now) -> Vec<(String, Transition)> {
        let Self { entries, scraped, breakers, breakers_at_ms } = self;
        let fresh = breakers_at_ms.is_some_and(|at| now.ms.saturating_sub(at) <= BREAKERS_KEPT_MS);
        let breakers = if fresh { breakers.as_slice() } else { &[] };
        let mut transitions = Vec::new();
        for (name, Entry { spec, machine, timeouts, unknown }) in entries {
            let read = |reading: &Reading| read(reading, spec, scraped, breakers, timeouts, now);
            let missing = readings(spec).filter(|reading| read(reading).is_none());
            *unknown = missing.map(ToString::to_string).collect();
            unknown.sort_unstable();
            unknown.dedup();
            let changed = machine.observe(now.ms, &read);
            transitions.extend(changed.map(|changed| (name.clone(), changed)));
        }
        transitions
    }

    /// The levels that hold.
    pub(super) fn levels(&mut self, now: Now) -> Levels {
        let published = |(name, entry): (&String, &mut Entry)| {
            let standing = entry.machine.standing(now.ms);
            let age_ms = now.ms.saturating_sub(standing.since_ms);
            let published = Published {
                level: standing.level,
                reason: standing.reason.clone(),
                since_unix_ms: now.unix_ms.saturating_sub(age_ms),
                unknown: entry.unknown.clone(),
            };
            (name.clone(), published)
        };
        self.entries.iter_mut().map(published).collect()
    }
}

/// What is asked of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) interval: Duration,
    /// Names, in order.
    pub(super) metrics: Vec<String>,
}

pub(super) fn key(source: &MetricSource) -> SourceKey {
    (source.provider.clone(), source.path.clone())
}

/// What conditions read, once for each place.
fn readings(spec: &Degradation) -> impl Iterator<Item = &Reading> {
    let conditions = spec.steps.iter().filter_map(|step| step.conditions.as_ref());
    let both = conditions.flat_map(|one| std::iter::once(&one.enter).chain(&one.leave));
    both.flat_map(|condition| condition.readings())
}

/// Names of the metrics that conditions read.
fn metrics(spec: &Degradation) -> impl Iterator<Item = String> {
    readings(spec).filter_map(|reading| match reading {
        Reading::Metric { selector, .. } => Some(selector.name.clone()),
        Reading::BreakerOpen | Reading::ToolTimeouts => None,
    })
}

/// What is known of a reading. Of a metric that only some of the sources tell of late, what they tell.
#[expect(clippy::cast_precision_loss, reason = "counts are compared with small numbers")]
fn read(
    reading: &Reading,
    spec: &Degradation,
    scraped: &HashMap<SourceKey, Scraped>,
    breakers: &[Breaker],
    timeouts: &Tally,
    now: Now,
) -> Option<f64> {
    match reading {
        Reading::ToolTimeouts => Some(timeouts.count(now.ms) as f64),
        Reading::BreakerOpen => {
            let of_it = |breaker: &&Breaker| {
                let all = spec.models.is_empty();
                all || spec.models.iter().any(|pattern| pattern.matches(&breaker.model))
            };
            let (mut open, mut count) = (0_u32, 0_u32);
            for breaker in breakers.iter().filter(of_it) {
                open += u32::from(breaker.open);
                count += 1;
            }
            (count > 0).then(|| f64::from(open) / f64::from(count))
        }
        Reading::Metric { aggregate, selector } => {
            let samples = spec.sources.iter().filter_map(|source| {
                let scraped = scraped.get(&key(source))?;
                let interval_ms = u64::try_from(source.interval.as_millis()).unwrap_or(u64::MAX);
                let kept_ms = interval_ms.saturating_mul(INTERVALS_KEPT);
                let fresh = now.ms.saturating_sub(scraped.at_ms) <= kept_ms;
                fresh.then_some(&scraped.samples)
            });
            let values = samples
                .flatten()
                .filter(|sample| selector.takes(&sample.name, |label| sample.label(label)))
                .map(|sample| sample.value);
            aggregate.of(values)
        }
    }
}

#[cfg(test)]
mod tests;
