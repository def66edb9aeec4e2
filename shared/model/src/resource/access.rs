//! Kinds that are checked now and enforced by a later build.

use sluicegate_proto::resource::v1 as pb;

use crate::{
    path::Path,
    violation::{Violation, Violations},
};

/// What no single field of a limit can say.
pub(super) fn check_limit(spec: &pb::Limit, found: &mut Violations) {
    let mut add = |field: &str, message: &str, hint: &str| {
        found.0.push(Violation::new(Path::root().field(field), message).hint(hint));
    };
    if spec.scope.as_ref().is_some_and(|scope| *scope == pb::LimitScope::default()) {
        add("scope", "names nothing", "give at least one part, such as tenant: \"*\"");
    }
    let concurrency = spec.dimension == "concurrency";
    let windowed = !spec.window.is_empty();
    match (concurrency, windowed, spec.rate.is_empty(), spec.amount) {
        (true, _, _, None) | (false, true, _, None) => {
            add("amount", "is required here", "say how much the window or the concurrency allows");
        }
        (false, false, true, _) => {
            add("rate", "the limit has neither a rate nor a window", "give one of them");
        }
        (true, _, false, _) | (false, true, false, _) => {
            add("rate", "contradicts the window or dimension", "remove one of them");
        }
        _ => {}
    }
}
