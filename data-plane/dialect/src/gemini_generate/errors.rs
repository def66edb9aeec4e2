//! Google's errors: a status in words, and details that say more. A bad key is a 400; a quota that is
//! used up for the day looks like one that is used up for the minute, but for its name.
//!
//! Sources: Google's troubleshooting and rate-limit pages; google.rpc's error details.

use sluicegate_model::Outcome::{
    ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded, PermissionDenied,
    ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use crate::{
    errors::{Errors, Resets, Row, any, code},
    fault::Level::{Account, Pair},
    wait::Until,
};

pub(super) static ERRORS: Errors = Errors { rows: ROWS, resets: Resets::None };

/// Daily quotas begin anew at midnight there.
const MIDNIGHT: Until = Until::Midnight("America/Los_Angeles");
const DAY_S: u64 = 24 * 3600;

const ROWS: &[Row] = &[
    code("API_KEY_INVALID").means(KeyRefused),
    code("API_KEY_EXPIRED").means(KeyRefused),
    any().kind(INVALID).saying(&["api key not valid"]).means(KeyRefused),
    any().kind(INVALID).saying(&["api key expired"]).means(KeyRefused),
    any().kind(INVALID).saying(&["token count", "exceeds the maximum"]).means(ContextTooLong),
    code(INVALID).means(InvalidRequest),
    // The country, or a project without billing.
    code("FAILED_PRECONDITION").means(PermissionDenied).of(Account),
    code("UNAUTHENTICATED").means(KeyRefused),
    // Prepaid money is used up.
    code("402").means(QuotaExhausted).of(Account),
    code("payment_required").means(QuotaExhausted).of(Account),
    code("SERVICE_DISABLED").means(PermissionDenied).of(Account),
    any().kind("PERMISSION_DENIED").saying(&["leaked"]).means(KeyRefused),
    code("PERMISSION_DENIED").means(PermissionDenied),
    code("NOT_FOUND").means(ModelMissing),
    code("MODEL_CAPACITY_EXHAUSTED").means(Overloaded),
    // A model that the project's tier has none of. The short wait that comes along is another quota's.
    any().kind(EXHAUSTED).saying(&["limit: 0"]).means(PermissionDenied).of(Pair).rest_s(DAY_S),
    // Where a minute's and a day's quota are both named, the day's decides.
    any()
        .kind(EXHAUSTED)
        .detail("PerDayPerProjectPerModel")
        .means(QuotaExhausted)
        .of(Pair)
        .until(MIDNIGHT),
    any().kind(EXHAUSTED).detail("PerDay").means(QuotaExhausted).of(Account).until(MIDNIGHT),
    // Spending within ten minutes.
    any().kind(EXHAUSTED).saying(&["spend"]).means(QuotaExhausted).of(Account).rest_s(600),
    any().kind(EXHAUSTED).detail("PerMinute").means(RateLimited).rest_s(60),
    // The pool that everyone shares; no quota is named.
    any()
        .kind(EXHAUSTED)
        .saying(&["resource exhausted", "try again later"])
        .means(Overloaded)
        .rest_s(5),
    code(EXHAUSTED).means(RateLimited),
    // The same in the newer dialect's words.
    code("quota_exceeded").means(QuotaExhausted).of(Account).until(MIDNIGHT),
    code("rate_limit_exceeded").means(RateLimited),
    code("too_many_requests").means(RateLimited),
    code("invalid_request").means(InvalidRequest),
    // Somebody between the gateway and the model hung up.
    code("CANCELLED").means(ProviderError),
    code("INTERNAL").means(ProviderError),
    code("UNAVAILABLE").means(Overloaded),
    code("DEADLINE_EXCEEDED").means(Timeout),
];

const INVALID: &str = "INVALID_ARGUMENT";
const EXHAUSTED: &str = "RESOURCE_EXHAUSTED";
