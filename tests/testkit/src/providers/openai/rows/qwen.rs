//! The errors of DashScope's compatible mode, where codes of the native format leak through.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($code:literal, $kind:literal, $message:literal) => {
        concat!(
            r#"{"error":{"message":""#,
            $message,
            r#"","type":""#,
            $kind,
            r#"","param":null,"code":""#,
            $code,
            r#""},"request_id":"9b000000-0000-4000-8000-000000000001"}"#
        )
    };
}

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $status:literal, $means:expr, $kind:literal, $message:literal) => {
        row($code, $status, $means, said!($code, $kind, $message))
    };
}

pub(super) const ROWS: &[ErrorRow] = &[
    coded!(
        "invalid_parameter_error",
        400,
        InvalidRequest,
        "invalid_request_error",
        "<400> InternalError.Algo.InvalidParameter: The parameter is not valid."
    ),
    row(
        "invalid_parameter_error.length",
        400,
        ContextLengthExceeded,
        said!(
            "invalid_parameter_error",
            "invalid_request_error",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"
        ),
    ),
    coded!(
        "data_inspection_failed",
        400,
        ContentFiltered,
        "data_inspection_failed",
        "<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content."
    ),
    coded!(
        "Arrearage",
        400,
        QuotaExhausted,
        "Arrearage",
        "Access denied, please make sure your account is in good standing."
    ),
    coded!(
        "invalid_api_key",
        401,
        AuthFailed,
        "invalid_request_error",
        "Incorrect API key provided."
    ),
    coded!("access_denied", 403, PermissionDenied, "access_denied", "Access denied."),
    coded!(
        "Model.AccessDenied",
        403,
        PermissionDenied,
        "invalid_request_error",
        "Model access denied."
    ),
    coded!(
        "AllocationQuota.FreeTierOnly",
        403,
        QuotaExhausted,
        "AllocationQuota.FreeTierOnly",
        "The free tier of the model has been exhausted."
    ),
    coded!(
        "model_not_found",
        404,
        ModelNotFound,
        "invalid_request_error",
        "The model `missing` does not exist or you do not have access to it."
    ),
    coded!(
        "RequestTimeOut",
        408,
        Timeout,
        "RequestTimeOut",
        "Request timed out, please try again later."
    ),
    coded!("BadRequest.TooLarge", 413, InvalidRequest, "BadRequest.TooLarge", "Payload Too Large"),
    coded!(
        "limit_requests",
        429,
        RateLimited,
        "limit_requests",
        "You exceeded your current requests list."
    ),
    coded!(
        "limit_burst_rate",
        429,
        RateLimited,
        "limit_burst_rate",
        "Request rate increased too quickly."
    ),
    coded!(
        "insufficient_quota",
        429,
        RateLimited,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details."
    ),
    row(
        "insufficient_quota.free",
        429,
        QuotaExhausted,
        said!("insufficient_quota", "insufficient_quota", "Free allocated quota exceeded."),
    ),
    coded!(
        "PrepaidBillOverdue",
        429,
        QuotaExhausted,
        "PrepaidBillOverdue",
        "The prepaid bill is overdue."
    ),
    coded!(
        "Throttling.ServiceOverloaded",
        429,
        Overloaded,
        "Throttling.ServiceOverloaded",
        "Too many requests are being processed."
    ),
    coded!(
        "internal_error",
        500,
        ProviderError,
        "internal_error",
        "An internal error has occurred, please try again later."
    ),
    coded!("ModelUnavailable", 503, Overloaded, "ModelUnavailable", "The model cannot be reached."),
];
