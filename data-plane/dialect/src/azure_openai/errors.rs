//! What Azure's errors mean.
//!
//! They come in three envelopes: OpenAI's, often without `type` and `param` and with a status for a
//! code; the same with the filter's verdict as an inner error; and a flat one of the gateway before
//! the service. Limits are those of a deployment, whichever of the resource's keys asks.
//!
//! Sources: Microsoft's reference and quota pages for Azure OpenAI.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use crate::{
    errors::{Errors, Resets, Row, any, code},
    fault::Level::{Account, Nobody},
};

pub(super) const ERRORS: Errors = Errors { rows: ROWS, resets: Resets::Seconds };

const ROWS: &[Row] = &[
    code("content_filter").means(ContentFiltered),
    code("ResponsibleAIPolicyViolation").means(ContentFiltered),
    code("content_policy_violation").means(ContentFiltered),
    code("context_length_exceeded").means(ContextTooLong),
    any().at(400).saying(&["maximum context length"]).means(ContextTooLong),
    code("OperationNotSupported").means(InvalidRequest),
    any().at(401).means(KeyRefused),
    // Where the request comes from is refused, whichever key it has.
    any().at(403).saying(&["virtual network"]).means(PermissionDenied).of(Nobody),
    any().at(403).saying(&["firewall"]).means(PermissionDenied).of(Nobody),
    any().at(403).saying(&["public access"]).means(PermissionDenied).of(Nobody),
    any().at(403).saying(&["public network access"]).means(PermissionDenied).of(Nobody),
    // The resource is under suspicion of abuse: a person must look at it.
    any().at(403).saying(&["temporarily blocked"]).means(QuotaExhausted).of(Account).rest_s(3600),
    any().at(403).saying(&["call volume"]).means(QuotaExhausted).rest_s(3600),
    any().at(403).saying(&["bandwidth quota"]).means(QuotaExhausted).rest_s(3600),
    // One that was just made needs some minutes.
    code("DeploymentNotFound").means(ModelMissing).rest_s(300),
    code("model_not_found").means(ModelMissing),
    // The path or the version of the API is wrong, which no caller can have done.
    code("404").at(404).means(ProviderError),
    any().at(404).saying(&["resource not found"]).means(ProviderError),
    code("Timeout").means(Timeout),
    code("insufficient_quota").means(QuotaExhausted).of(Account),
    // The region is full. Another has room, and waiting helps less.
    any().at(429).saying(&["high demand"]).means(Overloaded),
    // A limit below the one that was bought, which may last for hours.
    any().at(429).saying(&["temporarily", "rate limit"]).means(RateLimited).rest_s(900),
    any().at(429).means(RateLimited).rest_s(1),
    code("rate_limit_exceeded").means(RateLimited).rest_s(1),
    code("InternalServerError").means(ProviderError),
    code("ServiceUnavailable").means(Overloaded),
    code("server_error").means(ProviderError),
];

#[cfg(test)]
mod tests;
