//! Baidu Qianfan's second API, which serves ERNIE. 401 is also said of a key that may not use one
//! model or member. Misspelt codes are spelt as they come over the wire.
//!
//! Sources: Qianfan's error-code and rate-limit pages; its Python SDK.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::errors::{Row, any, code};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    members: &[
        ("n", Rule::Only(&["1"], "it gives one answer")),
        ("logit_bias", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
    ],
    ..Variant::new("qianfan-v2", ROWS)
};

const ROWS: &[Row] = &[
    code("characters_too_long").means(ContextTooLong),
    code("tokens_too_long").means(ContextTooLong),
    code("malformed_json").means(InvalidRequest),
    code("invalid_messages").means(InvalidRequest),
    code("invalid_argument").means(InvalidRequest),
    code("no_parameter_permission").means(PermissionDenied),
    code("invalid_model").at(401).means(ModelMissing),
    code("invalid_model").means(InvalidRequest),
    code("invalid_appid").means(KeyRefused),
    code("invalid_iam_token").means(KeyRefused),
    any().kind("unsafe_request").means(ContentFiltered),
    code("system_unsafe").means(ContentFiltered),
    code("user_setting_unsafe").means(ContentFiltered),
    code("functions_unsafe").means(ContentFiltered),
    code("method_not_supported").means(ProviderError),
    code("cluster_rate_limit_exceeded").means(Overloaded),
    code("cluster_rpm_rate_limit_exceeded").means(Overloaded),
    code("cluster_tpm_rate_limit_exceeded").means(Overloaded),
    code("rpm_rate_limit_exceeded").means(RateLimited).rest_s(20),
    code("tpm_rate_limit_exceeded").means(RateLimited).rest_s(20),
    code("input_tpm_rate_limit_exceeded").means(RateLimited).rest_s(20),
    code("output_tpm_rate_limit_exceeded").means(RateLimited).rest_s(20),
    code("preemptible_rate_limit_exceeded").means(RateLimited).rest_s(20),
    code("user_rate_limit_exceeded").means(RateLimited).rest_s(1),
    code("Offline_batch_reasoning_refused").means(RateLimited).rest_s(20),
    code("BILLING_INSUFFICIENT_BALANCE").means(QuotaExhausted),
    code("QUOTA_USER_DAILY_FREE").means(QuotaExhausted),
    code("internal_error").means(ProviderError),
    code("dispatch_internal_error").means(ProviderError),
    code("image_genration_interal_error").means(ProviderError),
    code("336501").means(RateLimited).rest_s(20),
    code("336502").means(RateLimited).rest_s(20),
    any().kind("access_denied").means(PermissionDenied),
    any().kind("rate_limit_exceeded").means(RateLimited).rest_s(20),
    any().kind("invalid_request_error").at(400).means(InvalidRequest),
];
