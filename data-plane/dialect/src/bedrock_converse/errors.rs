//! What Bedrock's errors mean. The class stands in a header, or in the body's `__type`; an exception
//! within a stream is called like it. No header tells a wait.
//!
//! Quotas are those of an account, a region and a model, so that another model of the same key may
//! still be used.
//!
//! Sources: the user guide's list of API error codes; the API reference of `Converse` and
//! `ConverseStream`.

use sluicegate_model::Outcome::{
    ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use crate::{
    errors::{Errors, Resets, Row, any, code},
    fault::Level::Pair,
};

pub(super) static ERRORS: Errors = Errors { rows: ROWS, resets: Resets::None };

const VALIDATION: &str = "ValidationException";

const ROWS: &[Row] = &[
    code(VALIDATION).saying(&["input is too long"]).means(ContextTooLong),
    code(VALIDATION).saying(&["prompt is too long"]).means(ContextTooLong),
    code(VALIDATION).saying(&["too many input tokens"]).means(ContextTooLong),
    code(VALIDATION).saying(&["maximum context length"]).means(ContextTooLong),
    // Only by a profile for inference.
    code(VALIDATION).saying(&["on-demand throughput"]).means(ModelMissing),
    code(VALIDATION).saying(&["model identifier is invalid"]).means(ModelMissing),
    code(VALIDATION).means(InvalidRequest),
    code("ServiceQuotaExceededException").means(QuotaExhausted).of(Pair).rest_s(300),
    code("IncompleteSignature").means(KeyRefused),
    code("IncompleteSignatureException").means(KeyRefused),
    code("InvalidClientTokenId").means(KeyRefused),
    code("ExpiredToken").means(KeyRefused),
    code("ExpiredTokenException").means(KeyRefused),
    code("UnrecognizedClientException").means(KeyRefused),
    code("SignatureDoesNotMatch").means(KeyRefused),
    code("InvalidSignatureException").means(KeyRefused),
    code("MissingAuthenticationToken").means(KeyRefused),
    code("MissingAuthenticationTokenException").means(KeyRefused),
    // Keys of Bedrock's own that are wrong have the status of those that may not.
    any().at(403).saying(&["authentication failed"]).means(KeyRefused),
    any().at(403).saying(&["invalid api key"]).means(KeyRefused),
    code("AccessDeniedException").means(PermissionDenied),
    code("FTUFormNotFilled").means(PermissionDenied),
    any().at(404).saying(&["use case details"]).means(PermissionDenied),
    code("ResourceNotFoundException").means(ModelMissing),
    code("ModelTimeoutException").means(Timeout),
    code("ModelErrorException").means(ProviderError),
    code("ModelStreamErrorException").means(ProviderError),
    code("ThrottlingException").saying(&["per day"]).means(QuotaExhausted).of(Pair).rest_s(3600),
    code("ThrottlingException").means(RateLimited),
    code("TooManyRequestsException").means(RateLimited),
    code("ModelNotReadyException").means(Overloaded),
    code("InternalServerException").means(ProviderError),
    code("InternalFailure").means(ProviderError),
    code("ServiceUnavailableException").means(Overloaded),
    code("ServiceUnavailable").means(Overloaded),
    any().at(424).means(ProviderError),
];

#[cfg(test)]
mod tests;
