//! The errors of Azure OpenAI: three envelopes.

use super::error;
use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

/// The envelope with nothing but code and message.
macro_rules! short {
    ($code:literal, $message:literal) => {
        concat!(r#"{"error":{"code":""#, $code, r#"","message":""#, $message, r#""}}"#)
    };
}

const WAIT: &[(&str, &str)] = &[
    ("retry-after", "37"),
    ("retry-after-ms", "36412"),
    ("x-ratelimit-remaining-tokens", "0"),
    ("x-ratelimit-reset-tokens", "37"),
    ("apim-request-id", "8c0e0000-0000-4000-8000-000000000001"),
];
const NO_WAIT: &[(&str, &str)] =
    &[("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "0")];
const LOWERED: &[(&str, &str)] = &[("retry-after", "60"), ("x-ratelimit-limit-tokens", "1000")];

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    row("401", 401, AuthFailed, short!("401", "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.")),
    row("401.flat", 401, AuthFailed, r#"{"statusCode":401,"message":"Access denied due to missing subscription key. Make sure to include subscription key when making requests to an API."}"#),
    row("Unauthorized", 401, AuthFailed, short!("Unauthorized", "Access token is missing, invalid, audience is incorrect, or have expired.")),
    row("content_filter", 400, ContentFiltered, r#"{"error":{"message":"Prompt tripped the content policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":true,"detected":true},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":true,"severity":"medium"}}}}}"#),
    row("context_length_exceeded", 400, ContextLengthExceeded, error!("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", r#""invalid_request_error""#, r#""messages""#, r#""context_length_exceeded""#)),
    row("BadRequest", 400, InvalidRequest, short!("BadRequest", "The request is invalid.")),
    row("OperationNotSupported", 400, InvalidRequest, short!("OperationNotSupported", "The chatCompletion operation does not work with the specified model.")),
    row("unsupported_parameter", 400, InvalidRequest, error!("Unsupported parameter: 'max_tokens'.", r#""invalid_request_error""#, r#""max_tokens""#, r#""unsupported_parameter""#)),
    row("403.network", 403, PermissionDenied, short!("403", "Access denied due to Virtual Network/Firewall rules.")),
    row("403.blocked", 403, QuotaExhausted, short!("Forbidden", "Your resource has been temporarily blocked because we detected behavior that may violate our content policy.")),
    row("403.apim_quota", 403, QuotaExhausted, r#"{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 10:00:00."}"#),
    row("DeploymentNotFound", 404, ModelNotFound, short!("DeploymentNotFound", "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.")),
    row("404", 404, InvalidRequest, short!("404", "Resource not found")),
    row("Timeout", 408, Timeout, short!("Timeout", "The operation was timeout.")),
    row("429", 429, RateLimited, short!("429", "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 37 seconds.")).with(WAIT),
    row("429.calls", 429, RateLimited, short!("429", "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 1 second.")).with(NO_WAIT),
    row("429.adjusted", 429, RateLimited, short!("429", "A temporary rate limit adjustment is in place for this deployment. Please retry after 60 seconds.")).with(LOWERED),
    row("429.demand", 429, Overloaded, short!("429", "The system is currently experiencing high demand and cannot process your request. Please retry later.")),
    row("insufficient_quota", 429, QuotaExhausted, short!("insufficient_quota", "The subscription has no quota left.")),
    row("InternalServerError", 500, ProviderError, short!("InternalServerError", "Internal server error.")),
    row("ServiceUnavailable", 503, Overloaded, short!("ServiceUnavailable", "The service is temporarily unable to process your request.")),
];
