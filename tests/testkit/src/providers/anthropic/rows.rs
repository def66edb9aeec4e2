//! The errors of Anthropic.

use crate::providers::rows::Meaning::{
    AuthFailed, Conflict, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($kind:literal, $message:literal) => {
        concat!(
            r#"{"type":"error","error":{"type":""#,
            $kind,
            r#"","message":""#,
            $message,
            r#""},"request_id":"req_fake"}"#
        )
    };
}

/// A row whose name is its type.
macro_rules! typed {
    ($kind:literal, $status:literal, $means:expr, $message:literal) => {
        row($kind, $status, $means, said!($kind, $message)).with(ID)
    };
}

const ID: &[(&str, &str)] = &[("request-id", "req_fake")];
const LIMITED: &[(&str, &str)] = &[
    ("request-id", "req_fake"),
    ("retry-after", "14"),
    ("anthropic-ratelimit-requests-limit", "50"),
    ("anthropic-ratelimit-requests-remaining", "0"),
    ("anthropic-ratelimit-requests-reset", "2026-09-01T10:00:14Z"),
    ("anthropic-ratelimit-input-tokens-remaining", "12000"),
];
const PLAN: &[(&str, &str)] = &[
    ("request-id", "req_fake"),
    ("retry-after", "7200"),
    ("anthropic-ratelimit-unified-status", "rejected"),
    ("anthropic-ratelimit-unified-reset", "1790000000"),
];
const HTML: &[(&str, &str)] = &[("content-type", "text/html")];

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    typed!("invalid_request_error", 400, InvalidRequest, "messages: at least one message is required"),
    row("invalid_request_error.length", 400, ContextLengthExceeded, said!("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
    row("invalid_request_error.output", 400, ContextLengthExceeded, said!("invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease input length or `max_tokens` and try again")),
    row("invalid_request_error.usage_limits", 400, QuotaExhausted, said!("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC.")),
    row("invalid_request_error.credit", 400, QuotaExhausted, said!("invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.")),
    typed!("authentication_error", 401, AuthFailed, "invalid x-api-key"),
    typed!("billing_error", 402, QuotaExhausted, "There is an issue with your billing or payment information."),
    typed!("permission_error", 403, PermissionDenied, "Your API key does not have permission to use the specified resource."),
    typed!("not_found_error", 404, ModelNotFound, "model: missing"),
    typed!("conflict_error", 409, Conflict, "The resource was changed by another request."),
    typed!("request_too_large", 413, InvalidRequest, "Request exceeds the maximum size"),
    row("rate_limit_error", 429, RateLimited, said!("rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute.")).with(LIMITED),
    row("rate_limit_error.acceleration", 429, RateLimited, said!("rate_limit_error", "Your traffic rose too sharply; scale up gradually.")).with(LIMITED),
    row("rate_limit_error.spend", 429, QuotaExhausted, r#"{"type":"error","error":{"type":"rate_limit_error","message":"Your organization reached its monthly spend limit.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_fake"}"#).with(ID),
    row("rate_limit_error.plan", 429, QuotaExhausted, said!("rate_limit_error", "You have reached the usage limit of your plan.")).with(PLAN),
    typed!("api_error", 500, ProviderError, "Internal server error"),
    typed!("timeout_error", 504, Timeout, "The request took too long; use streaming."),
    typed!("overloaded_error", 529, Overloaded, "Overloaded"),
    row("bad_gateway", 502, ProviderError, "<html><body><h1>502 Bad Gateway</h1></body></html>").with(HTML),
];
