//! The errors of Gemini.

use crate::providers::rows::Meaning::{
    AuthFailed, Cancelled, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound,
    Overloaded, PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

/// Code, message, status; then details as JSON.
macro_rules! said {
    ($code:literal, $status:literal, $message:literal) => {
        concat!(
            r#"{"error":{"code":"#,
            $code,
            r#","message":""#,
            $message,
            r#"","status":""#,
            $status,
            r#""}}"#
        )
    };
    ($code:literal, $status:literal, $message:literal, $details:literal) => {
        concat!(
            r#"{"error":{"code":"#,
            $code,
            r#","message":""#,
            $message,
            r#"","status":""#,
            $status,
            r#"","details":["#,
            $details,
            "]}}"
        )
    };
}

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    row(
        "INVALID_ARGUMENT",
        400,
        InvalidRequest,
        said!("400", "INVALID_ARGUMENT", "Request contains an invalid argument."),
    ),
    row(
        "API_KEY_INVALID",
        400,
        AuthFailed,
        said!(
            "400",
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}},{"@type":"type.googleapis.com/google.rpc.LocalizedMessage","locale":"en-US","message":"API key not valid. Please pass a valid API key."}"#
        ),
    ),
    row(
        "API_KEY_EXPIRED",
        400,
        AuthFailed,
        said!(
            "400",
            "INVALID_ARGUMENT",
            "API key expired. Please renew the API key.",
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_EXPIRED","domain":"googleapis.com"}"#
        ),
    ),
    row(
        "FAILED_PRECONDITION",
        400,
        PermissionDenied,
        said!("400", "FAILED_PRECONDITION", "User location is not supported for the API use."),
    ),
    row(
        "INVALID_ARGUMENT.length",
        400,
        ContextLengthExceeded,
        said!(
            "400",
            "INVALID_ARGUMENT",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."
        ),
    ),
    row(
        "payment_required",
        402,
        QuotaExhausted,
        said!("402", "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
    ),
    row(
        "UNAUTHENTICATED",
        401,
        AuthFailed,
        said!("401", "UNAUTHENTICATED", "Request had invalid authentication credentials."),
    ),
    row(
        "PERMISSION_DENIED",
        403,
        PermissionDenied,
        said!("403", "PERMISSION_DENIED", "You do not have permission to access the model."),
    ),
    row(
        "PERMISSION_DENIED.leaked",
        403,
        AuthFailed,
        said!(
            "403",
            "PERMISSION_DENIED",
            "Your API key was reported as leaked. Please use another API key."
        ),
    ),
    row(
        "SERVICE_DISABLED",
        403,
        PermissionDenied,
        said!(
            "403",
            "PERMISSION_DENIED",
            "Generative Language API has not been used in project 1 before or it is disabled.",
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED","domain":"googleapis.com"}"#
        ),
    ),
    row(
        "NOT_FOUND",
        404,
        ModelNotFound,
        said!(
            "404",
            "NOT_FOUND",
            "models/missing is not found for API version v1beta, or is not supported for generateContent."
        ),
    ),
    row(
        "too_large",
        413,
        InvalidRequest,
        said!("413", "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
    ),
    row(
        "minute",
        429,
        RateLimited,
        said!(
            "429",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota. Please retry in 11.665902715s.",
            r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaDimensions":{"location":"global","model":"gemini-x"},"quotaValue":"10"}]},{"@type":"type.googleapis.com/google.rpc.Help","links":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"11s"}"#
        ),
    ),
    row(
        "minute.tokens",
        429,
        RateLimited,
        said!(
            "429",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota. Please retry in 47s.",
            r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_input_token_count","quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier","quotaValue":"250000"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"47s"}"#
        ),
    ),
    row(
        "minute.array",
        429,
        RateLimited,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"5s"}]}}]"#,
    ),
    row(
        "day",
        429,
        QuotaExhausted,
        said!(
            "429",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota. Please retry in 20s.",
            r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"250"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}"#
        ),
    ),
    row(
        "minute_and_day",
        429,
        QuotaExhausted,
        said!(
            "429",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota. Please retry in 20s.",
            r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}"#
        ),
    ),
    row(
        "limit_0",
        429,
        QuotaExhausted,
        said!(
            "429",
            "RESOURCE_EXHAUSTED",
            "Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-x"
        ),
    ),
    row(
        "shared",
        429,
        Overloaded,
        said!("429", "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."),
    ),
    row(
        "spend",
        429,
        QuotaExhausted,
        said!("429", "RESOURCE_EXHAUSTED", "Your project has exceeded its spend cap."),
    ),
    row("CANCELLED", 499, Cancelled, said!("499", "CANCELLED", "The operation was cancelled.")),
    row(
        "INTERNAL",
        500,
        ProviderError,
        said!("500", "INTERNAL", "An internal error has occurred. Please retry or report."),
    ),
    row(
        "UNAVAILABLE",
        503,
        Overloaded,
        said!("503", "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ),
    row(
        "MODEL_CAPACITY_EXHAUSTED",
        503,
        Overloaded,
        said!(
            "503",
            "UNAVAILABLE",
            "No capacity available for the model.",
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED","domain":"cloudcode-pa.googleapis.com"}"#
        ),
    ),
    row(
        "DEADLINE_EXCEEDED",
        504,
        Timeout,
        said!("504", "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
    ),
    row(
        "blocked",
        200,
        ContentFiltered,
        r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7},"modelVersion":"gemini-x","responseId":"r0"}"#,
    ),
    row(
        "blocked.empty",
        200,
        ContentFiltered,
        r#"{"candidates":[],"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7},"modelVersion":"gemini-x","responseId":"r0"}"#,
    ),
];
