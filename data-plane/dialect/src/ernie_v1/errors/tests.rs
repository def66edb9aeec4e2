use std::time::Duration;

use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome;

use super::*;
use crate::fault::Level::{self, Key, Nobody, Pair};

/// Code and message; outcome, level, wait in seconds.
type Case = (u32, &'static str, Outcome, Level, Option<u64>);

const CASES: &[Case] = &[
    (1, "Unknown error", ProviderError, Nobody, None),
    (2, "Service temporarily unavailable", Overloaded, Nobody, None),
    (3, "Unsupported openapi method", ModelMissing, Pair, None),
    (4, "Open api request limit reached", RateLimited, Pair, Some(1)),
    (6, "No permission to access data", PermissionDenied, Pair, None),
    (13, "Get service token failed", KeyRefused, Key, None),
    (14, "IAM certification failed", KeyRefused, Key, None),
    (15, "App does not exist", KeyRefused, Key, None),
    (18, "Open api qps request limit reached", RateLimited, Pair, Some(1)),
    (19, "Open api total request limit reached", QuotaExhausted, Key, None),
    (100, "Invalid parameter", KeyRefused, Key, None),
    (110, "Access token invalid or no longer valid", KeyRefused, Key, None),
    (111, "Access token expired", KeyRefused, Key, None),
    (336_000, "Internal error", ProviderError, Nobody, None),
    (336_001, "Invalid argument", InvalidRequest, Nobody, None),
    (336_002, "Invalid JSON", InvalidRequest, Nobody, None),
    (336_003, "The messages must alternate", InvalidRequest, Nobody, None),
    (336_004, "No permission", PermissionDenied, Pair, None),
    (336_005, "The name of the API is wrong", InvalidRequest, Nobody, None),
    (336_006, "The messages are wrong", InvalidRequest, Nobody, None),
    (336_006, "The message is too long", ContextTooLong, Nobody, None),
    (336_007, "The prompt is wrong", InvalidRequest, Nobody, None),
    (336_007, "The prompt is too long", ContextTooLong, Nobody, None),
    (336_100, "The model is busy, try again later", Overloaded, Nobody, None),
    (336_101, "Only POST is taken", InvalidRequest, Nobody, None),
    (336_103, "The prompt is wrong", InvalidRequest, Nobody, None),
    (336_103, "The prompt is too long", ContextTooLong, Nobody, None),
    (336_104, "The system text is malformed", InvalidRequest, Nobody, None),
    (336_104, "The system text is unsafe", ContentFiltered, Nobody, None),
    (336_104, "The system text is sensitive", ContentFiltered, Nobody, None),
    (336_105, "The user setting is malformed", InvalidRequest, Nobody, None),
    (336_105, "The user setting is unsafe", ContentFiltered, Nobody, None),
    (336_105, "The user setting is sensitive", ContentFiltered, Nobody, None),
    (336_501, "Rate limit reached for RPM", RateLimited, Pair, Some(20)),
    (336_502, "Rate limit reached for TPM", RateLimited, Pair, Some(20)),
];

#[test]
fn c2_every_documented_error_is_classified_in_both_spellings() {
    for (code, message, outcome, level, wait_s) in CASES {
        for body in [
            format!(r#"{{"error_code":{code},"error_msg":"{message}","id":"as-1"}}"#),
            format!(r#"{{"code":{code},"msg":"{message}"}}"#),
        ] {
            let fault = ERRORS.in_band(body.as_bytes()).unwrap();
            let wait = wait_s.map(Duration::from_secs);
            assert_eq!(
                (fault.outcome, fault.level, fault.wait),
                (*outcome, *level, wait),
                "{body}"
            );
            assert_eq!(fault.code, Some(code.to_string()));
        }
    }
}

#[test]
fn what_a_day_has_comes_again_at_midnight_in_china() {
    let body = br#"{"error_code":17,"error_msg":"Open api daily request limit reached"}"#;
    let fault = ERRORS.in_band(body).unwrap();
    assert_eq!((fault.outcome, fault.level), (QuotaExhausted, Key));
    let wait = fault.wait.unwrap();
    assert!(wait <= Duration::from_secs(24 * 3600), "{wait:?}");
}

#[test]
fn the_token_server_refuses_with_a_text() {
    let body = br#"{"error":"invalid_client","error_description":"unknown client id"}"#;
    let fault = ERRORS.refusal(StatusCode::UNAUTHORIZED, &HeaderMap::new(), body);
    assert_eq!((fault.outcome, fault.level), (KeyRefused, Key));
    assert_eq!(fault.message.as_deref(), Some("unknown client id"));
}
