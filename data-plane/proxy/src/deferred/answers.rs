//! What callers are told of requests that are kept for later.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use prost::Message;
use serde::Serialize;
use serde_json::value::RawValue;
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_telemetry::clock;

use crate::{body::Body, report::Report, respond};

/// When to ask again for one that runs, and the least for one that waits.
const SOON: Duration = Duration::from_secs(1);
/// The longest that somebody is asked to wait before asking again.
const LATE: Duration = Duration::from_secs(60);
/// How many are run in a second, for a guess when one's turn may come.
const GUESSED_RATE: u64 = 10;

/// An answer, and what it does to the head of the response.
#[derive(Debug)]
pub struct Told {
    pub(super) id: String,
    status: StatusCode,
    body: Bytes,
    retry: Option<Duration>,
    /// What the record says became of the request.
    outcome: &'static str,
}

/// A request as its caller sees it.
#[derive(Serialize)]
struct Deferred<'a> {
    id: &'a str,
    object: &'static str,
    status: &'static str,
    model: &'a str,
    /// Seconds since the Unix epoch.
    created_at: u64,
    /// When it is given up, or once it has ended, forgotten.
    expires_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    durable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Answer<'a>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status_code: u32,
    headers: Headers<'a>,
    body: Content<'a>,
}

#[derive(Serialize)]
struct Headers<'a> {
    #[serde(rename = "content-type")]
    content_type: &'a str,
}

/// JSON as it came, byte for byte; anything else as text.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
}

/// It is kept now. `wait`: when its target may take it.
pub(super) fn accepted(
    put: &pb::PutReply,
    request: &pb::PutRequest,
    asked: &str,
    wait: Duration,
) -> Told {
    let now_ms = clock::unix_ms();
    let expires_ms = if request.expires_ms == 0 { super::DAY_MS } else { request.expires_ms };
    let shown = Deferred {
        id: &put.id,
        object: "deferred",
        status: "queued",
        model: asked,
        created_at: now_ms / 1000,
        expires_at: now_ms.saturating_add(expires_ms) / 1000,
        estimated_wait_ms: Some(millis(wait)),
        durable: Some(put.durable),
        ahead: None,
        attempts: None,
        response: None,
    };
    Told {
        id: put.id.clone(),
        status: StatusCode::ACCEPTED,
        body: written(&shown),
        retry: Some(wait.clamp(SOON, LATE)),
        outcome: "deferred",
    }
}

/// How it stands. `accepted`: with the status of one that was just taken, while it has not ended.
pub(super) fn standing(reply: &pb::GetReply, accepted: bool) -> Told {
    let note = pb::Note::decode(reply.note.clone()).unwrap_or_default();
    let response = reply.response.as_ref();
    let status = match (pb::State::try_from(reply.state), response) {
        (Ok(pb::State::Running), _) => "running",
        (Ok(pb::State::Done), Some(response)) if response.status < 400 => "done",
        (Ok(pb::State::Done), _) => "failed",
        (Ok(pb::State::Cancelled), _) => "cancelled",
        (Ok(pb::State::Expired), _) => "expired",
        (Ok(pb::State::Waiting | pb::State::Unspecified) | Err(_), _) => "queued",
    };
    let retry = match status {
        "running" => Some(SOON),
        "queued" => {
            let guess = Duration::from_secs(reply.ahead / GUESSED_RATE);
            Some(guess.clamp(SOON, LATE))
        }
        _ => None,
    };
    let shown = Deferred {
        id: &reply.id,
        object: "deferred",
        status,
        model: if note.model.is_empty() { &reply.queue } else { &note.model },
        created_at: note.created_unix_ms / 1000,
        expires_at: clock::unix_ms().saturating_add(reply.left_ms) / 1000,
        estimated_wait_ms: None,
        durable: None,
        ahead: (status == "queued").then_some(reply.ahead),
        attempts: Some(reply.attempt),
        response: response.map(|response| Answer {
            status_code: response.status,
            headers: Headers { content_type: &response.content_type },
            body: match serde_json::from_slice(&response.body) {
                Ok(json) => Content::Json(json),
                Err(_) => Content::Text(String::from_utf8_lossy(&response.body)),
            },
        }),
    };
    let is_accepted = accepted && retry.is_some();
    Told {
        id: reply.id.clone(),
        status: if is_accepted { StatusCode::ACCEPTED } else { StatusCode::OK },
        body: written(&shown),
        retry,
        outcome: if accepted { "deferred" } else { "success" },
    }
}

impl Told {
    /// The whole response, and the facts of it in the record.
    pub fn into_response(self, mut report: Report) -> Response<Body> {
        let Self { id, status, body, retry, outcome } = self;
        report.record.status = status.as_u16();
        report.record.outcome = outcome;
        let request_id = report.record.request_id.clone();
        let location = HeaderValue::from_str(&format!("/v1/deferred/{id}"));
        report.record.deferred = Some(id);
        let mut response = Response::new(Body::full(body, report));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        respond::common(headers, &request_id, "application/json");
        if status == StatusCode::ACCEPTED
            && let Ok(location) = location
        {
            headers.insert(header::LOCATION, location);
        }
        if let Some(retry) = retry {
            respond::insert_wait(headers, retry);
        }
        response
    }
}

fn written(shown: &Deferred<'_>) -> Bytes {
    // Neither maps nor numbers that JSON lacks are in it.
    serde_json::to_vec(shown).unwrap_or_default().into()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reply(state: pb::State, response: Option<(u32, &'static str)>) -> pb::GetReply {
        let note = pb::Note { model: "m".into(), created_unix_ms: 5_000, ..pb::Note::default() };
        pb::GetReply {
            id: "def_1".into(),
            state: state.into(),
            queue: "m".into(),
            attempt: 2,
            ahead: 100,
            left_ms: 1_000,
            note: note.encode_to_vec().into(),
            response: response.map(|(status, body)| pb::Response {
                status,
                content_type: "application/json".into(),
                body: body.into(),
            }),
            ..pb::GetReply::default()
        }
    }

    #[test]
    fn b2_every_state_has_a_status() {
        use pb::State::{Cancelled, Done, Expired, Running, Waiting};
        for (state, response, status, retry_s) in [
            (Waiting, None, "queued", Some(10)),
            (Running, None, "running", Some(1)),
            (Done, Some((200, "{}")), "done", None),
            (Done, Some((401, "{}")), "failed", None),
            (Cancelled, None, "cancelled", None),
            (Expired, None, "expired", None),
        ] {
            let told = standing(&reply(state, response), false);
            let shown: Value = serde_json::from_slice(&told.body).unwrap();
            assert_eq!((&shown["status"], &shown["model"]), (&json!(status), &json!("m")));
            assert_eq!((&shown["created_at"], &shown["attempts"]), (&json!(5), &json!(2)));
            assert_eq!(told.retry.map(|retry| retry.as_secs()), retry_s, "{status}");
            assert_eq!(told.status, StatusCode::OK);
            let again = standing(&reply(state, response), true).status;
            let expected = if retry_s.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
            assert_eq!(again, expected, "{status}");
        }
    }

    #[test]
    fn b2_the_answer_is_there_byte_for_byte() {
        let odd = r#"{"b":1.0e2, "a":12345678901234567890123}"#;
        let told = standing(&reply(pb::State::Done, Some((200, odd))), false);
        let text = std::str::from_utf8(&told.body).unwrap();
        assert!(text.contains(odd), "{text}");
        let told = standing(&reply(pb::State::Done, Some((200, "no JSON"))), false);
        let shown: Value = serde_json::from_slice(&told.body).unwrap();
        assert_eq!(shown["response"]["body"], "no JSON");
    }

    #[test]
    fn b2_what_is_taken_says_where_and_until_when() {
        let put = pb::PutReply { id: "def_1".into(), existing: false, durable: true };
        let wait = Duration::from_millis(2_500);
        let told = accepted(&put, &pb::PutRequest::default(), "m", wait);
        let shown: Value = serde_json::from_slice(&told.body).unwrap();
        let lasts = shown["expires_at"].as_u64().unwrap() - shown["created_at"].as_u64().unwrap();
        assert!((86_399..=86_401).contains(&lasts), "{shown}");
        assert_eq!((&shown["estimated_wait_ms"], &shown["durable"]), (&json!(2_500), &json!(true)));
        assert_eq!((told.status, told.retry), (StatusCode::ACCEPTED, Some(wait)));
    }
}
