//! One row for each error that Google documents.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use sluicegate_model::Outcome::{self, *};

use super::super::GeminiGenerate;
use crate::{
    dialect::Dialect,
    fault::{
        Fault,
        Level::{self, Account, Key, Nobody, Pair},
    },
};

/// How long a row's failure rests.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Unsaid,
    Ms(u64),
    /// To midnight in California: a day at most, and an hour for the end of summer time.
    Midnight,
}

fn refusal(status: u16, body: &str) -> Fault {
    let status = StatusCode::from_u16(status).unwrap();
    GeminiGenerate.refusal(status, &HeaderMap::new(), body.as_bytes())
}

fn error(code: u16, status: &str, message: &str, details: Value) -> String {
    let error = json!({ "code": code, "message": message, "status": status, "details": details });
    json!({ "error": error }).to_string()
}

fn reason(reason: &str) -> Value {
    json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com" }])
}

/// Violated quotas, and a short time to wait.
fn quotas(ids: &[&str]) -> Value {
    let violations: Vec<_> = ids
        .iter()
        .map(|id| json!({ "quotaMetric": "generate_content_requests", "quotaId": id, "quotaValue": "10" }))
        .collect();
    json!([
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations },
        { "@type": "type.googleapis.com/google.rpc.Help", "links": [] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "11.5s" },
    ])
}

#[test]
fn c2_every_documented_error() {
    let none = || json!([]);
    let plain = |code, status: &str, message: &str, outcome, level| {
        check(code, &error(code, status, message, none()), outcome, level, Wait::Unsaid);
    };
    plain(400, "INVALID_ARGUMENT", "Unknown name \"x\" at 'contents'", InvalidRequest, Nobody);
    plain(400, "FAILED_PRECONDITION", "Not offered in this country.", PermissionDenied, Account);
    plain(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum allowed (1048576).",
        ContextTooLong,
        Nobody,
    );
    plain(402, "RESOURCE_EXHAUSTED", "The prepaid credit is used up.", QuotaExhausted, Account);
    plain(401, "UNAUTHENTICATED", "The token is too old.", KeyRefused, Key);
    plain(403, "PERMISSION_DENIED", "Not for this project.", PermissionDenied, Pair);
    plain(403, "PERMISSION_DENIED", "This key was reported as leaked.", KeyRefused, Key);
    plain(404, "NOT_FOUND", "models/none is not found", ModelMissing, Pair);
    plain(413, "", "Payload too large", InvalidRequest, Nobody);
    plain(499, "CANCELLED", "The operation was cancelled.", ProviderError, Nobody);
    plain(500, "INTERNAL", "Something broke.", ProviderError, Nobody);
    plain(503, "UNAVAILABLE", "The model has too much to do.", Overloaded, Nobody);
    plain(504, "DEADLINE_EXCEEDED", "It took too long.", Timeout, Nobody);
    let detailed = |code, status: &str, why: &str, outcome, level| {
        check(code, &error(code, status, "m", reason(why)), outcome, level, Wait::Unsaid);
    };
    detailed(400, "INVALID_ARGUMENT", "API_KEY_EXPIRED", KeyRefused, Key);
    detailed(403, "PERMISSION_DENIED", "SERVICE_DISABLED", PermissionDenied, Account);
    detailed(503, "UNAVAILABLE", "MODEL_CAPACITY_EXHAUSTED", Overloaded, Nobody);
    detailed(429, "RESOURCE_EXHAUSTED", "MODEL_CAPACITY_EXHAUSTED", Overloaded, Nobody);
}

#[test]
fn c2_every_documented_429() {
    const MINUTE: &str = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
    const DAY: &str = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
    let exhausted = |message: &str, details, outcome, level, wait| {
        check(429, &error(429, "RESOURCE_EXHAUSTED", message, details), outcome, level, wait);
    };
    exhausted("The quota is passed.", quotas(&[MINUTE]), RateLimited, Pair, Wait::Ms(11_500));
    exhausted("The quota is passed.", quotas(&[DAY]), QuotaExhausted, Pair, Wait::Midnight);
    exhausted("The quota is passed.", quotas(&[MINUTE, DAY]), QuotaExhausted, Pair, Wait::Midnight);
    exhausted(
        "The quota is passed.",
        quotas(&["RequestsPerDayPerProject"]),
        QuotaExhausted,
        Account,
        Wait::Midnight,
    );
    exhausted(
        "The quota is passed, limit: 0, model: m",
        quotas(&[DAY, MINUTE]),
        PermissionDenied,
        Pair,
        Wait::Ms(86_400_000),
    );
    exhausted(
        "Resource exhausted. Please try again later.",
        json!(null),
        Overloaded,
        Nobody,
        Wait::Ms(5000),
    );
    exhausted(
        "The spend of ten minutes is passed.",
        json!(null),
        QuotaExhausted,
        Account,
        Wait::Ms(600_000),
    );
    exhausted("Please retry in 11.665902715s.", json!(null), RateLimited, Pair, Wait::Ms(11_665));
    exhausted("Too fast.", json!(null), RateLimited, Pair, Wait::Unsaid);
}

#[test]
fn c2_every_documented_error_of_the_newer_dialect() {
    let check = |code, name: &str, outcome, level, wait| {
        let body = json!({ "error": { "code": name, "message": "m" } }).to_string();
        check(code, &body, outcome, level, wait);
    };
    check(400, "invalid_request", InvalidRequest, Nobody, Wait::Unsaid);
    check(429, "quota_exceeded", QuotaExhausted, Account, Wait::Midnight);
    check(429, "rate_limit_exceeded", RateLimited, Pair, Wait::Unsaid);
    check(429, "too_many_requests", RateLimited, Pair, Wait::Unsaid);
    check(402, "payment_required", QuotaExhausted, Account, Wait::Unsaid);
}

#[test]
fn c2_errors_in_every_wrapping() {
    let inner =
        error(429, "RESOURCE_EXHAUSTED", "Too fast.", quotas(&["RequestsPerDayPerProject"]));
    let nested =
        json!({ "error": { "message": inner, "code": 429, "status": "Too Many Requests" } });
    for body in [format!("[{inner}]"), format!("[\n{inner}\r\n]"), nested.to_string()] {
        check(429, &body, QuotaExhausted, Account, Wait::Midnight);
    }
    check(502, "<html>bad gateway</html>", ProviderError, Nobody, Wait::Unsaid);
}

#[test]
fn c2_trap_6_a_bad_key_is_a_400() {
    let body = error(400, "INVALID_ARGUMENT", "m", reason("API_KEY_INVALID"));
    check(400, &body, KeyRefused, Key, Wait::Unsaid);
    let bare = error(400, "INVALID_ARGUMENT", "API key not valid. Give one that is.", json!(null));
    check(400, &bare, KeyRefused, Key, Wait::Unsaid);
}

#[track_caller]
fn check(status: u16, body: &str, outcome: Outcome, level: Level, wait: Wait) {
    let fault = refusal(status, body);
    assert_eq!((fault.outcome, fault.level), (outcome, level), "{body}");
    assert_eq!(fault.status, Some(status));
    match wait {
        Wait::Unsaid => assert_eq!(fault.wait, None, "{body}"),
        Wait::Ms(ms) => assert_eq!(fault.wait.unwrap().as_millis(), ms.into(), "{body}"),
        // At midnight itself the short wait is all that is left, but the quota begins anew, too.
        Wait::Midnight => {
            let wait = fault.wait.unwrap();
            assert!(wait <= Duration::from_secs(25 * 3600), "{body}");
            assert_ne!(wait, Duration::from_millis(11_500), "{body}");
        }
    }
}
