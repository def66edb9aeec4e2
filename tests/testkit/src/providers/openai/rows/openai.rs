//! The errors of OpenAI itself.

use super::{HTML, IS_HTML, error};
use crate::providers::rows::Meaning::{
    AuthFailed, Conflict, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound,
    Overloaded, PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

const REQUESTS: &[(&str, &str)] = &[
    ("x-ratelimit-limit-requests", "500"),
    ("x-ratelimit-remaining-requests", "0"),
    ("x-ratelimit-reset-requests", "120ms"),
    ("retry-after-ms", "118"),
    ("retry-after", "1"),
];
const TOKENS: &[(&str, &str)] = &[
    ("x-ratelimit-limit-tokens", "30000"),
    ("x-ratelimit-remaining-tokens", "1000"),
    ("x-ratelimit-reset-tokens", "58s"),
    ("retry-after-ms", "2200"),
    ("retry-after", "3"),
];
const NO_RETRY: &[(&str, &str)] = &[("x-should-retry", "false")];

pub(super) const ROWS: &[ErrorRow] = &[
    row("invalid_request_error", 400, InvalidRequest,
        error!("Your request is not valid.", r#""invalid_request_error""#, "null", "null")),
    row("unsupported_parameter", 400, InvalidRequest,
        error!("Unsupported parameter: 'max_tokens'.", r#""invalid_request_error""#, r#""max_tokens""#, r#""unsupported_parameter""#)),
    row("unsupported_value", 400, InvalidRequest,
        error!("Unsupported value: 'temperature' does not support 0.2 with this model.", r#""invalid_request_error""#, r#""temperature""#, r#""unsupported_value""#)),
    row("invalid_value", 400, InvalidRequest,
        error!("Invalid value: 'x'.", r#""invalid_request_error""#, r#""messages[0].role""#, r#""invalid_value""#)),
    row("service_tier", 400, InvalidRequest,
        error!("Invalid service_tier argument", r#""invalid_request_error""#, r#""service_tier""#, "null")),
    row("context_length_exceeded", 400, ContextLengthExceeded,
        error!("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", r#""invalid_request_error""#, r#""messages""#, r#""context_length_exceeded""#)),
    row("content_policy_violation", 400, ContentFiltered,
        error!("Your request was rejected by our safety system.", r#""invalid_request_error""#, "null", r#""content_policy_violation""#)),
    row("content_filter", 400, ContentFiltered,
        error!("The prompt was blocked.", r#""invalid_request_error""#, r#""messages""#, r#""content_filter""#)),
    row("invalid_api_key", 401, AuthFailed,
        error!("Incorrect API key provided: sk-fake**1. You can find your API key at https://platform.openai.com/account/api-keys.", r#""invalid_request_error""#, "null", r#""invalid_api_key""#)),
    row("not_a_member", 401, AuthFailed,
        error!("You must be a member of an organization to use the API.", r#""invalid_request_error""#, "null", "null")),
    row("unsupported_country_region_territory", 403, PermissionDenied,
        error!("Country, region, or territory not supported", r#""request_forbidden""#, "null", r#""unsupported_country_region_territory""#)),
    row("model_not_found", 404, ModelNotFound,
        error!("The model `missing` does not exist or you do not have access to it.", r#""invalid_request_error""#, "null", r#""model_not_found""#)),
    row("conflict", 409, Conflict,
        error!("The resource was updated by another request.", r#""conflict_error""#, "null", "null")),
    row("unprocessable", 422, InvalidRequest,
        error!("Unable to process the request.", r#""invalid_request_error""#, "null", "null")),
    row("rate_limit_exceeded", 429, RateLimited,
        error!("Rate limit reached for gpt-x in organization org-1 on requests per min (RPM): Limit 500, Used 500, Requested 1. Please try again in 118ms.", r#""requests""#, "null", r#""rate_limit_exceeded""#))
        .with(REQUESTS),
    row("rate_limit_exceeded.tokens", 429, RateLimited,
        error!("Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2100. Please try again in 2.2s.", r#""tokens""#, "null", r#""rate_limit_exceeded""#))
        .with(TOKENS),
    row("rate_limit_exceeded.too_large", 429, RateLimited,
        error!("Request too large for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000.", r#""tokens""#, "null", r#""rate_limit_exceeded""#))
        .with(NO_RETRY),
    row("slow_down", 429, RateLimited,
        error!("Your traffic rose too fast. Slow down.", r#""rate_limit_error""#, "null", r#""slow_down""#)),
    row("insufficient_quota", 429, QuotaExhausted,
        error!("You exceeded your current quota, please check your plan and billing details.", r#""insufficient_quota""#, "null", r#""insufficient_quota""#)),
    row("insufficient_quota.legacy", 429, QuotaExhausted,
        error!("You ran out of quota.", r#""insufficient_quota""#, "null", "null")),
    row("credit_balance_exhausted", 429, QuotaExhausted,
        error!("Your prepaid credit is used up.", r#""insufficient_quota""#, "null", r#""credit_balance_exhausted""#)),
    row("organization_usage_limit_exceeded", 429, QuotaExhausted,
        error!("Your organization reached its usage limit.", r#""insufficient_quota""#, "null", r#""organization_usage_limit_exceeded""#)),
    row("organization_spend_limit_exceeded", 429, QuotaExhausted,
        error!("Your organization reached its spend limit.", r#""insufficient_quota""#, "null", r#""organization_spend_limit_exceeded""#)),
    row("project_spend_limit_exceeded", 429, QuotaExhausted,
        error!("Your project reached its spend limit.", r#""insufficient_quota""#, "null", r#""project_spend_limit_exceeded""#)),
    row("server_error", 500, ProviderError,
        error!("The server had an error while processing your request.", r#""server_error""#, "null", "null")),
    row("server_is_overloaded", 503, Overloaded,
        error!("Overloaded right now.", r#""service_unavailable_error""#, "null", r#""server_is_overloaded""#)),
    row("server_is_overloaded.200", 200, Overloaded,
        error!("Overloaded right now.", r#""service_unavailable_error""#, "null", r#""server_is_overloaded""#)),
    row("bad_gateway", 502, ProviderError, HTML).with(IS_HTML),
    row("edge_520", 520, ProviderError, HTML).with(IS_HTML),
];
