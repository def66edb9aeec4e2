//! Fourth stage: in which order targets and keys are tried.
//!
//! Targets of the lowest priority number come first; within one priority the order is random by
//! weight. Among a target's keys that are up, the pool chooses by weight when the attempt is made. No
//! pair of target and key is tried twice.

use std::sync::Arc;

use sluicegate_dialect::{Endpoint, Fault, redact};
use sluicegate_model::{Outcome, outcome::Blame, resource::LastResort, secret::Secret};
use sluicegate_protocol::pool::Down;

use crate::{
    admit::Permit,
    policy::{Credential, Provider, Target},
    pool::{Pass, Pool, sooner},
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
    /// Leave to use the key.
    pass: Option<Arc<Pass>>,
    /// The caller made the model's name up, or asks for more than the model may be for: that there is no
    /// such thing is then no fault of the key.
    chosen: bool,
}

impl Choice {
    /// The upstream takes the key: its answer has begun.
    pub fn succeeded(&self) {
        if let Some(pass) = &self.pass {
            pass.succeeded();
        }
    }

    /// The failure without anything that is known to be private: the key it was sent with, where it was
    /// sent. What merely looks so is taken out where it is shown.
    pub fn scrubbed(&self, mut fault: Fault) -> Fault {
        let key = self.credential.iter().flat_map(|credential| &credential.private);
        let mut private: Vec<&str> = key.map(Secret::expose).collect();
        private.push(self.provider.base_url.authority.host());
        for text in [&mut fault.message, &mut fault.code, &mut fault.param].into_iter().flatten() {
            *text = redact::known(text, &private);
        }
        fault
    }

    /// The attempt failed, or its answer broke off.
    pub fn failed(&self, fault: &Fault) {
        if let Some(pass) = &self.pass {
            pass.failed(fault, self.chosen);
        }
    }
}

/// What may be tried for one request, best first.
#[derive(Debug)]
pub struct Plan {
    aims: Vec<Aim>,
    pool: Arc<Pool>,
    attempts_left: u32,
    /// Which of the aims was tried last.
    last: Option<usize>,
    /// Why keys were left out, of the one that callers can hope for soonest.
    down: Option<Down>,
}

/// One target, and what of it is untried.
#[derive(Debug)]
struct Aim {
    provider: Arc<Provider>,
    model: String,
    chosen: bool,
    /// Of a provider that takes keys.
    untried: Vec<Arc<Credential>>,
    /// It takes no key, and is untried.
    keyless: bool,
}

impl Aim {
    fn choice(&self, pass: Option<Pass>) -> Choice {
        Choice {
            provider: self.provider.clone(),
            credential: pass.as_ref().map(|pass| pass.credential().clone()),
            model: self.model.clone(),
            pass: pass.map(Arc::new),
            chosen: self.chosen,
        }
    }

    /// The next key of this target that is up; `Err`: why none is, if any is untried.
    fn take(&mut self, pool: &Arc<Pool>) -> Result<Choice, Option<Down>> {
        if std::mem::take(&mut self.keyless) {
            return Ok(self.choice(None));
        }
        let pass = pool.choose(&self.provider, &self.untried, &self.model)?;
        Ok(self.used(pass))
    }

    /// The key whose rest ends first, where the provider wants that rather than nothing.
    fn take_resting(&mut self, pool: &Arc<Pool>) -> Option<Choice> {
        if self.provider.last_resort != LastResort::Soonest {
            return None;
        }
        let pass = pool.soonest(&self.provider, &self.untried, &self.model)?;
        Some(self.used(pass))
    }

    fn used(&mut self, pass: Pass) -> Choice {
        self.untried.retain(|credential| credential.name != pass.credential().name);
        self.choice(Some(pass))
    }

    fn is_over(&self, pool: &Pool) -> bool {
        !self.keyless && !pool.any_up(&self.untried, &self.model)
    }
}

impl Plan {
    /// Was that the last choice there is?
    pub fn is_last(&self) -> bool {
        self.aims.iter().all(|aim| aim.is_over(&self.pool))
    }

    /// Sets the choice that was just taken aside without its having been tried.
    pub fn untried(&mut self) {
        self.attempts_left += 1;
    }

    /// The target of the choice that was just taken cannot take the request: none of its keys can.
    pub fn unfit(&mut self) {
        self.untried();
        if let Some(aim) = self.last.and_then(|last| self.aims.get_mut(last)) {
            aim.untried.clear();
        }
    }

    /// Why keys were left out, if any were.
    pub fn down(&self) -> Option<Down> {
        self.down
    }

    /// The next attempt, given what the last one came to. `None`: nothing is left to try.
    ///
    /// A key's failure moves on to the next key of the same target; a target's failure moves on to
    /// the next target, and comes back to other keys of this one only when no other is left.
    pub fn next(&mut self, last: Option<Outcome>) -> Option<Choice> {
        if last.is_some_and(|outcome| !outcome.may_fail_over()) || self.attempts_left == 0 {
            return None;
        }
        let mut order: Vec<usize> = (0..self.aims.len()).collect();
        match (last.map(Outcome::blame), self.last) {
            // Stable: the others stay in their order.
            (Some(Blame::Upstream), Some(last)) => order.sort_by_key(|index| *index == last),
            (Some(Blame::Credential), Some(last)) => order.sort_by_key(|index| *index != last),
            _ => {}
        }
        let (index, choice) = self.take(&order)?;
        self.attempts_left -= 1;
        self.last = Some(index);
        Some(choice)
    }

    fn take(&mut self, order: &[usize]) -> Option<(usize, Choice)> {
        for index in order {
            match self.aims.get_mut(*index)?.take(&self.pool) {
                Ok(choice) => return Some((*index, choice)),
                Err(down) => {
                    if let Some(down) = down {
                        self.down = Some(sooner(self.down, down));
                    }
                }
            }
        }
        order.iter().find_map(|index| {
            let choice = self.aims.get_mut(*index)?.take_resting(&self.pool)?;
            Some((*index, choice))
        })
    }
}

/// Plans the attempts of one request.
///
/// # Errors
/// When no target serves the endpoint, or none has a key at all.
pub fn plan(permit: &Permit, endpoint: Endpoint, pool: &Arc<Pool>) -> Result<Plan, Refusal> {
    let mut targets: Vec<&Target> = permit.model.targets.iter().collect();
    weighted_order(&mut targets, |target| target.weight);
    // Stable: the random order holds within each priority.
    targets.sort_by_key(|target| target.priority);
    let mut aims = Vec::new();
    let mut served = false;
    for target in targets {
        if target.provider.location(endpoint).is_none() {
            continue;
        }
        served = true;
        let keyless = target.provider.keyless;
        let untried = if keyless { Vec::new() } else { target.provider.credentials.clone() };
        if !keyless && untried.is_empty() {
            continue;
        }
        let made_up = target.model.is_none() && permit.upstream_name != permit.model.name;
        let chosen = made_up || endpoint != Endpoint::Chat;
        let model = target.model.clone().unwrap_or_else(|| permit.upstream_name.clone());
        let provider = target.provider.clone();
        aims.push(Aim { provider, model, chosen, untried, keyless });
    }
    if aims.is_empty() {
        return Err(Refusal::NoTarget {
            model: permit.model.name.clone(),
            endpoint: endpoint.name(),
            served,
        });
    }
    let attempts_left = permit.model.retry.max_attempts;
    Ok(Plan { aims, pool: pool.clone(), attempts_left, last: None, down: None })
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
