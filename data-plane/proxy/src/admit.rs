//! Third stage: may this call go on? Does the model exist, and is it the caller's to use? What the
//! limits say to it is asked next, in [`crate::limited`].

use std::sync::Arc;

use sluicegate_dialect::Call;
use sluicegate_model::name::near_miss;

use crate::{
    policy::{Caller, Model, Policy},
    refusal::Refusal,
};

/// Most near misses that an error names.
const NEAR: usize = 3;

/// Leave to call one model, held until the request has ended.
#[derive(Debug, Clone)]
pub struct Permit {
    pub caller: Arc<Caller>,
    pub model: Arc<Model>,
    /// Name for targets that have none of their own: the model's, or where a pattern matched, the
    /// one that was asked for.
    pub upstream_name: String,
}

impl Permit {
    /// Leave to call another model in its place.
    pub fn to(&self, model: Arc<Model>) -> Self {
        Self { caller: self.caller.clone(), upstream_name: model.name.clone(), model }
    }
}

/// Admits a call.
///
/// # Errors
/// The model is unknown, or not for this caller.
pub fn admit(policy: &Policy, caller: Arc<Caller>, call: &Call) -> Result<Permit, Refusal> {
    let model = model(policy, &caller, &call.model)?;
    let exact = policy.is_exact(&call.model);
    let upstream_name = if exact { model.name.clone() } else { call.model.clone() };
    Ok(Permit { caller, model, upstream_name })
}

/// The model of this exact name, if the caller may use it.
///
/// # Errors
/// Unknown (with near misses among those that the caller may use), or not allowed.
pub fn model(policy: &Policy, caller: &Caller, name: &str) -> Result<Arc<Model>, Refusal> {
    let shown = || name.chars().take(sluicegate_model::name::MAX_MODEL_NAME).collect::<String>();
    match policy.model(name) {
        Some(model) if caller.may_use(model) => Ok(model.clone()),
        Some(_) => Err(Refusal::ModelNotAllowed { model: shown() }),
        None => Err(Refusal::UnknownModel { near: near(policy, caller, &shown()), model: shown() }),
    }
}

/// Names that the caller may have meant: nearest first, then those that begin alike.
fn near(policy: &Policy, caller: &Caller, wrong: &str) -> Vec<String> {
    let allowed: Vec<&str> = policy
        .model_names()
        .into_iter()
        .filter(|(_, model)| caller.may_use(model))
        .map(|(name, _)| name)
        .collect();
    let mut near: Vec<&str> = near_miss(wrong, allowed.iter().copied()).into_iter().collect();
    let folded = wrong.to_lowercase();
    let alike = allowed.into_iter().filter(|name| {
        let name = name.to_lowercase();
        folded.len() >= 3 && (name.starts_with(&folded) || folded.starts_with(&name))
            || name.rsplit('/').next().is_some_and(|last| last == folded)
    });
    for name in alike {
        if !near.contains(&name) {
            near.push(name);
        }
    }
    near.into_iter().take(NEAR).map(str::to_owned).collect()
}
