//! Fourth stage: in which order targets and keys are tried.
//!
//! Targets of the lowest priority number come first; within one priority the order is random by
//! weight, as is the order of a provider's keys. No pair of target and key is tried twice.

use std::sync::Arc;

use sluicegate_dialect::Endpoint;
use sluicegate_model::{Outcome, outcome::Blame};

use crate::{
    admit::Permit,
    policy::{Credential, Provider, Target},
    refusal::Refusal,
};

/// Where one attempt goes.
#[derive(Debug, Clone)]
pub struct Choice {
    pub provider: Arc<Provider>,
    /// `None` for a provider that takes no key.
    pub credential: Option<Arc<Credential>>,
    /// Name sent upstream.
    pub model: String,
    /// Which of the plan's targets it is.
    target: usize,
}

/// What may be tried for one request, best first.
#[derive(Debug)]
pub struct Plan {
    /// Untried choices, those of one target together.
    choices: Vec<Choice>,
    attempts_left: u32,
    last_target: Option<usize>,
}

impl Plan {
    /// Was that the last choice there is?
    pub fn is_last(&self) -> bool {
        self.choices.is_empty()
    }

    /// Sets the choice that was just taken aside without its having been tried.
    pub fn untried(&mut self) {
        self.attempts_left += 1;
    }

    /// The target of the choice that was just taken cannot take the request: none of its keys can.
    pub fn unfit(&mut self) {
        self.untried();
        self.choices.retain(|choice| Some(choice.target) != self.last_target);
    }

    /// The next attempt, given what the last one came to. `None`: nothing is left to try.
    ///
    /// A key's failure moves on to the next key of the same target; a target's failure moves on to
    /// the next target, and comes back to other keys of this one only when no other is left.
    pub fn next(&mut self, last: Option<Outcome>) -> Option<Choice> {
        if last.is_some_and(|outcome| !outcome.may_fail_over()) || self.attempts_left == 0 {
            return None;
        }
        self.attempts_left -= 1;
        let same = |choice: &Choice| Some(choice.target) == self.last_target;
        let index = match last.map(Outcome::blame) {
            Some(Blame::Upstream) => {
                self.choices.iter().position(|choice| !same(choice)).unwrap_or(0)
            }
            Some(Blame::Credential) => self.choices.iter().position(same).unwrap_or(0),
            Some(Blame::Nobody | Blame::Caller) | None => 0,
        };
        if index >= self.choices.len() {
            return None;
        }
        let choice = self.choices.remove(index);
        self.last_target = Some(choice.target);
        Some(choice)
    }
}

/// Plans the attempts of one request.
///
/// # Errors
/// When no target serves the endpoint, or none has a key that may be used.
pub fn plan(permit: &Permit, endpoint: Endpoint) -> Result<Plan, Refusal> {
    let mut targets: Vec<&Target> = permit.model.targets.iter().collect();
    weighted_order(&mut targets, |target| target.weight);
    // Stable: the random order holds within each priority.
    targets.sort_by_key(|target| target.priority);
    let mut choices = Vec::new();
    let mut served = false;
    for (index, target) in targets.into_iter().enumerate() {
        if target.provider.location(endpoint).is_none() {
            continue;
        }
        served = true;
        let choice = |credential: Option<Arc<Credential>>| Choice {
            provider: target.provider.clone(),
            credential,
            model: target.model.clone().unwrap_or_else(|| permit.upstream_name.clone()),
            target: index,
        };
        if target.provider.keyless {
            choices.push(choice(None));
            continue;
        }
        let mut credentials: Vec<_> = target.provider.credentials.iter().collect();
        weighted_order(&mut credentials, |credential| credential.weight);
        choices.extend(credentials.into_iter().map(|credential| choice(Some(credential.clone()))));
    }
    if choices.is_empty() {
        return Err(Refusal::NoTarget {
            model: permit.model.name.clone(),
            endpoint: endpoint.name(),
            served,
        });
    }
    Ok(Plan { choices, attempts_left: permit.model.max_attempts, last_target: None })
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
