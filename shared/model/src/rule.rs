//! A limit with its overrides: which windows hold for whom. Both planes go by it.

use std::collections::HashMap;

use crate::{
    resource::{Limit, Override, limit::Window},
    scope::{Part, Selector, Subject},
    violation::Violations,
};

/// One limit with its overrides.
#[derive(Debug)]
pub struct Rule {
    pub limit: Limit,
    /// Overrides by the parts that they name.
    overrides: Vec<Group>,
}

/// Overrides that name the same parts.
#[derive(Debug)]
struct Group {
    parts: Vec<Part>,
    by_values: HashMap<Vec<String>, Changed>,
}

/// One override, fitted to its limit.
#[derive(Debug)]
pub struct Changed {
    pub name: String,
    /// The limit's windows under it, in the limit's order.
    pub windows: Vec<Window>,
    expires_unix_ms: Option<u64>,
}

impl Rule {
    /// Puts a limit and the overrides of it together. The second value names the overrides that do
    /// not fit, which are left out, and why.
    pub fn new(limit: &Limit, overrides: &[&Override]) -> (Self, Vec<(String, Violations)>) {
        let mut rule = Self { limit: limit.clone(), overrides: Vec::new() };
        let mut faults = Vec::new();
        for spec in overrides {
            match spec.fit(limit) {
                Ok(windows) => rule.add(spec, windows),
                Err(violations) => faults.push((spec.name.clone(), violations)),
            }
        }
        (rule, faults)
    }

    fn add(&mut self, spec: &Override, windows: Vec<Window>) {
        let named = spec.subject.parts().filter_map(|(part, selector)| match selector {
            Selector::One(value) => Some((part, value.clone())),
            Selector::Each => None,
        });
        let (parts, values): (Vec<_>, Vec<_>) = named.unzip();
        let changed =
            Changed { name: spec.name.clone(), windows, expires_unix_ms: spec.expires_unix_ms };
        match self.overrides.iter_mut().find(|group| group.parts == parts) {
            Some(group) => drop(group.by_values.insert(values, changed)),
            None => {
                let by_values = HashMap::from([(values, changed)]);
                self.overrides.push(Group { parts, by_values });
            }
        }
    }

    /// The override that holds for a subject: of those that cover it the one that names most parts;
    /// of several such the first by name. With `unix_ms`, those that have expired by then do not hold.
    pub fn changed(&self, subject: &Subject, unix_ms: Option<u64>) -> Option<&Changed> {
        let covering = self.overrides.iter().filter_map(|group| {
            let values = group.parts.iter().map(|part| subject.get(*part).map(str::to_owned));
            let changed = group.by_values.get(&values.collect::<Option<Vec<_>>>()?)?;
            let over = changed.expires_unix_ms.zip(unix_ms).is_some_and(|(end, now)| end <= now);
            (!over).then_some((group.parts.len(), changed))
        });
        let best = covering.min_by(|(parts, one), (others, other)| {
            others.cmp(parts).then_with(|| one.name.cmp(&other.name))
        });
        best.map(|(_, changed)| changed)
    }

    /// The windows that hold for a subject, in the limit's order.
    pub fn windows(&self, subject: &Subject, unix_ms: Option<u64>) -> &[Window] {
        self.changed(subject, unix_ms).map_or(&self.limit.windows, |changed| &changed.windows)
    }
}
