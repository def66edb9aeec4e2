//! Refusals of our own limits.

use std::time::Duration;

use http::StatusCode;
use sluicegate_model::resource::limit::Dimension;

use super::Shown;
use crate::quota::{LimitFacts, Why};

/// What a limit's refusal looks like from outside.
pub(super) fn refused(facts: &LimitFacts) -> Shown {
    let (status, kind, code) = match facts.why {
        Why::Exhausted | Why::ShareUsedUp => {
            let code = match facts.dimension {
                Dimension::Cost => "insufficient_quota",
                _ => "rate_limit_exceeded",
            };
            (StatusCode::TOO_MANY_REQUESTS, facts.dimension.name(), code)
        }
        Why::TooLarge => {
            (StatusCode::TOO_MANY_REQUESTS, facts.dimension.name(), "request_exceeds_limit")
        }
        Why::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "server_error", "limit_unavailable"),
    };
    Shown {
        status,
        kind,
        code: code.to_owned(),
        message: facts.message(),
        param: None,
        // The same request never fits.
        retry: (facts.why != Why::TooLarge).then(|| Duration::from_millis(facts.retry_ms)),
    }
}
