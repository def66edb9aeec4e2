//! Errors of OpenAI-compatible servers: finding them in a body, and what each code means.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use sluicegate_model::Outcome;

use crate::fault::{Fault, Level};

/// Longest text of a body without JSON that is kept for operators, in bytes.
const MAX_PLAIN: usize = 512;

/// What an error body says, in whatever envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) message: Option<String>,
    /// Code or, failing that, type; numbers as their digits.
    pub(super) code: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) param: Option<String>,
}

/// Codes and types, exactly as they are spelt. The first row that matches decides; a row without a
/// status matches any.
///
/// Sources: OpenAI's error-code guide and its published API description; vLLM's and SGLang's
/// `entrypoints/openai`.
#[rustfmt::skip]
const TABLE: &[(Option<u16>, &str, Outcome)] = &[
    (None,      "context_length_exceeded",             Outcome::ContextTooLong),
    (None,      "content_filter",                      Outcome::ContentFiltered),
    (None,      "content_policy_violation",            Outcome::ContentFiltered),
    (None,      "invalid_api_key",                     Outcome::KeyRefused),
    (None,      "insufficient_quota",                  Outcome::QuotaExhausted),
    (None,      "credit_balance_exhausted",            Outcome::QuotaExhausted),
    (None,      "organization_usage_limit_exceeded",   Outcome::QuotaExhausted),
    (None,      "organization_spend_limit_exceeded",   Outcome::QuotaExhausted),
    (None,      "project_spend_limit_exceeded",        Outcome::QuotaExhausted),
    (None,      "model_not_found",                     Outcome::ModelMissing),
    (Some(404), "NotFoundError",                       Outcome::ModelMissing),
    (None,      "rate_limit_exceeded",                 Outcome::RateLimited),
    (None,      "slow_down",                           Outcome::RateLimited),
    (None,      "rate_limit_error",                    Outcome::RateLimited),
    (None,      "server_is_overloaded",                Outcome::Overloaded),
    (None,      "service_unavailable_error",           Outcome::Overloaded),
    (None,      "overloaded_error",                    Outcome::Overloaded),
    (Some(200), "InternalServerError",                 Outcome::ProviderError),
    (Some(200), "server_error",                        Outcome::ProviderError),
    (Some(200), "invalid_request_error",               Outcome::InvalidRequest),
    (Some(200), "BadRequestError",                     Outcome::InvalidRequest),
];

/// Words that mean a prompt too long for the model, where no code says so: vLLM's own messages.
const CONTEXT_WORDS: [&str; 2] = ["maximum context length", "longer than the maximum model length"];

/// Understands an answer with another status than 2xx.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
    let stated =
        extract(body).unwrap_or_else(|| Stated { message: plain(body), ..Stated::default() });
    let wait = crate::wait::wait(headers, stated.message.as_deref(), wall_clock());
    let mut fault = understand(status.as_u16(), stated);
    fault.status = Some(status.as_u16());
    fault.wait = wait;
    fault
}

/// Understands an error that came with status 200, in a body or in a stream.
pub(super) fn in_band(error: &[u8]) -> Fault {
    let stated = extract(error).unwrap_or_default();
    let wait = crate::wait::wait(&HeaderMap::new(), stated.message.as_deref(), wall_clock());
    let mut fault = understand(200, stated);
    fault.wait = wait;
    fault
}

/// HTTP dates in headers are the one thing here that needs the time of day.
#[expect(clippy::disallowed_methods, reason = "Retry-After may be an HTTP date")]
fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn understand(status: u16, stated: Stated) -> Fault {
    let words = stated.message.as_deref().unwrap_or_default();
    let listed = |word: Option<&str>| {
        let word = word?;
        let row =
            TABLE.iter().find(|(at, code, _)| *code == word && at.is_none_or(|at| at == status))?;
        Some(row.2)
    };
    // A code that is a status, as vLLM's and many aggregators' are.
    let inner = stated
        .code
        .as_deref()
        .and_then(|code| code.parse().ok())
        .filter(|code| (400..600).contains(code) && status < 400);
    let too_long = || {
        (status < 500 && CONTEXT_WORDS.iter().any(|known| words.contains(known)))
            .then_some(Outcome::ContextTooLong)
    };
    // What says most comes first: the code, words that stand for one, an inner status, the type.
    let outcome = listed(stated.code.as_deref())
        .or_else(too_long)
        .or_else(|| inner.map(by_status))
        .or_else(|| listed(stated.kind.as_deref()))
        .unwrap_or_else(|| by_status(if status < 400 { 500 } else { status }));
    Fault {
        outcome,
        status: None,
        message: stated.message,
        code: stated.code.or(stated.kind),
        param: stated.param,
        wait: None,
        level: Level::of(outcome),
    }
}

/// What a status means when nothing says more.
fn by_status(status: u16) -> Outcome {
    match status {
        401 => Outcome::KeyRefused,
        402 => Outcome::QuotaExhausted,
        403 => Outcome::PermissionDenied,
        404 | 410 => Outcome::ModelMissing,
        408 | 504 | 524 => Outcome::Timeout,
        // Between the gateway and the provider, not the caller's: the method, a proxy, a hang-up.
        405 | 407 | 499 => Outcome::ProviderError,
        425 | 429 => Outcome::RateLimited,
        503 | 529 => Outcome::Overloaded,
        400..=499 => Outcome::InvalidRequest,
        _ => Outcome::ProviderError,
    }
}

/// Finds the error in a body: `error` as an object or a string, then the flat envelopes.
pub(super) fn extract(body: &[u8]) -> Option<Stated> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let object = match value {
        Value::Object(object) => object,
        // Some gateways wrap the object into a list.
        Value::Array(items) => match items.into_iter().next()? {
            Value::Object(object) => object,
            _ => return None,
        },
        Value::String(message) => {
            return Some(Stated { message: Some(message), ..Stated::default() });
        }
        _ => return None,
    };
    match object.get("error") {
        Some(Value::Object(error)) => return Some(stated(error)),
        Some(Value::String(message)) => {
            return Some(Stated { message: Some(message.clone()), ..stated(&object) });
        }
        _ => {}
    }
    if let Some(detail) = object.get("detail") {
        return Some(Stated { message: Some(detail_text(detail)), ..stated(&object) });
    }
    let flat = stated(&object);
    let answers = object.contains_key("choices") || object.contains_key("data");
    let says = flat.message.is_some() || flat.code.is_some();
    (says_error(&object) || (!answers && says)).then_some(flat)
}

/// The same under status 200, where a flat object is an error only if it says so: by its type or by
/// a code. Some servers send notes such as `{"type":"ping","message":"..."}`.
pub(super) fn extract_in_band(body: &[u8]) -> Option<Stated> {
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else { return None };
    let found = extract(body)?;
    (says_error(&object) || found.code.is_some() || object.contains_key("error")).then_some(found)
}

fn says_error(object: &Map<String, Value>) -> bool {
    ["object", "type"].iter().any(|name| object.get(*name).and_then(Value::as_str) == Some("error"))
}

fn stated(object: &Map<String, Value>) -> Stated {
    let text = |names: &[&str]| names.iter().find_map(|name| as_text(object.get(*name)?));
    Stated {
        message: text(&["message", "msg", "error_msg", "error_message"]),
        code: text(&["code", "error_code", "status_code"]),
        kind: text(&["type"]),
        param: text(&["param"]),
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// FastAPI's `detail`: text, or a list of faults.
fn detail_text(detail: &Value) -> String {
    match detail {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .filter_map(|item| item.get("msg").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    }
}

/// What a body that is no JSON says: its text when it is text, else what it is. Pages and broken
/// JSON are not repeated: they may hold anything, the prompt included.
fn plain(body: &[u8]) -> Option<String> {
    let body = body.trim_ascii();
    match body.first()? {
        b'<' => Some("an HTML page".to_owned()),
        b'{' | b'[' => Some("an error body that cannot be read".to_owned()),
        _ => {
            let start = body.get(..body.len().min(MAX_PLAIN))?;
            Some(String::from_utf8_lossy(start).into_owned())
        }
    }
}

/// Is a member called `error` an error? Some servers send `"error": null` beside an answer.
pub(super) fn is_truthy(error: &[u8]) -> bool {
    !matches!(error, b"null" | b"false" | b"\"\"" | b"{}" | b"[]" | b"0")
}

/// An in-band error rebuilt around the raw value of its `error` member.
pub(super) fn in_band_member(error: &[u8]) -> Fault {
    in_band(&Bytes::from([b"{\"error\":".as_slice(), error, b"}"].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envelope_is_found() {
        check(
            r#"{"error":{"message":"m","type":"t","param":"p","code":"c"}}"#,
            Some("m"),
            Some("c"),
        );
        check(
            r#"{"error":{"message":"m","type":"BadRequestError","code":400}}"#,
            Some("m"),
            Some("400"),
        );
        check(r#"{"error":"Unauthorized"}"#, Some("Unauthorized"), None);
        check(r#"{"object":"error","message":"m","code":400}"#, Some("m"), Some("400"));
        check(r#"{"detail":"Not Found"}"#, Some("Not Found"), None);
        check(
            r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
            Some("field required"),
            None,
        );
        check(r#"{"error_code":18,"error_msg":"m"}"#, Some("m"), Some("18"));
        check(r#"[{"error":{"message":"m"}}]"#, Some("m"), None);
        check(r#""text""#, Some("text"), None);

        #[track_caller]
        fn check(body: &str, message: Option<&str>, code: Option<&str>) {
            let stated = extract(body.as_bytes()).unwrap();
            assert_eq!(stated.message.as_deref(), message);
            assert_eq!(stated.code.as_deref(), code);
        }
        for none in ["<html>", "", r#"{"choices":[]}"#, r#"{"error":null,"choices":[]}"#, "3"] {
            assert_eq!(extract(none.as_bytes()), None, "{none}");
        }
        let ping = br#"{"type":"ping","message":"keepalive"}"#;
        assert!(extract(ping).is_some() && extract_in_band(ping).is_none());
    }

    #[test]
    fn every_documented_code_means_what_the_table_says() {
        for (status, code, outcome) in TABLE {
            let body = format!(r#"{{"error":{{"message":"m","type":"x","code":"{code}"}}}}"#);
            let status = status.unwrap_or(418);
            let fault = if status == 200 {
                in_band(body.as_bytes())
            } else {
                refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
            };
            assert_eq!(fault.outcome, *outcome, "{code}");
        }
    }

    #[test]
    fn status_decides_where_no_code_does() {
        check(500, "{\"error\":{\"message\":\"CUDA out of memory\"}}", Outcome::ProviderError);
        check(500, "Internal Server Error", Outcome::ProviderError);
        check(502, "<html>bad gateway</html>", Outcome::ProviderError);
        check(503, "", Outcome::Overloaded);
        check(
            503,
            "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":null}}",
            Outcome::Overloaded,
        );
        check(407, "", Outcome::ProviderError);
        check(429, "", Outcome::RateLimited);
        check(401, "{\"error\":\"Unauthorized\"}", Outcome::KeyRefused);
        check(404, "{\"detail\":\"Not Found\"}", Outcome::ModelMissing);
        check(422, "{\"detail\":[]}", Outcome::InvalidRequest);
        check(
            400,
            "{\"error\":{\"message\":\"This model's maximum context length is 4096 tokens.\",\"type\":\"BadRequestError\",\"code\":400}}",
            Outcome::ContextTooLong,
        );
        check(
            429,
            "{\"error\":{\"message\":\"m\",\"type\":\"insufficient_quota\",\"code\":null}}",
            Outcome::QuotaExhausted,
        );

        #[track_caller]
        fn check(status: u16, body: &str, outcome: Outcome) {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(refusal(status, &HeaderMap::new(), body.as_bytes()).outcome, outcome);
        }
    }

    #[test]
    fn c3_errors_under_200_are_read_by_their_inner_code() {
        check(r#"{"error":{"message":"worker limit reached","code":429}}"#, Outcome::RateLimited);
        check(
            r#"{"error":{"message":"overloaded","type":"server_error","code":503}}"#,
            Outcome::Overloaded,
        );
        check(r#"{"error":"text"}"#, Outcome::ProviderError);

        #[track_caller]
        fn check(body: &str, outcome: Outcome) {
            assert_eq!(in_band(body.as_bytes()).outcome, outcome);
        }
    }
}
