//! Volcengine Ark, which serves Doubao. Its codes are dotted: `429` with `…Exceeded` may be a rate, a
//! concurrency, a spent quota or a pause that the owner set.
//!
//! Sources: Volcengine Ark's error-code table; the types and retry rules of its Python SDK.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use super::{Rule, Variant};
use crate::{
    errors::{Row, any, code, prefix},
    fault::Level::{Account, Pair},
    wait::Until,
};

pub(super) const VARIANT: Variant = Variant {
    developer: false,
    members: &[
        ("seed", Rule::Drop),
        ("metadata", Rule::Drop),
        ("store", Rule::Drop),
        ("verbosity", Rule::Drop),
    ],
    ..Variant::new("doubao-ark", ROWS)
};

const ROWS: &[Row] = &[
    code("MissingParameter").means(InvalidRequest),
    code("OutofContextError").means(ContextTooLong),
    code("InvalidEndpoint.ClosedEndpoint").means(ModelMissing),
    prefix("InvalidParameter").means(InvalidRequest),
    prefix("SensitiveContentDetected").means(ContentFiltered),
    prefix("InputTextSensitiveContentDetected").means(ContentFiltered),
    prefix("OutputTextSensitiveContentDetected").means(ContentFiltered),
    prefix("InputImageSensitiveContentDetected").means(ContentFiltered),
    prefix("OutputImageSensitiveContentDetected").means(ContentFiltered),
    prefix("InputVideoSensitiveContentDetected").means(ContentFiltered),
    prefix("OutputVideoSensitiveContentDetected").means(ContentFiltered),
    code("InputTextRiskDetection").means(ContentFiltered),
    code("OutputTextRiskDetection").means(ContentFiltered),
    code("InputImageRiskDetection").means(ContentFiltered),
    // The check itself failed.
    code("ContentSecurityDetectionError").means(ProviderError),
    code("AuthenticationError").means(KeyRefused),
    code("InvalidAccountStatus").means(KeyRefused).of(Account),
    any().at(402).means(QuotaExhausted).of(Account),
    code("AccountOverdueError").means(QuotaExhausted).of(Account),
    code("OperationDenied.ServiceOverdue").means(QuotaExhausted).of(Account),
    code("AccessDenied").means(PermissionDenied),
    prefix("OperationDenied").means(PermissionDenied),
    prefix("InvalidEndpointOrModel").means(ModelMissing),
    code("ModelNotOpen").means(ModelMissing),
    code("UnsupportedModel").means(ModelMissing),
    prefix("NotFound").means(ModelMissing),
    code("RateLimitExceeded.FoundationModelTPDExceeded")
        .means(QuotaExhausted)
        .of(Pair)
        .until(Until::Midnight("Asia/Shanghai")),
    prefix("RateLimitExceeded").means(RateLimited).rest_s(20),
    code("ModelAccountRpmRateLimitExceeded").means(RateLimited).rest_s(20),
    code("ModelAccountTpmRateLimitExceeded").means(RateLimited).rest_s(20),
    code("ModelAccountIpmRateLimitExceeded").means(RateLimited).rest_s(20),
    code("ModelAccountFlexTpmRateLimitExceeded").means(RateLimited).rest_s(20),
    code("APIAccountRpmRateLimitExceeded").means(RateLimited).of(Account).rest_s(20),
    code("AccountRateLimitExceeded").means(RateLimited).of(Account).rest_s(20),
    code("InflightBatchsizeExceeded").means(RateLimited).rest_s(2),
    code("RequestBurstTooFast").means(RateLimited).rest_s(3),
    code("ServerOverloaded").means(Overloaded),
    // A bound that the owner set: the model is paused until it is lifted.
    code("SetLimitExceeded").means(QuotaExhausted).of(Pair),
    code("InferenceQuotaExceeded").means(QuotaExhausted),
    prefix("QuotaExceeded").means(QuotaExhausted),
    code("InternalServiceError").means(ProviderError),
];
