use http::{HeaderMap, HeaderValue, StatusCode};
use sluicegate_model::Outcome;

use super::*;
use crate::fault::Level::{self, Key, Nobody};

/// One row for each documented error: status, class, message; outcome, level, wait in seconds. The
/// class is where the provider puts it, in the header or in the body.
#[track_caller]
fn check(
    status: u16,
    class: &str,
    message: &str,
    outcome: Outcome,
    level: Level,
    wait_s: Option<u64>,
) {
    let status = StatusCode::from_u16(status).unwrap();
    let seen = |headers: &HeaderMap, body: &str| {
        let fault = ERRORS.refusal(status, headers, body.as_bytes());
        assert_eq!(fault.message.as_deref(), Some(message), "{body}");
        if !class.is_empty() {
            assert_eq!(fault.code.as_deref(), Some(class), "{body}");
        }
        (fault.outcome, fault.level, fault.wait.map(|wait| wait.as_secs()))
    };
    let mut headers = HeaderMap::new();
    if !class.is_empty() {
        let value = format!("{class}:http://internal.amazon.test/coral/");
        headers.insert("x-amzn-errortype", HeaderValue::from_str(&value).unwrap());
    }
    let expected = (outcome, level, wait_s);
    assert_eq!(seen(&headers, &format!(r#"{{"message":"{message}"}}"#)), expected, "header");
    assert_eq!(seen(&headers, &format!(r#"{{"Message":"{message}"}}"#)), expected, "Message");
    if !class.is_empty() {
        let body = format!(r#"{{"__type":"com.amazon.bedrock#{class}","message":"{message}"}}"#);
        assert_eq!(seen(&HeaderMap::new(), &body), expected, "body");
    }
}

#[test]
fn c2_requests_that_are_at_fault() {
    let validation = |message, outcome, level| {
        check(400, "ValidationException", message, outcome, level, None);
    };
    validation("The field at messages.0 is blank.", InvalidRequest, Nobody);
    validation("This input is too long for the model that you asked.", ContextTooLong, Nobody);
    validation("Too many input tokens: 9000 of 8192.", ContextTooLong, Nobody);
    validation("The prompt is too long: 9000 of 8192.", ContextTooLong, Nobody);
    validation("Past the model's maximum context length.", ContextTooLong, Nobody);
    validation("With this id on-demand throughput isn't offered.", ModelMissing, Pair);
    validation("Your model identifier is invalid.", ModelMissing, Pair);
    let quota = "ServiceQuotaExceededException";
    check(400, quota, "Over your account's quota.", QuotaExhausted, Pair, Some(300));
}

#[test]
fn c2_keys_and_places_that_are_at_fault() {
    for (status, class) in [
        (400, "IncompleteSignature"),
        (400, "IncompleteSignatureException"),
        (403, "InvalidClientTokenId"),
        (403, "ExpiredToken"),
        (403, "ExpiredTokenException"),
        (403, "UnrecognizedClientException"),
        (403, "SignatureDoesNotMatch"),
        (403, "InvalidSignatureException"),
        (403, "MissingAuthenticationToken"),
        (403, "MissingAuthenticationTokenException"),
    ] {
        check(status, class, "Who are you?", KeyRefused, Key, None);
    }
    let wrong = "Authentication failed: is this key a valid one?";
    check(403, "AccessDeniedException", wrong, KeyRefused, Key, None);
    check(403, "", wrong, KeyRefused, Key, None);
    check(403, "", "Invalid API key format.", KeyRefused, Key, None);
    let denied = "You have no access to this model.";
    check(403, "AccessDeniedException", denied, PermissionDenied, Pair, None);
    check(404, "ResourceNotFoundException", "No such model.", ModelMissing, Pair, None);
    check(404, "FTUFormNotFilled", "Fill in the form first.", PermissionDenied, Pair, None);
    let form = "No use case details were handed in.";
    check(404, "ResourceNotFoundException", form, PermissionDenied, Pair, None);
}

#[test]
fn c2_limits_and_failures() {
    let throttled = "ThrottlingException";
    check(429, throttled, "Too many requests, wait.", RateLimited, Pair, None);
    let day = "Too many tokens per day, wait.";
    check(429, throttled, day, QuotaExhausted, Pair, Some(3600));
    check(429, "TooManyRequestsException", "Slow down.", RateLimited, Pair, None);
    check(429, "ModelNotReadyException", "It is being loaded.", Overloaded, Nobody, None);
    check(408, "ModelTimeoutException", "It took too long.", Timeout, Nobody, None);
    check(424, "ModelErrorException", "The model broke.", ProviderError, Nobody, None);
    check(424, "", "The model broke.", ProviderError, Nobody, None);
    check(500, "InternalServerException", "It broke.", ProviderError, Nobody, None);
    check(500, "InternalFailure", "It broke.", ProviderError, Nobody, None);
    check(503, "ServiceUnavailableException", "It is away.", Overloaded, Nobody, None);
    check(503, "ServiceUnavailable", "It is away.", Overloaded, Nobody, None);
    check(529, "", "Too much to do.", Overloaded, Nobody, None);
}

/// The same classes within a stream, where no status says anything.
#[test]
fn c3_exceptions_in_a_stream_mean_what_they_mean_elsewhere() {
    for (class, outcome) in [
        ("ThrottlingException", RateLimited),
        ("ModelStreamErrorException", ProviderError),
        ("InternalServerException", ProviderError),
        ("ServiceUnavailableException", Overloaded),
        ("ValidationException", InvalidRequest),
        ("ModelTimeoutException", Timeout),
        ("SomethingNewException", ProviderError),
    ] {
        let fault = ERRORS.named_event(class, br#"{"message":"m","originalStatusCode":500}"#);
        assert_eq!(fault.outcome, outcome, "{class}");
        assert_eq!((fault.code.as_deref(), fault.message.as_deref()), (Some(class), Some("m")));
    }
    let fault = ERRORS.named_event("ThrottlingException", br#"{"message":"Tokens per day."}"#);
    assert_eq!(fault.outcome, QuotaExhausted);
}
