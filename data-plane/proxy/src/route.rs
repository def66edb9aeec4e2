//! Fourth stage: in which order targets and keys are tried.
//!
//! Targets of the lowest priority number come first, then those of the model's fallbacks; within one
//! priority it goes as the model says. What is left alone or full is passed over. Among a target's keys that are up, the pool chooses by weight
//! when the attempt is made. No pair of target and key is tried twice while another is left; after that
//! a target may be asked again whose failure passes by itself.

mod choice;
mod plan;

use std::sync::Arc;

use sluicegate_dialect::Endpoint;

use crate::{
    admit::Permit,
    policy::{Model, Policy},
    pool::Pool,
    refusal::Refusal,
};

pub use choice::Choice;
use plan::{Aim, Stage};
pub use plan::{Full, Load, Next, Obstacles, Plan, Shut};

/// Why another model answers than the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No target of it was left.
    Unavailable,
    /// The prompt does not fit it.
    ContextLength,
    /// A content filter stopped the request.
    ContentFilter,
}

impl Why {
    /// For headers and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// Plans the attempts of one request.
///
/// # Errors
/// When no target serves the endpoint, or none has a key at all.
pub fn plan<'p>(
    policy: &'p Policy,
    permit: &Permit,
    endpoint: Endpoint,
    pool: &Arc<Pool>,
    load: Load,
) -> Result<Plan<'p>, Refusal> {
    let model = &permit.model;
    let mut served = false;
    let mut stages = stages(model, &permit.upstream_name, endpoint, None, &mut served);
    // Fallbacks of fallbacks follow; validation has seen to it that there is no loop.
    let mut models = vec![model.clone()];
    let mut at = 0;
    while let Some(from) = models.get(at).cloned() {
        at += 1;
        for name in fallbacks(&from) {
            let Some(next) = policy.model(name) else { continue };
            if models.iter().any(|known| known.name == next.name) {
                continue;
            }
            models.push(next.clone());
            let why = Some(Why::Unavailable);
            stages.extend(self::stages(next, &next.name, endpoint, why, &mut served));
        }
    }
    if stages.is_empty() {
        return Err(Refusal::NoTarget {
            model: model.name.clone(),
            endpoint: endpoint.name(),
            served,
        });
    }
    let attempts = model.retry.max_attempts;
    Ok(Plan::new(policy, endpoint, pool.clone(), stages, attempts, load))
}

/// A model's fallbacks in the order in which they are tried.
fn fallbacks(model: &Model) -> impl Iterator<Item = &str> {
    let mut others: Vec<_> = model.fallback.models.iter().collect();
    weighted_order(&mut others, |other| other.weight);
    // Stable: the random order holds within each priority.
    others.sort_by_key(|other| other.priority);
    others.into_iter().map(|other| other.model.as_str())
}

/// A model's targets that serve the endpoint, one stage for each priority.
fn stages(
    model: &Arc<Model>,
    upstream_name: &str,
    endpoint: Endpoint,
    why: Option<Why>,
    served: &mut bool,
) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    // By priority already.
    for target in &model.targets {
        if target.provider.location(endpoint).is_none() {
            continue;
        }
        *served = true;
        let keyless = target.provider.keyless;
        let untried = if keyless { Vec::new() } else { target.provider.credentials.clone() };
        if !keyless && untried.is_empty() {
            continue;
        }
        let made_up = target.model.is_none() && upstream_name != model.name;
        let aim = Aim {
            provider: target.provider.clone(),
            model: target.model.clone().unwrap_or_else(|| upstream_name.to_owned()),
            target: target.state.clone(),
            weight: target.weight,
            chosen: made_up || endpoint != Endpoint::Chat,
            untried,
            keyless,
            tries: 0,
            again: false,
        };
        match stages.last_mut() {
            Some(stage) if stage.priority == target.priority => stage.aims.push(aim),
            _ => stages.push(Stage {
                model: model.clone(),
                priority: target.priority,
                why,
                aims: vec![aim],
            }),
        }
    }
    stages
}

/// Puts items into a random order in which each stands first with a chance in proportion to its
/// weight, and so on among the rest. (Efraimidis and Spirakis, "Weighted random sampling with a
/// reservoir", Information Processing Letters 97, 2006: sort by u^(1/w).)
fn weighted_order<T>(items: &mut [T], weight: impl Fn(&T) -> u32) {
    if items.len() > 1 {
        items.sort_by_cached_key(|item| {
            let draw = fastrand::f64().max(f64::MIN_POSITIVE);
            // The logarithm of u^(1/w), negated: the smallest stands first. Bits of positive
            // numbers sort as the numbers do.
            (-draw.ln() / f64::from(weight(item).max(1))).to_bits()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_follows_weight() {
        let mut first = [0_u32; 3];
        for _ in 0..20_000 {
            let mut items = [0_usize, 1, 2];
            weighted_order(&mut items, |item| [1, 2, 7][*item]);
            first[items[0]] += 1;
        }
        for (count, share) in first.iter().zip([2_000.0, 4_000.0, 14_000.0]) {
            let off = (f64::from(*count) - share).abs() / share;
            assert!(off < 0.15, "{first:?}");
        }
    }
}
