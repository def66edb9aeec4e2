//! The errors of ERNIE V1. All of them have status 200, and there are two spellings.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($code:literal, $message:literal) => {
        concat!(r#"{"error_code":"#, $code, r#","error_msg":""#, $message, r#"","id":"as-fake"}"#)
    };
}

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $means:expr, $message:literal) => {
        row($code, 200, $means, said!($code, $message))
    };
}

const COUNTS: &[(&str, &str)] =
    &[("x-ratelimit-limit-requests", "300"), ("x-ratelimit-remaining-requests", "0")];

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    coded!("1", ProviderError, "Unknown error"),
    coded!("2", Overloaded, "Service temporarily unavailable"),
    coded!("3", ModelNotFound, "Unsupported openapi method"),
    coded!("18", RateLimited, "Open api qps request limit reached"),
    coded!("4", RateLimited, "Open api request limit reached"),
    coded!("6", PermissionDenied, "No permission to access data"),
    coded!("110", AuthFailed, "Access token invalid or no longer valid"),
    coded!("111", AuthFailed, "Access token expired"),
    coded!("13", AuthFailed, "Get service token failed"),
    coded!("14", AuthFailed, "IAM Certification failed"),
    coded!("15", AuthFailed, "app not exsits or create failed"),
    coded!("17", QuotaExhausted, "Open api daily request limit reached"),
    coded!("19", QuotaExhausted, "Open api total request limit reached"),
    coded!("100", AuthFailed, "Invalid parameter"),
    coded!("336000", ProviderError, "Internal error"),
    coded!("336001", InvalidRequest, "Invalid Argument"),
    coded!("336002", InvalidRequest, "Invalid JSON"),
    coded!("336003", InvalidRequest, "the length of messages must be an odd number"),
    coded!("336004", PermissionDenied, "No permission to use the model"),
    coded!("336005", InvalidRequest, "Invalid API name"),
    coded!("336006", InvalidRequest, "the messages do not follow the rules"),
    coded!("336007", ContextLengthExceeded, "Prompt tokens too long"),
    coded!("336103", ContextLengthExceeded, "Prompt tokens too long"),
    coded!("336100", Overloaded, "The model is busy, please try again later"),
    coded!("336101", InvalidRequest, "The method is not allowed"),
    coded!("336104", ContentFiltered, "The system text is refused"),
    coded!("336105", ContentFiltered, "The setting of the user is refused"),
    coded!("336501", RateLimited, "Rate limit reached for RPM"),
    coded!("336502", RateLimited, "Rate limit reached for TPM"),
    row("336501.msg", 200, RateLimited, r#"{"code":336501,"msg":"Rate limit reached for RPM"}"#)
        .with(COUNTS),
    row("336502.msg", 200, RateLimited, r#"{"code":336502,"msg":"Rate limit reached for TPM"}"#)
        .with(COUNTS),
];
