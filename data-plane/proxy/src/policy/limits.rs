//! Limits as requests ask for them: which are for this one, and what each counts it under.

use std::{collections::HashMap, sync::Arc};

use sluicegate_model::{
    resource::{
        Limit, Override,
        limit::{Algorithm, Window},
    },
    rule,
    scope::{Part, Selector, Subject},
};
use sluicegate_protocol::quota::{Drain, Terms};

/// Whom a request is from and where it goes. Empty: not known, or not yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who<'a> {
    /// The caller's tenant, then those above it.
    pub tenants: &'a [String],
    pub key: &'a str,
    pub user: &'a str,
    pub model: &'a str,
    pub address: &'a str,
    pub app: &'a str,
    pub provider: &'a str,
    pub credential: &'a str,
}

impl<'a> Who<'a> {
    /// The values of one part, nearest first.
    fn values(&self, part: Part) -> impl Iterator<Item = &'a str> + use<'a> {
        let (tenants, one): (&[String], &str) = match part {
            Part::Tenant => (self.tenants, ""),
            Part::Key => (&[], self.key),
            Part::User => (&[], self.user),
            Part::Model => (&[], self.model),
            Part::Provider => (&[], self.provider),
            Part::Credential => (&[], self.credential),
            Part::Address => (&[], self.address),
            Part::App => (&[], self.app),
        };
        tenants.iter().map(String::as_str).chain((!one.is_empty()).then_some(one))
    }
}

/// One limit as requests ask for it.
#[derive(Debug)]
pub struct Rule {
    pub limit: Limit,
    /// The name that each of the limit's windows counts under.
    tags: Vec<String>,
    rule: rule::Rule,
}

impl Rule {
    fn new(limit: &Limit, overrides: &[&Override]) -> Self {
        let tags = limit.windows.iter().map(|window| limit.tag(window)).collect();
        // One that does not fit the set would have refused; the control plane tells of it.
        let (rule, _faults) = rule::Rule::new(limit, overrides);
        Self { limit: limit.clone(), tags, rule }
    }

    /// What the limit counts for one subject: each window as it is for that subject, with its name.
    pub fn windows<'a>(
        &'a self,
        subject: &Subject,
    ) -> impl Iterator<Item = (&'a Window, &'a str)> + use<'a> {
        // The control plane takes overrides away when their time is over.
        self.rule.windows(subject, None).iter().zip(self.tags.iter().map(String::as_str))
    }

    /// One of its windows by name, as it is for one subject.
    pub fn window(&self, subject: &Subject, tag: &str) -> Option<&Window> {
        self.windows(subject).find(|(_, name)| *name == tag).map(|(window, _)| window)
    }
}

/// What drawing on a window goes by.
pub fn terms(window: &Window) -> Terms {
    let drain = match window {
        Window::Rate { amount, window_s, algorithm, .. } => {
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let per_ms = *amount as f64 / (f64::from(*window_s) * 1000.0);
            match algorithm {
                Algorithm::Bucket => Drain::Steady { per_ms },
                Algorithm::Sliding => Drain::Sliding { per_ms },
            }
        }
        Window::Calendar { .. } => Drain::AtOnce,
        Window::Slots { .. } => Drain::Never,
    };
    Terms { capacity: window.capacity(), drain }
}

/// Is what it counts charged when a request begins and corrected when it ends? So that the rate of
/// arrivals is what is limited, however long answers take.
pub fn charges_early(limit: &Limit, window: &Window) -> bool {
    matches!(window, Window::Rate { algorithm: Algorithm::Bucket | Algorithm::Sliding, .. })
        && !limit.strict
}

/// Every limit, found by what it is for.
#[derive(Debug, Default)]
pub struct Limits {
    rules: Vec<Arc<Rule>>,
    /// Limits that name something, by the first part that they name, and by what they name there.
    named: [HashMap<String, Vec<usize>>; Part::ALL.len()],
    /// Limits that name nothing.
    general: Vec<usize>,
    measure_tokens: bool,
}

impl Limits {
    /// Compiles limits and overrides.
    pub fn new<'a>(limits: impl IntoIterator<Item = &'a Limit>, overrides: &[&Override]) -> Self {
        let mut of_limit: HashMap<&str, Vec<&Override>> = HashMap::new();
        for over in overrides {
            of_limit.entry(&over.limit).or_default().push(over);
        }
        let mut compiled = Self::default();
        for limit in limits {
            compiled.measure_tokens |= limit.dimension.measures_tokens();
            let index = compiled.rules.len();
            let named = limit.scope.parts().find_map(|(part, selector)| match selector {
                Selector::One(name) => Some((part, name.clone())),
                Selector::Each => None,
            });
            let list = match named {
                Some((part, name)) => {
                    compiled.named.get_mut(part as usize).map(|map| map.entry(name).or_default())
                }
                None => Some(&mut compiled.general),
            };
            list.into_iter().for_each(|list| list.push(index));
            let own = of_limit.get(limit.name.as_str()).map_or(&[][..], Vec::as_slice);
            compiled.rules.push(Arc::new(Rule::new(limit, own)));
        }
        compiled
    }

    /// Does any of them depend on how many tokens a request has?
    pub fn measure_tokens(&self) -> bool {
        self.measure_tokens
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter()
    }

    /// The limits for a request, each with what it counts under. `of_attempt`: those that ask where
    /// an attempt goes; else the others.
    pub fn matching(&self, who: &Who<'_>, of_attempt: bool) -> Vec<(&Arc<Rule>, Subject)> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut check = |index: &usize| {
            let Some(rule) = self.rules.get(*index) else { return };
            if rule.limit.scope.of_attempt() == of_attempt
                && let Some(subject) = rule.limit.scope.subject(|part| who.values(part))
            {
                found.push((rule, subject));
            }
        };
        self.general.iter().for_each(&mut check);
        for (part, named) in Part::ALL.into_iter().zip(&self.named) {
            if !named.is_empty() {
                let indexes = who.values(part).filter_map(|value| named.get(value));
                indexes.flatten().for_each(&mut check);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_model::{
        Resource,
        document::{Document, References},
    };

    use super::*;

    fn limits(text: &str) -> Limits {
        let document = Document::parse("f", text, References::Open).unwrap();
        let parsed: Vec<_> = document
            .resources
            .iter()
            .map(|declared| Resource::parse(&declared.resource).unwrap())
            .collect();
        let overrides: Vec<_> = parsed
            .iter()
            .filter_map(|resource| match resource {
                Resource::Override(over) => Some(over),
                _ => None,
            })
            .collect();
        let limits = parsed.iter().filter_map(|resource| match resource {
            Resource::Limit(limit) => Some(limit),
            _ => None,
        });
        Limits::new(limits, &overrides)
    }

    #[test]
    fn b3_all_that_match_apply_and_each_counts_apart() {
        let limits = limits(
            r#"
limits:
  - { name: each-key, scope: { key: "*" }, dimension: requests, rate: 1/s }
  - { name: org, scope: { tenant: org }, dimension: tokens, rate: 1/s }
  - { name: other, scope: { tenant: other, key: "*" }, dimension: tokens, rate: 1/s }
  - { name: user-model, scope: { user: "*", model: m }, dimension: tokens, rate: 1/s }
  - { name: provider, scope: { provider: "*", key: "*" }, dimension: tokens, rate: 1/s }
overrides:
  - { name: o, limit: each-key, subject: { key: vip }, rate: 9/s }
"#,
        );
        let tenants = ["team".to_owned(), "org".to_owned()];
        let who = Who { tenants: &tenants, key: "k", model: "m", ..Who::default() };
        let names = |who: &Who<'_>, of_attempt| {
            let mut names: Vec<_> = limits
                .matching(who, of_attempt)
                .into_iter()
                .map(|(rule, subject)| format!("{} {subject}", rule.limit.name))
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&who, false), ["each-key key=k", "org tenant=org"]);
        assert_eq!(names(&Who { provider: "p", ..who }, true), ["provider key=k,provider=p"]);
        assert!(
            names(&Who { user: "u", ..who }, false).contains(&"user-model user=u,model=m".into())
        );

        let capacity = |key: &str| {
            let who = Who { key, ..Who::default() };
            let (rule, subject) = limits.matching(&who, false).pop().unwrap();
            rule.windows(&subject).map(|(window, _)| window.capacity()).collect::<Vec<_>>()
        };
        assert_eq!((capacity("k"), capacity("vip")), (vec![1], vec![9]));
    }
}
