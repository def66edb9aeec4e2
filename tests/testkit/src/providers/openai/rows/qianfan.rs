//! The errors of Qianfan V2, in three envelopes; codes are misspelt on the wire.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($code:literal, $kind:literal, $message:literal) => {
        concat!(
            r#"{"error":{"code":""#,
            $code,
            r#"","message":""#,
            $message,
            r#"","type":""#,
            $kind,
            r#""},"id":"as-1"}"#
        )
    };
}

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $status:literal, $means:expr, $kind:literal, $message:literal) => {
        row($code, $status, $means, said!($code, $kind, $message))
    };
}

macro_rules! limited {
    ($code:literal, $means:expr) => {
        coded!($code, 429, $means, "rate_limit_exceeded", "Rate limit reached").with(COUNTS)
    };
}

const COUNTS: &[(&str, &str)] =
    &[("x-ratelimit-limit-requests", "300"), ("x-ratelimit-remaining-requests", "0")];
const IAM: &[(&str, &str)] = &[
    ("x-bce-error-code", "InvalidHTTPAuthHeader"),
    ("x-bce-error-message", "The authorization header is not valid"),
];

pub(super) const ROWS: &[ErrorRow] = &[
    coded!(
        "invalid_argument",
        400,
        InvalidRequest,
        "invalid_request_error",
        "An argument is not valid"
    ),
    coded!("malformed_json", 400, InvalidRequest, "invalid_request_error", "The body is no JSON"),
    coded!(
        "invalid_messages",
        400,
        InvalidRequest,
        "invalid_request_error",
        "The messages are not valid"
    ),
    coded!(
        "invalid_image_url",
        400,
        InvalidRequest,
        "invalid_request_error",
        "The image is not valid"
    ),
    row(
        "invalid_model.empty",
        400,
        InvalidRequest,
        said!("invalid_model", "invalid_request_error", "model is empty"),
    ),
    coded!(
        "characters_too_long",
        400,
        ContextLengthExceeded,
        "invalid_request_error",
        "Too many characters"
    ),
    coded!(
        "tokens_too_long",
        400,
        ContextLengthExceeded,
        "invalid_request_error",
        "Prompt tokens too long"
    ),
    coded!("image_url_unsafe", 400, ContentFiltered, "unsafe_request", "The image is unsafe"),
    coded!("invalid_iam_token", 401, AuthFailed, "invalid_request_error", "IAM token not valid"),
    coded!("invalid_appid", 401, AuthFailed, "invalid_request_error", "No such application"),
    row("iam_headers", 401, AuthFailed, "{}").with(IAM),
    coded!(
        "no_parameter_permission",
        401,
        PermissionDenied,
        "access_denied",
        "No permission to use this parameter"
    ),
    coded!(
        "invalid_model",
        401,
        ModelNotFound,
        "invalid_request_error",
        "No permission to use the model missing"
    ),
    coded!("system_unsafe", 403, ContentFiltered, "unsafe_request", "The system text is unsafe"),
    coded!("user_setting_unsafe", 403, ContentFiltered, "unsafe_request", "The setting is unsafe"),
    coded!("functions_unsafe", 403, ContentFiltered, "unsafe_request", "The functions are unsafe"),
    coded!(
        "method_not_supported",
        405,
        InvalidRequest,
        "invalid_request_error",
        "Only POST is allowed"
    ),
    limited!("rpm_rate_limit_exceeded", RateLimited),
    limited!("tpm_rate_limit_exceeded", RateLimited),
    limited!("input_tpm_rate_limit_exceeded", RateLimited),
    limited!("output_tpm_rate_limit_exceeded", RateLimited),
    limited!("preemptible_rate_limit_exceeded", RateLimited),
    limited!("user_rate_limit_exceeded", RateLimited),
    limited!("cluster_rate_limit_exceeded", Overloaded),
    limited!("cluster_rpm_rate_limit_exceeded", Overloaded),
    limited!("cluster_tpm_rate_limit_exceeded", Overloaded),
    limited!("Offline_batch_reasoning_refused", RateLimited),
    row(
        "rpm_rate_limit_exceeded.flat",
        200,
        RateLimited,
        r#"{"code":"rpm_rate_limit_exceeded","msg":"Rate limit reached for RPM"}"#,
    )
    .with(COUNTS),
    row(
        "rpm_rate_limit_exceeded.top",
        200,
        RateLimited,
        r#"{"code":"rpm_rate_limit_exceeded","message":"Rate limit reached for RPM"}"#,
    )
    .with(COUNTS),
    coded!(
        "BILLING_INSUFFICIENT_BALANCE",
        429,
        QuotaExhausted,
        "rate_limit_exceeded",
        "The balance is used up"
    ),
    coded!(
        "QUOTA_USER_DAILY_FREE",
        429,
        QuotaExhausted,
        "rate_limit_exceeded",
        "The day's free quota is used up"
    ),
    coded!("internal_error", 500, ProviderError, "internal_error", "Internal error"),
    coded!("dispatch_internal_error", 500, ProviderError, "internal_error", "Internal error"),
    coded!("image_genration_interal_error", 500, ProviderError, "internal_error", "Internal error"),
];
