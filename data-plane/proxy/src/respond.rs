//! From a refusal to an answer in OpenAI's form: the body, the headers, the in-band event.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::json;
use sluicegate_dialect::{redact, sse::write_event};

use sluicegate_telemetry::record::{FallbackRecord, LimitRecord, RouteRecord};

use crate::{
    body::Body,
    quota::{LimitFacts, Standings, reset_text},
    refusal::{self, Refusal, Shown},
    report::Report,
    tasks,
    trace::REQUEST_ID,
};

/// How many attempts a request took.
pub const ATTEMPTS: HeaderName = HeaderName::from_static("x-sluicegate-attempts");
/// Which members of the request were left out, because the target has no place for them.
const DROPPED: HeaderName = HeaderName::from_static("x-sluicegate-dropped-params");
/// The public model that answered, where it is another.
const MODEL: HeaderName = HeaderName::from_static("x-sluicegate-model");
const FALLBACK: HeaderName = HeaderName::from_static("x-sluicegate-fallback");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// OpenAI's SDKs obey it whatever the status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl Refusal {
    /// The JSON body.
    fn body(&self, shown: &Shown, request_id: &str) -> Bytes {
        let retryable = shown.is_retryable();
        let mut detail = json!({
            "source": if matches!(self, Self::Upstream { .. }) { "upstream" } else { "gateway" },
            "request_id": request_id,
            "retryable": retryable,
        });
        if let (Self::Upstream { fault, provider }, Some(detail)) = (self, detail.as_object_mut()) {
            detail.insert("outcome".into(), fault.outcome.name().into());
            detail.insert("provider".into(), provider.as_str().into());
            if let Some(reason) = refusal::reason(fault) {
                detail.insert("reason".into(), reason.into());
            }
        }
        if let Some(detail) = detail.as_object_mut() {
            match self {
                Self::Shut { provider, refused, .. } => {
                    detail.insert("provider".into(), provider.as_str().into());
                    detail.insert("breaker".into(), refused.state.name().into());
                    detail.insert("reason".into(), refused.reason.to_string().into());
                }
                Self::Full { provider, .. } => {
                    detail.insert("provider".into(), provider.as_str().into());
                }
                _ => {}
            }
        }
        if let (Self::Limited(facts), Some(detail)) = (self, detail.as_object_mut()) {
            detail.extend(limit_detail(facts));
        }
        if let (Some(wait), Some(detail)) = (shown.retry, detail.as_object_mut()) {
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            detail.insert("retry_after_ms".into(), ms.into());
        }
        let body = json!({
            "error": {
                "message": shown.message,
                "type": shown.kind,
                "param": shown.param,
                "code": shown.code,
                "sluicegate": detail,
            }
        });
        Bytes::from(body.to_string())
    }

    /// The whole response, and the facts of it in the record.
    pub fn into_response(self, mut report: Report) -> Response<Body> {
        let shown = self.shown();
        let request_id = report.record.request_id.clone();
        report.record.status = shown.status.as_u16();
        report.record.outcome = self.outcome();
        report.record.error_code = Some(shown.code.clone());
        report.record.reason = Some(match &self {
            Self::Upstream { fault, .. } => {
                redact::message(fault.message.as_deref().unwrap_or("no message"))
            }
            _ => shown.message.clone(),
        });
        if let Self::Limited(facts) = &self {
            note_limit(&mut report, facts);
        }
        let attempts = report.record.attempts.len();
        let taken = report.record.route.clone();
        let standings = match &self {
            Self::Limited(facts) => facts.standings,
            _ => report.standings,
        };
        let body = self.body(&shown, &request_id);
        let mut response = Response::new(Body::full(body, report));
        *response.status_mut() = shown.status;
        let headers = response.headers_mut();
        common(headers, &request_id, "application/json");
        stand(headers, &standings);
        headers.insert(
            SHOULD_RETRY,
            HeaderValue::from_static(if shown.is_retryable() { "true" } else { "false" }),
        );
        if let Some(wait) = shown.retry {
            insert_wait(headers, wait);
        }
        if attempts > 0 {
            headers.insert(ATTEMPTS, HeaderValue::from(attempts));
        }
        if let Some(taken) = taken {
            route(headers, &taken);
        }
        if let Self::MethodNotAllowed { allow } = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if shown.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(shown.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The event that ends a stream which had begun.
    pub fn into_event(self, request_id: &str) -> Bytes {
        let shown = self.shown();
        write_event(None, &self.body(&shown, request_id))
    }
}

/// The refusing limit, in what people write.
fn limit_detail(facts: &LimitFacts) -> serde_json::Map<String, serde_json::Value> {
    let number = |amount: u64| {
        let text = facts.shown(amount);
        serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
    };
    let mut detail = serde_json::Map::new();
    detail.insert("limit_name".into(), facts.limit.as_str().into());
    detail.insert("scope".into(), facts.scope.as_str().into());
    detail.insert("dimension".into(), facts.dimension.name().into());
    detail.insert("window".into(), facts.window.as_str().into());
    for (name, amount) in [
        ("limit", facts.capacity),
        ("used", facts.used),
        ("reserved", facts.reserved),
        ("remaining", facts.remaining),
        ("requested", facts.asked),
    ] {
        detail.insert(name.into(), number(amount));
    }
    detail.insert("reset_ms".into(), facts.reset_ms.into());
    detail
}

/// The same facts in the record and, for operators, in the log.
fn note_limit(report: &mut Report, facts: &LimitFacts) {
    let record = LimitRecord {
        name: facts.limit.clone(),
        scope: facts.scope.clone(),
        dimension: facts.dimension.name(),
        window: facts.window.clone(),
        limit: facts.shown(facts.capacity),
        used: facts.shown(facts.used),
        reserved: facts.shown(facts.reserved),
        remaining: facts.shown(facts.remaining),
        asked: facts.shown(facts.asked),
        reset_ms: facts.reset_ms,
        retry_ms: facts.retry_ms,
    };
    tracing::info!(
        request_id = report.record.request_id,
        limit = record.name,
        scope = record.scope,
        dimension = record.dimension,
        capacity = record.limit,
        used = record.used,
        reserved = record.reserved,
        asked = record.asked,
        retry_ms = record.retry_ms,
        "a limit refused a request"
    );
    report.record.limit = Some(record);
}

/// `x-ratelimit-*`: the caller's tightest limits. Never the upstream's.
pub fn stand(headers: &mut HeaderMap, standings: &Standings) {
    let families = [(standings.requests, REQUESTS_HEADERS), (standings.tokens, TOKENS_HEADERS)];
    for (standing, [limit, remaining, reset]) in families {
        let Some(standing) = standing else { continue };
        headers.insert(HeaderName::from_static(limit), standing.limit.into());
        headers.insert(HeaderName::from_static(remaining), standing.remaining.into());
        if let Ok(value) = HeaderValue::from_str(&reset_text(standing.reset_ms)) {
            headers.insert(HeaderName::from_static(reset), value);
        }
    }
}

const REQUESTS_HEADERS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
const TOKENS_HEADERS: [&str; 3] =
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];

/// Names of the members of the request that the target had no place for.
pub fn dropped(headers: &mut HeaderMap, names: &[Cow<'static, str>]) {
    if names.is_empty() {
        return;
    }
    let printable = |name: &&Cow<'static, str>| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
    };
    let names: Vec<&str> = names.iter().filter(printable).take(32).map(AsRef::as_ref).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(",")) {
        headers.insert(DROPPED, value);
    }
}

/// Which model answers in the place of the one that was asked for, and why.
pub fn fallback(headers: &mut HeaderMap, fallback: &FallbackRecord) {
    if let Ok(model) = HeaderValue::from_str(&fallback.model) {
        headers.insert(MODEL, model);
        headers.insert(FALLBACK, HeaderValue::from_static(fallback.reason));
    }
}

/// Which model the task went to, and what decided.
pub fn route(headers: &mut HeaderMap, route: &RouteRecord) {
    if let Ok(value) = HeaderValue::from_str(&tasks::shown(&route.model, &route.by)) {
        headers.insert(tasks::HEADER, value);
    }
}

/// Headers that every answer carries.
pub fn common(headers: &mut HeaderMap, request_id: &str, content_type: &'static str) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
}

/// `Retry-After` in whole seconds, rounded up, and its exact form.
fn insert_wait(headers: &mut HeaderMap, wait: Duration) {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
    headers.insert(RETRY_AFTER_MS, HeaderValue::from(ms));
}

#[cfg(test)]
mod tests {
    use sluicegate_dialect::Fault;
    use sluicegate_model::Outcome;

    use super::*;

    #[test]
    fn every_outcome_has_a_sound_answer() {
        for outcome in Outcome::ALL {
            let fault = Fault {
                status: Some(400),
                ..Fault::new(outcome, "key sk-canary at http://10.0.0.1/ failed")
            };
            let refusal = Refusal::Upstream { fault, provider: "p".into() };
            let shown = refusal.shown();
            assert!(
                shown.status.is_client_error() || shown.status.is_server_error(),
                "{outcome:?}"
            );
            assert_ne!(shown.status, StatusCode::UNAUTHORIZED, "our key is not the caller's");
            let body = refusal.body(&shown, "r1");
            let body = std::str::from_utf8(&body).unwrap();
            assert!(!body.contains("canary") && !body.contains("10.0.0.1"), "{body}");
            let value: serde_json::Value = serde_json::from_str(body).unwrap();
            let error = value["error"].as_object().unwrap();
            for member in ["message", "type", "param", "code"] {
                assert!(error.contains_key(member), "{member}");
            }
        }
    }

    #[test]
    fn waits_are_whole_seconds_rounded_up() {
        let mut headers = HeaderMap::new();
        insert_wait(&mut headers, Duration::from_millis(1001));
        assert_eq!(headers[header::RETRY_AFTER], "2");
        assert_eq!(headers[RETRY_AFTER_MS], "1001");
        insert_wait(&mut headers, Duration::from_millis(3));
        assert_eq!(headers[header::RETRY_AFTER], "1");
    }
}
