//! Answers in the place of refusals, for callers who can do more with words than with errors: while the
//! targets of a model are away, where the model says so, and at the last level of a degradation.
//!
//! They have the form of an answer, cost nothing, and say what they are in a header and in their
//! extension. The record keeps the refusal that they stand for. Vectors cannot be put into words:
//! embeddings are refused.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use serde_json::{Map, Value};
use sluicegate_dialect::{Call, words};
use sluicegate_model::resource::model::Unavailable;

use crate::{
    body::Body,
    degraded::Notice,
    policy::Model,
    refusal::{Refusal, Shown},
    report::Report,
    respond,
};

/// Tells that an answer is none of a model: `degraded` or `maintenance`.
const STATUS: HeaderName = HeaderName::from_static("x-sluicegate-status");
/// What is said while targets are away, where the model has no words of its own.
const REPLY: &str = "The model is busy at the moment. Please try again in {seconds} seconds.";
/// Stands for the wait in those words.
const SECONDS: &str = "{seconds}";
/// The wait where none is known.
const WAIT: Duration = Duration::from_secs(1);

/// An answer in the place of a refusal.
#[derive(Debug)]
pub struct Polite {
    refusal: Refusal,
    shown: Shown,
    status: &'static str,
    wait: Duration,
    is_stream: bool,
    body: Bytes,
}

/// What is said in the place of a refusal, if it is one for that: a degradation lets nothing through, or
/// the model's targets are full, left alone or without a key, and the model answers politely then.
pub fn in_place_of(
    refusal: &Refusal,
    model: &Model,
    call: &Call,
    report: &Report,
) -> Option<Polite> {
    let terms = &model.when_unavailable;
    let (status, reply) = match refusal {
        Refusal::Maintenance { text } => ("maintenance", text.as_str()),
        Refusal::Full { .. } | Refusal::Shut { .. } | Refusal::NoKey { .. }
            if terms.answer == Unavailable::Degraded =>
        {
            ("degraded", terms.reply.as_deref().unwrap_or(REPLY))
        }
        _ => return None,
    };
    Polite::new(refusal.clone(), status, reply, call, report)
}

impl Polite {
    fn new(
        refusal: Refusal,
        status: &'static str,
        reply: &str,
        call: &Call,
        report: &Report,
    ) -> Option<Self> {
        let shown = refusal.shown();
        let wait = shown.retry.unwrap_or(WAIT);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let text = reply.replace(SECONDS, &wait_ms.div_ceil(1_000).max(1).to_string());
        let mut members: Map<String, Value> =
            report.notice().map(Notice::members).unwrap_or_default();
        members.insert("status".to_owned(), status.into());
        members.insert("estimated_wait_ms".to_owned(), wait_ms.into());
        let body = words::answer(call, &text, &members)?;
        Some(Self { refusal, shown, status, wait, is_stream: call.stream, body })
    }

    /// The whole response, and the facts of the refusal in the record.
    pub fn into_response(self, mut report: Report) -> Response<Body> {
        self.refusal.note(&self.shown, &mut report);
        report.record.status = 200;
        let request_id = report.record.request_id.clone();
        let (notice, standings) = (report.notice().map(Notice::header), report.standings);
        let (attempts, taken) = (report.record.attempts.len(), report.record.route.clone());
        let (kind, body) = if self.is_stream {
            ("text/event-stream", Body::events(self.body, report))
        } else {
            ("application/json", Body::full(self.body, report))
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        respond::common(headers, &request_id, kind);
        respond::stand(headers, &standings);
        respond::insert_wait(headers, self.wait);
        headers.insert(STATUS, HeaderValue::from_static(self.status));
        if let Some(notice) = notice {
            respond::degraded(headers, &notice);
        }
        if let Some(taken) = taken {
            respond::route(headers, &taken);
        }
        if attempts > 0 {
            headers.insert(respond::ATTEMPTS, HeaderValue::from(attempts));
        }
        if self.is_stream {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        response
    }
}
