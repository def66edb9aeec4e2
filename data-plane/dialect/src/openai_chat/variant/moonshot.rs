//! Moonshot, which serves Kimi. The type decides; codes are mostly absent. Limits are the
//! organisation's.
//!
//! Sources: Kimi's rate-limit, error-code and troubleshooting pages.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    call::Endpoint,
    errors::{Row, any, code},
    fault::Level::{Account, Pair},
    wait::Until,
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    lacks: &[Endpoint::Embeddings],
    members: &[
        ("temperature", Rule::Clamp(0.0, 1.0)),
        ("logprobs", Rule::Only(&["false"], "it gives no log-probabilities")),
        ("logit_bias", Rule::Drop),
        ("seed", Rule::Drop),
        ("user", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
    ],
    ..Variant::new("moonshot", ROWS)
};

const ROWS: &[Row] = &[
    any().at(400).saying(&["exceeded model token limit"]).means(ContextTooLong),
    code("content_filter").means(ContentFiltered),
    code("invalid_authentication_error").means(KeyRefused),
    code("incorrect_api_key_error").means(KeyRefused),
    any().at(402).means(QuotaExhausted),
    any().at(403).saying(&["insufficient balance"]).means(QuotaExhausted).of(Account),
    any().at(403).saying(&["usage limit"]).means(QuotaExhausted).of(Account),
    code("permission_denied_error").means(PermissionDenied),
    code("resource_not_found_error").means(ModelMissing),
    any()
        .kind("rate_limit_reached_error")
        .saying(&["TPD"])
        .means(QuotaExhausted)
        .of(Pair)
        .until(Until::Midnight("Asia/Shanghai")),
    code("rate_limit_reached_error").means(RateLimited).of(Account).rest_s(1),
    code("exceeded_current_quota_error").means(QuotaExhausted).of(Account),
    code("engine_overloaded_error").means(Overloaded),
    any().at(429).saying(&["usage limit"]).means(QuotaExhausted).of(Account),
    code("server_error").means(ProviderError),
    code("unexpected_output").means(ProviderError),
    code("invalid_request_error").means(InvalidRequest),
];
