//! An operator's word over what the gateway decides by itself.

use sluicegate_proto::resource::v1 as pb;

use super::form;
use crate::{
    path::Path,
    violation::{Violation, Violations},
};

/// What an operator has set, until it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Force {
    pub name: String,
    pub what: Forced,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_unix_ms: Option<u64>,
    pub comment: String,
}

/// What is forced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forced {
    /// A target's breaker.
    Breaker {
        provider: String,
        /// Name that is sent upstream; `None`: each of the provider's models.
        model: Option<String>,
        /// Nothing is sent to it; else everything is.
        open: bool,
    },
    /// Nothing is tried again.
    NoRetries,
}

pub(super) fn parse(spec: &pb::Force, found: &mut Violations) -> Option<Force> {
    let mut add = |field: &str, message: &str, hint: &str| {
        found.0.push(Violation::new(Path::root().field(field), message).hint(hint));
        None
    };
    let what = match (spec.target.as_str(), spec.retries.as_str()) {
        ("", "off") if spec.breaker.is_empty() => Forced::NoRetries,
        ("", "off") => return add("breaker", "is of no target", "leave it out, or name a target"),
        ("", _) => {
            return add("target", "the force changes nothing", "give target, or retries: off");
        }
        (_, "off") => return add("retries", "stands beside a target", "make two forces of it"),
        (target, _) => {
            let Some((provider, model)) = target.split_once('/') else {
                return add("target", "is no target", "write provider/model, or provider/*");
            };
            if provider.is_empty() || model.is_empty() {
                return add("target", "is no target", "write provider/model, or provider/*");
            }
            if spec.breaker.is_empty() {
                return add("breaker", "is missing", "say open or closed");
            }
            Forced::Breaker {
                provider: provider.to_owned(),
                model: (model != "*").then(|| model.to_owned()),
                open: spec.breaker == "open",
            }
        }
    };
    Some(Force {
        name: spec.name.clone(),
        what,
        expires_unix_ms: form::time(&spec.expires_at).ok(),
        comment: spec.comment.clone(),
    })
}
