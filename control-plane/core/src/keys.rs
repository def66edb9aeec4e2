//! Where everything is in the store.

use sluicegate_model::ResourceRef;

/// What the desired state is made of; one watch covers it, and every change is one revision in it.
pub(crate) const CONFIG: &str = "config/";
/// Rewritten by every change, which compares it: that is what puts changes in one order.
pub(crate) const HEAD: &str = "config/head";
/// Followed by kind and name.
pub(crate) const RESOURCE: &str = "config/resource/";
const HISTORY: &str = "history/";
const IDEMPOTENCY: &str = "idem/";
/// Hashes of tokens.
pub(crate) const AUTH: &str = "auth/";
/// Sealed by the key that every secret in the store is sealed with.
pub(crate) const SEAL_CHECK: &str = "auth/seal-check";

/// Held by the replica that decides for the fleet. Nothing below this prefix is configuration.
pub(crate) const LEADER: &str = "fleet/leader";
/// How targets stand; followed by provider and model.
pub(crate) const BREAKER: &str = "fleet/breaker/";

/// Key of how a target stands. A slash ends the provider's name, so that none may be in it.
pub(crate) fn breaker(provider: &str, model: &str) -> String {
    let provider = provider.replace('%', "%25").replace('/', "%2F");
    format!("{BREAKER}{provider}/{model}")
}

/// Key of one resource.
pub(crate) fn resource(reference: &ResourceRef) -> String {
    format!("{RESOURCE}{reference}")
}

/// Key of the record of the change with this number.
pub(crate) fn history(sequence: u64) -> String {
    format!("{HISTORY}{sequence:020}")
}

/// Key of what became of a call; `name` is a digest, so that it is a legal key whatever was sent.
pub(crate) fn idempotency(name: &str) -> String {
    format!("{IDEMPOTENCY}{name}")
}

/// Key of the hash of a role's token.
pub(crate) fn token(role: &str) -> String {
    format!("{AUTH}{role}")
}
