//! Alibaba's Model Studio in its compatible mode, which serves Qwen. Codes of its native API shine
//! through. `insufficient_quota` is a throttle of one minute here; an empty purse is `Arrearage`, with
//! status 400. Limits are the account's, for each model.
//!
//! Sources: Model Studio's error-code, rate-limit and compatibility pages.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use super::{Rule, Variant};
use crate::{
    errors::{Row, any, code, prefix},
    fault::Level::{Account, Pair},
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    members: &[
        ("max_completion_tokens", Rule::Rename("max_tokens")),
        // [0, 2): 2 itself is refused.
        ("temperature", Rule::Clamp(0.0, 1.99)),
        ("top_p", Rule::Clamp(0.000_001, 0.999_999)),
        ("frequency_penalty", Rule::Drop),
        ("user", Rule::Drop),
        ("metadata", Rule::Drop),
        ("logit_bias", Rule::Drop),
        ("store", Rule::Drop),
        ("service_tier", Rule::Drop),
    ],
    ..Variant::new("qwen", ROWS)
};

/// The rows of both of Model Studio's APIs.
pub(crate) const ROWS: &[Row] = &[
    any().saying(&["Range of input length should be"]).means(ContextTooLong),
    code("InternalError.Algo.DataInspectionFailed").means(ContentFiltered),
    code("InternalError.Algo.InvalidParameter").means(InvalidRequest),
    code("DataInspectionFailed").means(ContentFiltered),
    code("data_inspection_failed").means(ContentFiltered),
    code("InvalidParameter.DataInspection").means(ContentFiltered),
    code("Arrearage").means(QuotaExhausted).of(Account),
    prefix("InvalidParameter").means(InvalidRequest),
    code("invalid_parameter_error").means(InvalidRequest),
    prefix("BadRequest").means(InvalidRequest),
    code("InvalidURL").means(InvalidRequest),
    code("UnsupportedOperation").means(InvalidRequest),
    code("InvalidApiKey").means(KeyRefused),
    code("invalid_api_key").means(KeyRefused),
    any().at(401).means(KeyRefused),
    code("AllocationQuota.FreeTierOnly").means(QuotaExhausted).of(Pair),
    prefix("AccessDenied").means(PermissionDenied),
    code("access_denied").means(PermissionDenied),
    code("Model.AccessDenied").means(PermissionDenied),
    code("Workspace.AccessDenied").means(PermissionDenied),
    code("ModelNotFound").means(ModelMissing),
    code("model_not_found").means(ModelMissing),
    code("RequestTimeOut").means(Timeout),
    any().at(429).saying(&["Free allocated quota exceeded"]).means(QuotaExhausted).of(Pair),
    code("Throttling.ServiceOverloaded").means(Overloaded),
    code("Throttling.AllocationQuota").means(RateLimited).of(Pair).rest_s(30),
    code("insufficient_quota").means(RateLimited).of(Pair).rest_s(30),
    code("Throttling.RateQuota").means(RateLimited).rest_s(3),
    code("LimitRequests").means(RateLimited).rest_s(3),
    code("limit_requests").means(RateLimited).rest_s(3),
    code("Throttling.BurstRate").means(RateLimited).rest_s(3),
    code("limit_burst_rate").means(RateLimited).rest_s(3),
    code("PrepaidBillOverdue").means(QuotaExhausted).of(Account),
    code("PostpaidBillOverdue").means(QuotaExhausted).of(Account),
    code("CommodityNotPurchased").means(QuotaExhausted).of(Account),
    code("BudgetLimitExceeded").means(QuotaExhausted).of(Account),
    prefix("Throttling").means(RateLimited).rest_s(3),
    code("ModelUnavailable").means(Overloaded),
    code("ModelServingError").means(Overloaded),
    prefix("InternalError").means(ProviderError),
];
