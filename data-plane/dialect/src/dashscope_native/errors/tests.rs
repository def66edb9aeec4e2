use std::time::Duration;

use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome::{
    self, ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited, Timeout,
};

use super::ERRORS;
use crate::fault::Level::{self, Account, Key, Nobody, Pair};

/// As DashScope writes its errors: plainly, within the compatible envelope, and as an event under a
/// JSON label. All mean the same.
fn shapes(status: u16, code: &str, message: &str) -> [String; 3] {
    let plain = format!(r#"{{"code":"{code}","message":"{message}","request_id":"9b"}}"#);
    let inner =
        format!(r#"{{"message":"{message}","type":"{code}","param":null,"code":"{code}"}}"#);
    [
        format!("id:1\nevent:error\n:HTTP_STATUS/{status}\ndata:{plain}\n\n"),
        plain,
        format!(r#"{{"error":{inner},"request_id":"9b"}}"#),
    ]
}

/// Status, code, message; outcome, level, wait in seconds.
type Case = (u16, &'static str, &'static str, Outcome, Level, Option<u64>);

const CASES: &[Case] = &[
    (400, "InvalidParameter", "Temperature must be in [0, 2)", InvalidRequest, Nobody, None),
    (400, "invalid_parameter_error", "The tool name is empty", InvalidRequest, Nobody, None),
    (400, "BadRequest.EmptyInput", "Input is missing", InvalidRequest, Nobody, None),
    (400, "BadRequest.EmptyParameters", "Parameters are missing", InvalidRequest, Nobody, None),
    (400, "BadRequest.EmptyModel", "Model is missing", InvalidRequest, Nobody, None),
    (400, "InvalidURL", "The URL cannot be fetched", InvalidRequest, Nobody, None),
    (400, "UnsupportedOperation", "No such operation", InvalidRequest, Nobody, None),
    (
        400,
        "InvalidParameter",
        "Range of input length should be [1, 6000]",
        ContextTooLong,
        Nobody,
        None,
    ),
    (
        400,
        "InternalError",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 6000]",
        ContextTooLong,
        Nobody,
        None,
    ),
    (
        400,
        "InternalError",
        "<400> InternalError.Algo.InvalidParameter: The role is unknown",
        InvalidRequest,
        Nobody,
        None,
    ),
    (
        400,
        "InternalError",
        "<400> InternalError.Algo.DataInspectionFailed: Unsuitable input",
        ContentFiltered,
        Nobody,
        None,
    ),
    (400, "DataInspectionFailed", "Input data may be unsuitable", ContentFiltered, Nobody, None),
    (400, "data_inspection_failed", "Output data may be unsuitable", ContentFiltered, Nobody, None),
    (
        400,
        "InvalidParameter.DataInspection",
        "The media cannot be inspected",
        ContentFiltered,
        Nobody,
        None,
    ),
    (400, "Arrearage", "Access denied, the account is overdue", QuotaExhausted, Account, None),
    (401, "InvalidApiKey", "No API-key provided", KeyRefused, Key, None),
    (401, "invalid_api_key", "Incorrect API key", KeyRefused, Key, None),
    (401, "", "invalid access token or token expired", KeyRefused, Key, None),
    (403, "AccessDenied", "No right to this", PermissionDenied, Pair, None),
    (403, "access_denied", "No right to this", PermissionDenied, Pair, None),
    (403, "Model.AccessDenied", "No right to this model", PermissionDenied, Pair, None),
    (403, "AccessDenied.Unpurchased", "Not activated", PermissionDenied, Pair, None),
    (403, "Workspace.AccessDenied", "No right to the workspace", PermissionDenied, Pair, None),
    (403, "AllocationQuota.FreeTierOnly", "The free tier is used up", QuotaExhausted, Pair, None),
    (404, "ModelNotFound", "No such model", ModelMissing, Pair, None),
    (404, "model_not_found", "The model 'm' does not exist", ModelMissing, Pair, None),
    (408, "RequestTimeOut", "The request took too long", Timeout, Nobody, None),
    (413, "BadRequest.TooLarge", "The body is too large", InvalidRequest, Nobody, None),
    (415, "InvalidParameter", "The media type is unknown", InvalidRequest, Nobody, None),
    (429, "Throttling", "Requests are throttled", RateLimited, Pair, Some(3)),
    (429, "Throttling.RateQuota", "Requests rate limit exceeded", RateLimited, Pair, Some(3)),
    (429, "LimitRequests", "You exceeded the requests limit", RateLimited, Pair, Some(3)),
    (429, "limit_requests", "You exceeded the requests limit", RateLimited, Pair, Some(3)),
    (429, "Throttling.BurstRate", "Request rate increased too quickly", RateLimited, Pair, Some(3)),
    (429, "limit_burst_rate", "Request rate increased too quickly", RateLimited, Pair, Some(3)),
    (429, "Throttling.AllocationQuota", "Allocated quota exceeded", RateLimited, Pair, Some(30)),
    (429, "insufficient_quota", "You exceeded your current quota", RateLimited, Pair, Some(30)),
    (
        429,
        "Throttling.AllocationQuota",
        "Free allocated quota exceeded.",
        QuotaExhausted,
        Pair,
        None,
    ),
    (429, "insufficient_quota", "Free allocated quota exceeded.", QuotaExhausted, Pair, None),
    (429, "PrepaidBillOverdue", "The bill is overdue", QuotaExhausted, Account, None),
    (429, "PostpaidBillOverdue", "The bill is overdue", QuotaExhausted, Account, None),
    (429, "CommodityNotPurchased", "Nothing was bought", QuotaExhausted, Account, None),
    (429, "BudgetLimitExceeded", "The budget is used up", QuotaExhausted, Account, None),
    (
        429,
        "Throttling.ServiceOverloaded",
        "Too many requests for the model",
        Overloaded,
        Nobody,
        None,
    ),
    (500, "InternalError", "An internal error occurred", ProviderError, Nobody, None),
    (500, "InternalError.Algo", "The inference failed", ProviderError, Nobody, None),
    (500, "InternalError.Timeout", "The inference took too long", ProviderError, Nobody, None),
    (
        500,
        "InternalError.Algo",
        "<500> InternalError.Algo.DataInspectionFailed: Unsuitable",
        ContentFiltered,
        Nobody,
        None,
    ),
    (503, "ModelUnavailable", "The model is not available", Overloaded, Nobody, None),
    (503, "ModelServingError", "The model cannot be served", Overloaded, Nobody, None),
];

#[test]
fn c2_every_documented_error_is_classified() {
    for (status, code, message, outcome, level, wait_s) in CASES {
        for body in shapes(*status, code, message) {
            check(*status, &body, *outcome, *level, *wait_s);
        }
    }
}

#[track_caller]
fn check(status: u16, body: &str, outcome: Outcome, level: Level, wait_s: Option<u64>) {
    let status = StatusCode::from_u16(status).unwrap();
    let fault = ERRORS.refusal(status, &HeaderMap::new(), body.as_bytes());
    let seen = (fault.outcome, fault.level, fault.wait);
    assert_eq!(seen, (outcome, level, wait_s.map(Duration::from_secs)), "{status} {body}");
}

#[test]
fn c2_trap_1_insufficient_quota_is_a_throttle_of_a_minute() {
    let body = r#"{"error":{"message":"You exceeded your current quota, see the plan","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    check(429, body, RateLimited, Pair, Some(30));
}

#[test]
fn c2_trap_2_no_money_is_a_400_in_an_event_that_is_labelled_json() {
    let [event, ..] = shapes(400, "Arrearage", "Access denied, account not in good standing");
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let fault = ERRORS.refusal(StatusCode::BAD_REQUEST, &headers, event.as_bytes());
    assert_eq!((fault.outcome, fault.level), (QuotaExhausted, Account));
    assert_eq!(fault.code.as_deref(), Some("Arrearage"));
    let message = "Access denied, account not in good standing";
    assert_eq!(fault.message.as_deref(), Some(message));
}

#[test]
fn a_body_may_say_msg() {
    check(429, r#"{"code":"Throttling.RateQuota","msg":"slow"}"#, RateLimited, Pair, Some(3));
}
