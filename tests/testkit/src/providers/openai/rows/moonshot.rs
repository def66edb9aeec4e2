//! The errors of Moonshot: the type decides, there is no code.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($kind:literal, $message:literal) => {
        concat!(r#"{"error":{"message":""#, $message, r#"","type":""#, $kind, r#""}}"#)
    };
}

const COUNTS: &[(&str, &str)] = &[("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "0")];

pub(super) const ROWS: &[ErrorRow] = &[
    row("invalid_request_error", 400, InvalidRequest, said!("invalid_request_error", "Invalid request")),
    row("invalid_request_error.length", 400, ContextLengthExceeded, said!("invalid_request_error", "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)")),
    row("content_filter", 400, ContentFiltered, said!("content_filter", "The request was rejected because it was considered high risk")),
    row("invalid_authentication_error", 401, AuthFailed, said!("invalid_authentication_error", "Invalid Authentication")),
    row("incorrect_api_key_error", 401, AuthFailed, said!("incorrect_api_key_error", "Incorrect API key provided")),
    row("membership", 402, QuotaExhausted, said!("access_terminated_error", "We're unable to verify your membership benefits at this time.")),
    row("permission_denied_error", 403, PermissionDenied, said!("permission_denied_error", "The API you are accessing is not open")),
    row("permission_denied_error.balance", 403, QuotaExhausted, said!("permission_denied_error", "Your account has insufficient balance")),
    row("access_terminated_error", 403, QuotaExhausted, said!("access_terminated_error", "You've reached your usage limit for this billing cycle.")),
    row("resource_not_found_error", 404, ModelNotFound, said!("resource_not_found_error", "Not found the model missing or Permission denied")),
    row("rate_limit_reached_error", 429, RateLimited, said!("rate_limit_reached_error", "Your account org-1 request reached organization max RPM: 3, please try again after 1 seconds")).with(COUNTS),
    row("rate_limit_reached_error.concurrency", 429, RateLimited, said!("rate_limit_reached_error", "Your account org-1 request reached organization max concurrency: 1, please try again after 1 seconds")),
    row("rate_limit_reached_error.tpm", 429, RateLimited, said!("rate_limit_reached_error", "Your account org-1 request reached organization TPM rate limit, current: 40000, limit: 32000, please try again after 20 seconds")),
    row("rate_limit_reached_error.tpd", 429, RateLimited, said!("rate_limit_reached_error", "Your account org-1 request reached organization TPD rate limit, current: 1500001, limit: 1500000, please try again after 3600 seconds")),
    row("exceeded_current_quota_error", 429, QuotaExhausted, said!("exceeded_current_quota_error", "Your account org-1 is suspended, please check your plan and billing details")),
    row("engine_overloaded_error", 429, Overloaded, said!("engine_overloaded_error", "The engine is currently overloaded, please try again later")),
    row("server_error", 500, ProviderError, said!("server_error", "Internal server error")),
    row("unexpected_output", 500, ProviderError, said!("unexpected_output", "Invalid state transition")),
];
