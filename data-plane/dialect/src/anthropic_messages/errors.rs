//! Anthropic's errors: by type, and by the message where one type stands for several things. In
//! streams the type is all there is, because their status is 200.
//!
//! Sources: Anthropic's error and rate-limit pages; the exceptions of its Python SDK.

use sluicegate_model::Outcome::{
    ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use crate::{
    errors::{Errors, Resets, Row, any, code},
    fault::Level::{Account, Nobody},
    wait::Until,
};

pub(super) static ERRORS: Errors = Errors { rows: ROWS, resets: Resets::Anthropic };

const ROWS: &[Row] = &[
    // A prompt of its own too long, and one that leaves no room for what `max_tokens` promises.
    any().kind(INVALID).saying(&["prompt is too long"]).means(ContextTooLong),
    any().kind(INVALID).saying(&["input length", "max_tokens", "context"]).means(ContextTooLong),
    // A limit that the account set itself; the message has the day on which it ends.
    any()
        .kind(INVALID)
        .saying(&["reached your", "api usage limits"])
        .means(QuotaExhausted)
        .of(Account)
        .until(Until::NextMonth),
    any().kind(INVALID).saying(&["credit balance is too low"]).means(QuotaExhausted).of(Account),
    code(INVALID).means(InvalidRequest),
    // A browser's request, whichever key it has.
    any().kind("authentication_error").saying(&["cors"]).means(PermissionDenied).of(Nobody),
    code("authentication_error").means(KeyRefused),
    code("billing_error").means(QuotaExhausted).of(Account),
    code("permission_error").means(PermissionDenied),
    code("not_found_error").means(ModelMissing),
    code("conflict_error").means(ProviderError),
    code("request_too_large").means(InvalidRequest),
    // The account's spending for the month, which no `retry-after` goes with.
    code("enforced_spend_limit_reached").means(QuotaExhausted).of(Account).until(Until::NextMonth),
    // A plan's hours; `retry-after` has the rest of them.
    any().kind(RATE).saying(&["usage limit"]).means(QuotaExhausted).of(Account),
    code(RATE).means(RateLimited),
    code("api_error").means(ProviderError),
    code("timeout_error").means(Timeout),
    code("overloaded_error").means(Overloaded),
    any().at(503).means(ProviderError),
];

const INVALID: &str = "invalid_request_error";
const RATE: &str = "rate_limit_error";
