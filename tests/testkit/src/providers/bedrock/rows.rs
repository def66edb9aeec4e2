//! The errors of Bedrock: the class is in a header, the body has nothing but a message.

use crate::providers::rows::Meaning::{
    AuthFailed, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited, Timeout,
};
use crate::providers::rows::{ErrorRow, row};

/// A row of a class; its name, if it is not the class.
macro_rules! classed {
    ($class:literal, $status:literal, $means:expr, $message:literal) => {
        classed!($class, $class, $status, $means, $message)
    };
    ($name:literal, $class:literal, $status:literal, $means:expr, $message:literal) => {
        row($name, $status, $means, concat!(r#"{"message":""#, $message, r#""}"#)).with(&[
            ("x-amzn-requestid", "00000000-0000-4000-8000-000000000000"),
            (
                "x-amzn-errortype",
                concat!($class, ":http://internal.amazon.com/coral/com.amazon.bedrock/"),
            ),
        ])
    };
}

pub(in crate::providers) const ROWS: &[ErrorRow] = &[
    classed!("ValidationException", 400, InvalidRequest, "The provided request is not valid."),
    classed!(
        "ValidationException.length",
        "ValidationException",
        400,
        ContextLengthExceeded,
        "The model returned the following errors: Input is too long for requested model."
    ),
    classed!(
        "ServiceQuotaExceededException",
        400,
        RateLimited,
        "Your request exceeds the service quota for your account."
    ),
    classed!(
        "UnrecognizedClientException",
        403,
        AuthFailed,
        "The security token included in the request is invalid."
    ),
    classed!(
        "InvalidClientTokenId",
        403,
        AuthFailed,
        "The security token included in the request is invalid."
    ),
    classed!(
        "ExpiredTokenException",
        403,
        AuthFailed,
        "The security token included in the request is expired"
    ),
    classed!(
        "SignatureDoesNotMatch",
        403,
        AuthFailed,
        "The request signature we calculated does not match the signature you provided."
    ),
    classed!(
        "IncompleteSignature",
        400,
        AuthFailed,
        "The request signature does not conform to AWS standards."
    ),
    classed!(
        "AccessDeniedException",
        403,
        PermissionDenied,
        "You don't have access to the model with the specified model ID."
    ),
    classed!(
        "ResourceNotFoundException",
        404,
        ModelNotFound,
        "Could not resolve the foundation model from the provided model identifier."
    ),
    classed!(
        "ValidationException.profile",
        "ValidationException",
        400,
        ModelNotFound,
        "Invocation of model ID missing with on-demand throughput isn't supported. Retry your request with the ID or ARN of an inference profile that contains this model."
    ),
    classed!(
        "FTUFormNotFilled",
        404,
        PermissionDenied,
        "Model use case details have not been submitted for this account."
    ),
    classed!("ModelTimeoutException", 408, Timeout, "The request took too long to process."),
    classed!(
        "ModelErrorException",
        424,
        ProviderError,
        "The request failed due to an error while processing the model."
    ),
    classed!("ModelStreamErrorException", 424, ProviderError, "The model stream failed."),
    classed!(
        "ThrottlingException",
        429,
        RateLimited,
        "Too many requests, please wait before trying again."
    ),
    classed!(
        "ThrottlingException.tokens",
        "ThrottlingException",
        429,
        RateLimited,
        "Too many tokens, please wait before trying again."
    ),
    classed!(
        "ThrottlingException.day",
        "ThrottlingException",
        429,
        QuotaExhausted,
        "Too many tokens per day, please wait before trying again."
    ),
    classed!("ModelNotReadyException", 429, Overloaded, "The model is not ready for inference."),
    classed!(
        "InternalServerException",
        500,
        ProviderError,
        "The system encountered an unexpected error during processing. Try your request again."
    ),
    classed!(
        "ServiceUnavailableException",
        503,
        Overloaded,
        "The service isn't currently available. Try again later."
    ),
    classed!("overloaded", "ServiceUnavailableException", 529, Overloaded, "Overloaded"),
];
