//! Trying again, and what answers in a model's place.

use std::time::Duration;

use sluicegate_proto::resource::v1 as pb;

use crate::{
    outcome::Outcome,
    path::Path,
    violation::{Violation, Violations},
};

/// Trying again, until the first byte has reached the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// Attempts in all for one request.
    pub max_attempts: u32,
    /// Wait before a target is asked again that has just failed; doubles.
    pub backoff: Duration,
    pub max_backoff: Duration,
    /// Attempts after failures of upstreams, as a share of requests.
    pub budget: f64,
    /// Of them, so many a second always.
    pub budget_min: u32,
    /// The first that matches holds.
    pub rules: Vec<RetryRule>,
}

/// What is done about certain errors. Each part that is given must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRule {
    pub status: Option<u16>,
    pub code: Option<String>,
    pub outcome: Option<Outcome>,
    pub again: Again,
}

/// Where a failed attempt may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Never,
    /// At another target, or with another key.
    Elsewhere,
    /// At the same one, too.
    Here,
}

/// Other models that answer once no target of this one is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fallback {
    pub models: Vec<FallbackModel>,
    pub on_context_length: Vec<String>,
    pub on_content_filter: Vec<String>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackModel {
    pub model: String,
    pub weight: u32,
    /// Lower is tried first.
    pub priority: u32,
}

impl Fallback {
    /// Every model that is named, and where.
    pub fn named(&self) -> Vec<(Path, &str)> {
        let root = Path::root().field("fallback");
        let mut named = Vec::new();
        for (index, one) in self.models.iter().enumerate() {
            named.push((root.field("models").index(index).field("model"), one.model.as_str()));
        }
        for (field, models) in [
            ("on_context_length", &self.on_context_length),
            ("on_content_filter", &self.on_content_filter),
        ] {
            let path = root.field(field);
            named.extend(models.iter().enumerate().map(|(at, one)| (path.index(at), one.as_str())));
        }
        named
    }
}

pub(super) fn parse(spec: Option<&pb::Retry>, found: &mut Violations) -> Retry {
    let spec = spec.cloned().unwrap_or_default();
    let backoff = Duration::from_millis(spec.backoff_ms.unwrap_or(1_000).into());
    let max_backoff = Duration::from_millis(spec.max_backoff_ms.unwrap_or(8_000).into());
    let root = Path::root().field("retry");
    if spec.max_backoff_ms.is_some() && max_backoff < backoff {
        let what = format!("is shorter than backoff_ms, {}", backoff.as_millis());
        found.0.push(
            Violation::new(root.field("max_backoff_ms"), what).hint("make it at least as long"),
        );
    }
    let rules = spec.rules.iter().enumerate();
    let rules = rules.filter_map(|(at, one)| rule(one, &root.field("rules").index(at), found));
    Retry {
        rules: rules.collect(),
        max_attempts: spec.max_attempts.unwrap_or(3),
        backoff,
        max_backoff: max_backoff.max(backoff),
        budget: spec.budget.unwrap_or(0.2),
        budget_min: spec.budget_min.unwrap_or(10),
    }
}

fn rule(spec: &pb::RetryRule, path: &Path, found: &mut Violations) -> Option<RetryRule> {
    if spec.status.is_none() && spec.code.is_empty() && spec.outcome.is_empty() {
        let violation = Violation::new(path.clone(), "matches every error");
        found.0.push(violation.hint("give status, code or outcome"));
    }
    let outcome = match spec.outcome.as_str() {
        "" => None,
        name => {
            let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
            if outcome.is_none_or(|outcome| outcome == Outcome::Success) {
                let names = Outcome::ALL.iter().skip(1).map(|outcome| outcome.name());
                let names: Vec<_> = names.collect();
                let violation = Violation::new(path.field("outcome"), "is no outcome of a failure");
                found.0.push(violation.hint(format!("allowed: {}", names.join(", "))));
            }
            outcome
        }
    };
    Some(RetryRule {
        status: spec.status.and_then(|status| u16::try_from(status).ok()),
        code: Some(spec.code.clone()).filter(|code| !code.is_empty()),
        outcome,
        again: match spec.retry.as_str() {
            "never" => Again::Never,
            "again" => Again::Here,
            _ => Again::Elsewhere,
        },
    })
}

pub(super) fn fallback(spec: Option<&pb::Fallback>) -> Fallback {
    let spec = spec.cloned().unwrap_or_default();
    let model = |one: pb::FallbackModel| FallbackModel {
        model: one.model,
        weight: one.weight.unwrap_or(1),
        priority: one.priority,
    };
    Fallback {
        models: spec.models.into_iter().map(model).collect(),
        on_context_length: spec.on_context_length,
        on_content_filter: spec.on_content_filter,
    }
}
