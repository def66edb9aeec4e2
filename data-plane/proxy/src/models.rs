//! `GET /v1/models`: what a caller may ask for.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::policy::{Caller, Model, Policy};

/// The list for one caller.
pub fn list(policy: &Policy, caller: &Caller) -> Bytes {
    let data: Vec<_> = policy
        .model_names()
        .into_iter()
        .filter(|(_, model)| caller.may_use(model))
        .map(|(name, model)| entry(name, model))
        .collect();
    json!({ "object": "list", "data": data }).to_string().into()
}

/// One model under the name that was asked for.
pub fn one(name: &str, model: &Model) -> Bytes {
    entry(name, model).to_string().into()
}

fn entry(name: &str, model: &Model) -> Value {
    // No model here has a date of birth; the field must be there and be a number.
    json!({ "id": name, "object": "model", "created": 0, "owned_by": model.owned_by })
}
