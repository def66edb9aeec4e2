use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_model::Outcome;

use super::*;
use crate::fault::Level::{Key, Pair};

/// One row for each documented error: status, headers, body; outcome, level, wait in ms.
#[track_caller]
fn check(
    status: u16,
    headers: &[(&'static str, &str)],
    body: &str,
    outcome: Outcome,
    level: crate::Level,
    wait_ms: Option<u128>,
) {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let status = StatusCode::from_u16(status).unwrap();
    let fault = ERRORS.refusal(status, &headers, body.as_bytes());
    let seen = (fault.outcome, fault.level, fault.wait.map(|wait| wait.as_millis()));
    assert_eq!(seen, (outcome, level, wait_ms), "{body}");
}

const FILTERED: &str = r#"{"error":{"message":"Your words went against the content rules.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":true,"detected":true},"violence":{"filtered":true,"severity":"medium"}}}}}"#;

#[test]
fn c2_requests_that_are_at_fault() {
    check(400, &[], FILTERED, ContentFiltered, Nobody, None);
    let inner_only = FILTERED.replace("\"content_filter\"", "\"BadRequest\"");
    check(400, &[], &inner_only, ContentFiltered, Nobody, None);
    check(
        400,
        &[],
        r#"{"error":{"message":"The window holds 8192 tokens, you sent 9000.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ContextTooLong,
        Nobody,
        None,
    );
    check(
        400,
        &[],
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"BadRequest"}}"#,
        ContextTooLong,
        Nobody,
        None,
    );
    for code in ["OperationNotSupported", "BadRequest", "unsupported_parameter"] {
        let body = format!(r#"{{"error":{{"code":"{code}","message":"It cannot do that."}}}}"#);
        check(400, &[], &body, InvalidRequest, Nobody, None);
    }
}

#[test]
fn c2_keys_and_places_that_are_at_fault() {
    let key = r#"{"error":{"code":"401","message":"Denied: the subscription key is wrong, or meant for another endpoint."}}"#;
    check(401, &[], key, KeyRefused, Key, None);
    let word = r#"{"error":{"code":"Unauthorized","message":"No token."}}"#;
    check(401, &[], word, KeyRefused, Key, None);
    let kind =
        r#"{"error":{"code":"PermissionDenied","message":"The principal lacks the action."}}"#;
    check(401, &[], kind, KeyRefused, Key, None);
    // The flat form of the gateway before the service.
    let flat = r#"{"statusCode":401,"message":"Access denied: a subscription key is missing."}"#;
    check(401, &[], flat, KeyRefused, Key, None);
    let network =
        r#"{"error":{"code":"403","message":"Denied by Virtual Network and Firewall rules."}}"#;
    check(403, &[], network, PermissionDenied, Nobody, None);
    let public =
        r#"{"error":{"code":"403","message":"Public access is off. Use a private endpoint."}}"#;
    check(403, &[], public, PermissionDenied, Nobody, None);
    let other = r#"{"error":{"code":"403","message":"Not for you."}}"#;
    check(403, &[], other, PermissionDenied, Pair, None);
    let blocked =
        r#"{"error":{"code":"403","message":"This resource is temporarily blocked for misuse."}}"#;
    check(403, &[], blocked, QuotaExhausted, Account, Some(3_600_000));
    let calls = r#"{"statusCode":403,"message":"The call volume quota is used up. It comes back in 01:00:05."}"#;
    check(403, &[], calls, QuotaExhausted, Key, Some(3_605_000));
    let bytes = r#"{"statusCode":403,"message":"The bandwidth quota is used up."}"#;
    check(403, &[], bytes, QuotaExhausted, Key, Some(3_600_000));
    check(403, &[("retry-after", "900")], bytes, QuotaExhausted, Key, Some(900_000));
    let deployment = r#"{"error":{"code":"DeploymentNotFound","message":"This resource has no such deployment (yet)."}}"#;
    check(404, &[], deployment, ModelMissing, Pair, Some(300_000));
    let path = r#"{"error":{"code":"404","message":"Resource not found"}}"#;
    check(404, &[], path, ProviderError, Nobody, None);
    let flat = r#"{"statusCode":404,"message":"Resource not found"}"#;
    check(404, &[], flat, ProviderError, Nobody, None);
}

#[test]
fn c2_limits_and_failures() {
    let tokens = r#"{"error":{"code":"429","message":"The chat operation under this API version has gone over the token rate limit of your tier. Please retry after 37 seconds."}}"#;
    check(429, &[], tokens, RateLimited, Pair, Some(37_000));
    let both = [("retry-after", "37"), ("retry-after-ms", "36412")];
    check(429, &both, tokens, RateLimited, Pair, Some(36_412));
    let bare = r#"{"error":{"code":"429","message":"Over the call rate limit."}}"#;
    let spent = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "12")];
    check(429, &spent, bare, RateLimited, Pair, Some(12_000));
    let demand = r#"{"error":{"code":"429","message":"The system sees high demand right now."}}"#;
    check(429, &[], demand, Overloaded, Nobody, None);
    let adjusted =
        r#"{"error":{"code":"429","message":"Your rate limit was temporarily adjusted."}}"#;
    check(429, &[], adjusted, RateLimited, Pair, Some(900_000));
    let quota = r#"{"error":{"code":"insufficient_quota","message":"The subscription's quota is used up."}}"#;
    check(429, &[], quota, QuotaExhausted, Account, None);
    check(408, &[], r#"{"error":{"code":"Timeout","message":"Too slow."}}"#, Timeout, Nobody, None);
    let broken = r#"{"error":{"code":"InternalServerError","message":"Broken."}}"#;
    check(500, &[], broken, ProviderError, Nobody, None);
    let away = r#"{"error":{"code":"ServiceUnavailable","message":"Away."}}"#;
    check(503, &[], away, Overloaded, Nobody, None);
    check(503, &[], "<html>busy</html>", Overloaded, Nobody, None);
}

/// Zeros and negative numbers are seen where there is no wait at all; none of them may become one
/// of no time.
#[test]
fn c2_waits_that_are_none_become_a_second() {
    let body = r#"{"error":{"code":"429","message":"Over the call rate limit."}}"#;
    for headers in [
        [("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "0")],
        [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "0")],
        [("retry-after", "0"), ("retry-after-ms", "0")],
        [("retry-after", "-3"), ("retry-after-ms", "-1")],
    ] {
        check(429, &headers, body, RateLimited, Pair, Some(1_000));
    }
}

#[test]
fn c3_errors_under_200_are_errors() {
    let fault = ERRORS.in_band(br#"{"error":{"code":"429","message":"Over the limit."}}"#).unwrap();
    assert_eq!(fault.outcome, RateLimited);
    let fault = ERRORS.in_band(FILTERED.as_bytes()).unwrap();
    assert_eq!(fault.outcome, ContentFiltered);
    let answer = br#"{"choices":[{"message":{"content":"A"},"content_filter_results":{"error":{"code":"content_filter_error","message":"not run"}}}]}"#;
    assert_eq!(ERRORS.in_band(answer), None);
}
