//! The errors of Mistral, in four shapes.

use crate::providers::rows::Meaning::{
    AuthFailed, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

/// The flat shape; the code as JSON.
macro_rules! flat {
    ($message:literal, $kind:literal, $code:literal) => {
        concat!(
            r#"{"object":"error","message":""#,
            $message,
            r#"","type":""#,
            $kind,
            r#"","param":null,"code":"#,
            $code,
            "}"
        )
    };
}

const WAIT: &[(&str, &str)] = &[("retry-after", "1"), ("x-ratelimit-remaining", "0")];

pub(super) const ROWS: &[ErrorRow] = &[
    row("invalid_request_error", 400, InvalidRequest, flat!("Expected last role User or Tool for serving but got assistant", "invalid_request_error", r#""3230""#)),
    row("context", 400, ContextLengthExceeded, flat!("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", "invalid_request_error", "3051")),
    row("401", 401, AuthFailed, r#"{"detail":"Unauthorized"}"#),
    row("402", 402, QuotaExhausted, r#"{"detail":"Payment required"}"#),
    row("403", 403, PermissionDenied, flat!("You have no right to this model", "permission_denied", "null")),
    row("invalid_model", 400, ModelNotFound, flat!("Invalid model: missing", "invalid_model", r#""1500""#)),
    row("404", 404, ModelNotFound, flat!("No such model", "not_found", "null")),
    row("422", 422, InvalidRequest, r#"{"detail":[{"type":"extra_forbidden","loc":["body","user"],"msg":"Extra inputs are not permitted"}]}"#),
    row("1300", 429, RateLimited, r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#).with(WAIT),
    row("429.message", 429, RateLimited, r#"{"message":"Requests rate limit exceeded"}"#),
    row("capacity", 429, Overloaded, flat!("Service tier capacity exceeded for this model.", "invalid_request_error", "null")),
    row("3505", 429, Overloaded, flat!("Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", r#""3505""#)),
    row("3505.503", 503, Overloaded, flat!("Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", r#""3505""#)),
    row("500", 500, ProviderError, flat!("Service unavailable.", "internal_server_error", r#""3700""#)),
    row("503", 503, Overloaded, r#"{"message":"Service unavailable."}"#),
];
