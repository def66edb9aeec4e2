//! The errors of DashScope.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

macro_rules! said {
    ($code:literal, $message:literal) => {
        concat!(
            r#"{"code":""#,
            $code,
            r#"","message":""#,
            $message,
            r#"","request_id":"9b000000-0000-4000-8000-000000000001"}"#
        )
    };
}

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $status:literal, $means:expr, $message:literal) => {
        row($code, $status, $means, said!($code, $message))
    };
}

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    coded!(
        "InvalidParameter",
        400,
        InvalidRequest,
        "<400> InternalError.Algo.InvalidParameter: The parameter is not valid."
    ),
    coded!("invalid_parameter_error", 400, InvalidRequest, "The parameter is not valid."),
    coded!(
        "BadRequest.EmptyInput",
        400,
        InvalidRequest,
        "Required input parameter missing from request."
    ),
    coded!(
        "BadRequest.EmptyParameters",
        400,
        InvalidRequest,
        "Required parameter \\\"parameters\\\" missing from request."
    ),
    coded!(
        "BadRequest.EmptyModel",
        400,
        InvalidRequest,
        "Required parameter \\\"model\\\" missing from request."
    ),
    coded!("InvalidURL", 400, InvalidRequest, "Invalid URL provided in your request."),
    coded!(
        "UnsupportedOperation",
        400,
        InvalidRequest,
        "The operation is unsupported on the referee object."
    ),
    row(
        "InvalidParameter.length",
        400,
        ContextLengthExceeded,
        said!(
            "InvalidParameter",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"
        ),
    ),
    coded!(
        "DataInspectionFailed",
        400,
        ContentFiltered,
        "Input data may contain inappropriate content."
    ),
    row(
        "DataInspectionFailed.output",
        400,
        ContentFiltered,
        said!("DataInspectionFailed", "Output data may contain inappropriate content."),
    ),
    coded!(
        "data_inspection_failed",
        400,
        ContentFiltered,
        "Input data may contain inappropriate content."
    ),
    row(
        "InternalError.inspection",
        400,
        ContentFiltered,
        said!(
            "InternalError",
            "<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content."
        ),
    ),
    coded!(
        "InvalidParameter.DataInspection",
        400,
        ContentFiltered,
        "Unable to download the media resource during the data inspection process."
    ),
    coded!(
        "Arrearage",
        400,
        QuotaExhausted,
        "Access denied, please make sure your account is in good standing."
    ),
    coded!("InvalidApiKey", 401, AuthFailed, "Invalid API-key provided."),
    row("InvalidApiKey.none", 401, AuthFailed, said!("InvalidApiKey", "No API-key provided.")),
    coded!("invalid_api_key", 401, AuthFailed, "Incorrect API key provided."),
    coded!("AccessDenied", 403, PermissionDenied, "Access denied."),
    coded!("access_denied", 403, PermissionDenied, "Access denied."),
    coded!("Model.AccessDenied", 403, PermissionDenied, "Model access denied."),
    coded!(
        "AccessDenied.Unpurchased",
        403,
        PermissionDenied,
        "Access to model denied. Please make sure you are eligible for using the model."
    ),
    coded!("Workspace.AccessDenied", 403, PermissionDenied, "Workspace access denied."),
    coded!(
        "AllocationQuota.FreeTierOnly",
        403,
        QuotaExhausted,
        "The free tier of the model has been exhausted."
    ),
    row(
        "model_not_found",
        404,
        ModelNotFound,
        r#"{"error":{"message":"The model `missing` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
    ),
    coded!("ModelNotFound", 404, ModelNotFound, "Model can not be found."),
    coded!("RequestTimeOut", 408, Timeout, "Request timed out, please try again later."),
    coded!("BadRequest.TooLarge", 413, InvalidRequest, "Payload Too Large"),
    row(
        "InvalidParameter.media",
        415,
        InvalidRequest,
        said!("InvalidParameter", "Unsupported media type."),
    ),
    coded!(
        "Throttling.RateQuota",
        429,
        RateLimited,
        "Requests rate limit exceeded, please try again later."
    ),
    coded!("Throttling", 429, RateLimited, "Requests throttling triggered."),
    coded!("LimitRequests", 429, RateLimited, "You exceeded your current requests list."),
    coded!("limit_requests", 429, RateLimited, "You exceeded your current requests list."),
    coded!("Throttling.BurstRate", 429, RateLimited, "Request rate increased too quickly."),
    coded!("limit_burst_rate", 429, RateLimited, "Request rate increased too quickly."),
    coded!(
        "Throttling.AllocationQuota",
        429,
        RateLimited,
        "Allocated quota exceeded, please increase your quota limit."
    ),
    coded!(
        "insufficient_quota",
        429,
        RateLimited,
        "You exceeded your current quota, please check your plan and billing details."
    ),
    row(
        "Throttling.AllocationQuota.free",
        429,
        QuotaExhausted,
        said!("Throttling.AllocationQuota", "Free allocated quota exceeded."),
    ),
    coded!("PrepaidBillOverdue", 429, QuotaExhausted, "The prepaid bill is overdue."),
    coded!("PostpaidBillOverdue", 429, QuotaExhausted, "The postpaid bill is overdue."),
    coded!("CommodityNotPurchased", 429, QuotaExhausted, "Commodity has not been purchased yet."),
    coded!("BudgetLimitExceeded", 429, QuotaExhausted, "The budget limit is exceeded."),
    coded!(
        "Throttling.ServiceOverloaded",
        429,
        Overloaded,
        "Too many requests are being processed."
    ),
    coded!(
        "InternalError",
        500,
        ProviderError,
        "An internal error has occurred, please try again later."
    ),
    coded!(
        "InternalError.Algo",
        500,
        ProviderError,
        "An internal error has occured during execution."
    ),
    coded!(
        "InternalError.Timeout",
        500,
        ProviderError,
        "An internal timeout error has occured during execution."
    ),
    coded!("ModelUnavailable", 503, Overloaded, "The model is unavailable."),
    coded!("ModelServingError", 503, Overloaded, "The model cannot be served."),
    row(
        "InternalError.200",
        200,
        ProviderError,
        said!("InternalError", "An internal error has occurred, please try again later."),
    ),
];
