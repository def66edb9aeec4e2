//! What a status means when nothing says more.

use sluicegate_model::Outcome;

pub(super) fn outcome(status: u16) -> Outcome {
    match status {
        401 => Outcome::KeyRefused,
        402 => Outcome::QuotaExhausted,
        403 => Outcome::PermissionDenied,
        404 | 410 => Outcome::ModelMissing,
        408 | 504 | 524 => Outcome::Timeout,
        // Between the gateway and the provider, not the caller's: the method, a proxy, a conflict
        // that passes, a hang-up.
        405 | 407 | 409 | 499 => Outcome::ProviderError,
        425 | 429 => Outcome::RateLimited,
        503 | 529 => Outcome::Overloaded,
        400..=499 => Outcome::InvalidRequest,
        _ => Outcome::ProviderError,
    }
}
