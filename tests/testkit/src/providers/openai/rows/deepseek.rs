//! The errors of DeepSeek. Their `code` says nothing.

use super::error;
use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($message:literal, $kind:literal) => {
        error!($message, $kind, "null", r#""invalid_request_error""#)
    };
}

const EMPTY: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];

pub(super) const ROWS: &[ErrorRow] = &[
    row(
        "400",
        400,
        InvalidRequest,
        said!(
            "Failed to deserialize the JSON body into the target type",
            r#""invalid_request_error""#
        ),
    ),
    row(
        "400.reasoning",
        400,
        InvalidRequest,
        said!(
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            r#""invalid_request_error""#
        ),
    ),
    row(
        "400.context",
        400,
        ContextLengthExceeded,
        said!(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens.",
            r#""invalid_request_error""#
        ),
    ),
    row(
        "400.risk",
        400,
        ContentFiltered,
        said!("Content Exists Risk", r#""invalid_request_error""#),
    ),
    row("400.model", 400, ModelNotFound, said!("Model Not Exist", r#""invalid_request_error""#)),
    row(
        "401",
        401,
        AuthFailed,
        said!(
            "Authentication Fails, Your api key: ****ake1 is invalid",
            r#""authentication_error""#
        ),
    ),
    row(
        "401.user",
        401,
        AuthFailed,
        said!("Authentication Fails (no such user)", r#""authentication_error""#),
    ),
    row(
        "401.format",
        401,
        AuthFailed,
        said!(
            "Authentication Fails (auth header format should be Bearer sk-...)",
            r#""authentication_error""#
        ),
    ),
    row("402", 402, QuotaExhausted, said!("Insufficient Balance", r#""unknown_error""#)),
    row(
        "422",
        422,
        InvalidRequest,
        said!(
            "Invalid temperature value, the valid range of temperature is [0, 2]",
            r#""invalid_request_error""#
        ),
    ),
    row(
        "429",
        429,
        RateLimited,
        error!("Rate limit reached", r#""rate_limit_error""#, "null", "null"),
    ),
    row(
        "429.concurrency",
        429,
        RateLimited,
        error!(
            "Your current concurrency is 40, above your limit of 39 based on your remaining balance. Please top up to raise it.",
            r#""rate_limit_error""#, "null", "null"
        ),
    ),
    row("500", 500, ProviderError, error!("Server error", r#""server_error""#, "null", "null")),
    row(
        "503",
        503,
        Overloaded,
        error!(
            "Service is too busy. We advise users to temporarily switch to alternative LLM API service providers.",
            r#""service_unavailable_error""#, "null", "null"
        ),
    ),
    row("empty", 200, Timeout, "").with(EMPTY),
];
