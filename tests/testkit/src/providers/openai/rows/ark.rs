//! The errors of Ark: dotted codes.

use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, Meaning, row};

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $status:literal, $means:expr, $kind:literal, $message:literal) => {
        row(
            $code,
            $status,
            $means,
            concat!(
                r#"{"error":{"code":""#,
                $code,
                r#"","message":""#,
                $message,
                r#" Request id: 02179000000000000000","param":"","type":""#,
                $kind,
                r#""}}"#
            ),
        )
    };
}

macro_rules! limited {
    ($code:literal) => {
        coded!($code, 429, RateLimited, "TooManyRequests", "The rate limit is reached.")
    };
}

macro_rules! filtered {
    ($code:literal) => {
        coded!(
            $code,
            400,
            ContentFiltered,
            "BadRequest",
            "The request failed because it may contain sensitive information."
        )
    };
}

const SOON: &[(&str, &str)] = &[("retry-after", "3")];
const DENIED: Meaning = PermissionDenied;

pub(super) const ROWS: &[ErrorRow] = &[
    coded!(
        "InvalidParameter",
        400,
        InvalidRequest,
        "BadRequest",
        "A parameter specified in the request is not valid."
    ),
    coded!(
        "MissingParameter",
        400,
        InvalidRequest,
        "BadRequest",
        "The request is missing a parameter."
    ),
    coded!(
        "InvalidParameter.UnsupportedModel",
        400,
        InvalidRequest,
        "BadRequest",
        "The model does not support this."
    ),
    coded!(
        "InvalidParameter.OversizedImage",
        400,
        InvalidRequest,
        "BadRequest",
        "The image is too large."
    ),
    coded!(
        "InvalidParameter.InvalidImageDetail",
        400,
        InvalidRequest,
        "BadRequest",
        "The image detail is not valid."
    ),
    coded!(
        "InvalidEndpoint.ClosedEndpoint",
        400,
        ModelNotFound,
        "BadRequest",
        "The endpoint is closed."
    ),
    coded!(
        "OutofContextError",
        400,
        ContextLengthExceeded,
        "BadRequest",
        "The request is longer than the context."
    ),
    filtered!("SensitiveContentDetected"),
    filtered!("SensitiveContentDetected.SevereViolation"),
    filtered!("SensitiveContentDetected.Violence"),
    filtered!("InputTextSensitiveContentDetected"),
    filtered!("InputTextSensitiveContentDetected.PolicyViolation"),
    filtered!("OutputTextSensitiveContentDetected"),
    filtered!("OutputTextSensitiveContentDetected.PolicyViolation"),
    filtered!("InputImageSensitiveContentDetected"),
    filtered!("OutputImageSensitiveContentDetected"),
    filtered!("InputVideoSensitiveContentDetected"),
    filtered!("InputTextRiskDetection"),
    filtered!("OutputTextRiskDetection"),
    filtered!("InputImageRiskDetection"),
    filtered!("ContentSecurityDetectionError"),
    coded!(
        "AuthenticationError",
        401,
        AuthFailed,
        "Unauthorized",
        "The API key or AK/SK in the request is missing or invalid."
    ),
    coded!(
        "InvalidAccountStatus",
        401,
        AuthFailed,
        "Unauthorized",
        "The account is not in good order."
    ),
    coded!(
        "AccountOverdueError",
        403,
        QuotaExhausted,
        "Forbidden",
        "The request failed because your account has an overdue balance."
    ),
    coded!(
        "OperationDenied.ServiceOverdue",
        403,
        QuotaExhausted,
        "Forbidden",
        "The service is overdue."
    ),
    coded!(
        "AccessDenied",
        403,
        DENIED,
        "Forbidden",
        "You do not have access to the requested resource."
    ),
    coded!(
        "OperationDenied.PermissionDenied",
        403,
        DENIED,
        "Forbidden",
        "The operation is not permitted."
    ),
    coded!(
        "OperationDenied.ServiceNotOpen",
        403,
        DENIED,
        "Forbidden",
        "The model service is not open."
    ),
    coded!(
        "OperationDenied.InvalidState",
        403,
        DENIED,
        "Forbidden",
        "The resource is in the wrong state."
    ),
    coded!(
        "OperationDenied.UnsupportedPhase",
        403,
        DENIED,
        "Forbidden",
        "The phase is not supported."
    ),
    coded!("OperationDenied.FileQuotaExceeded", 403, DENIED, "Forbidden", "Too many files."),
    coded!(
        "InvalidEndpointOrModel.NotFound",
        404,
        ModelNotFound,
        "NotFound",
        "The model or endpoint missing does not exist or you do not have access to it."
    ),
    coded!(
        "InvalidEndpointOrModel.ModelIDAccessDisabled",
        404,
        ModelNotFound,
        "NotFound",
        "Access by model id is disabled."
    ),
    coded!(
        "ModelNotOpen",
        404,
        ModelNotFound,
        "NotFound",
        "Your account has not activated the model."
    ),
    coded!("NotFound.Resource", 404, ModelNotFound, "NotFound", "It does not exist."),
    coded!("UnsupportedModel", 404, ModelNotFound, "NotFound", "The plan does not have the model."),
    limited!("RateLimitExceeded.EndpointRPMExceeded"),
    limited!("RateLimitExceeded.EndpointTPMExceeded"),
    limited!("RateLimitExceeded.EndpointFlexTPMExceeded"),
    limited!("RateLimitExceeded.FoundationModelRPMExceeded"),
    limited!("RateLimitExceeded.FoundationModelTPMExceeded"),
    limited!("RateLimitExceeded.FoundationModelTPDExceeded"),
    limited!("ModelAccountRpmRateLimitExceeded"),
    limited!("ModelAccountTpmRateLimitExceeded"),
    limited!("ModelAccountIpmRateLimitExceeded"),
    limited!("ModelAccountFlexTpmRateLimitExceeded"),
    limited!("APIAccountRpmRateLimitExceeded"),
    limited!("AccountRateLimitExceeded"),
    limited!("InflightBatchsizeExceeded"),
    limited!("RequestBurstTooFast").with(SOON),
    coded!("ServerOverloaded", 429, Overloaded, "TooManyRequests", "The service is overloaded."),
    coded!(
        "SetLimitExceeded",
        429,
        QuotaExhausted,
        "TooManyRequests",
        "Your account reached the set inference limit for this model, and the model service has been paused."
    ),
    coded!(
        "QuotaExceeded",
        429,
        QuotaExhausted,
        "TooManyRequests",
        "Your account has used up the free trial."
    ),
    coded!(
        "InferenceQuotaExceeded",
        429,
        QuotaExhausted,
        "TooManyRequests",
        "The inference quota is used up."
    ),
    coded!(
        "QuotaExceeded.AgentPlanQuotaExceeded",
        429,
        QuotaExhausted,
        "TooManyRequests",
        "The plan's quota is used up. It resets at 2026-09-01 18:00:00."
    ),
    coded!(
        "InternalServiceError",
        500,
        ProviderError,
        "InternalServerError",
        "The service encountered an unexpected internal error."
    ),
];
