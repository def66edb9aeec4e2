//! Running one request that was kept, through the stages of every request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use prost::Message;
use sluicegate_dialect::{Call, Endpoint};
use sluicegate_flow::Class;
use sluicegate_proto::deferred::v1 as pb;
use tokio_util::sync::CancellationToken;

use super::{
    MOST_ANSWER, offer,
    verdict::{self, MOST_CLAIMS, MOST_RUNS, Verdict},
};
use crate::{
    accept::Wanted,
    body::Body,
    identify,
    pipeline::{Answered, Context, Gateway, PRIORITY, note_call, note_caller, note_head},
    policy::Policy,
    refusal::Refusal,
    report::Report,
    settle::settle_failed,
    trace::Trace,
};

/// When another data plane, or this one with a newer policy, may take it.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Debug)]
pub(super) enum Ran {
    /// This is its result.
    Ended { response: pb::Response, well: bool },
    /// Its target has failed: it is to be run again after this.
    Failed(Duration),
    /// It could not be run now, which is no fault of its target.
    Later(Duration),
}

impl Gateway {
    /// Runs a request that was kept, unless `cut` fires before it is answered.
    pub(super) async fn run_kept(&self, claimed: &pb::Claimed, cut: &CancellationToken) -> Ran {
        let Some(policy) = self.current.load() else { return Ran::Later(ELSEWHERE) };
        let note = pb::Note::decode(claimed.note.clone()).unwrap_or_default();
        if policy.revision < note.policy_revision && claimed.attempt < MOST_RUNS {
            // Its caller or its model may not be known here yet.
            return Ran::Later(ELSEWHERE);
        }
        let mut trace = Trace::take(&HeaderMap::new());
        trace.idempotency_key = HeaderValue::from_str(&claimed.id).ok();
        let mut report = Report::begin(&self.reporter, &trace, None);
        report.record.deferred = Some(claimed.id.clone());
        let request_id = report.record.request_id.clone();
        let answered = tokio::select! {
            answered = self.answer_kept(&policy, claimed, &note, &trace, &mut report) => answered,
            () = cut.cancelled() => Err(Refusal::ShuttingDown),
        };
        match answered {
            Ok(answered) => {
                let response = whole(self.respond(answered, report)).await;
                let response = fitting(response, &request_id);
                Ran::Ended { response, well: true }
            }
            Err(refusal) => {
                // One that was cut short costs its caller nothing: it is run once more.
                settle_failed(&mut report, refusal.blame());
                let verdict = verdict::verdict(&refusal, claimed.attempt, fastrand::f64());
                let response = whole(refusal.into_response(report)).await;
                match verdict {
                    Verdict::Result => Ran::Ended { response, well: false },
                    Verdict::Failed(wait) => Ran::Failed(wait),
                    Verdict::Later(wait) => Ran::Later(wait),
                }
            }
        }
    }

    async fn answer_kept(
        &self,
        policy: &Arc<Policy>,
        claimed: &pb::Claimed,
        note: &pb::Note,
        trace: &Trace,
        report: &mut Report,
    ) -> Result<Answered, Refusal> {
        if claimed.attempt > MOST_CLAIMS {
            return Err(Refusal::GivenUp { claims: claimed.attempt });
        }
        self.watchman.admit(Class::Batch)?;
        let endpoint = Endpoint::ALL.into_iter().find(|known| known.name() == note.endpoint);
        let no_path = || Refusal::NoSuchPath { path: note.endpoint.clone() };
        let endpoint = endpoint.ok_or_else(no_path)?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.headers_mut() = offer::restored(note);
        // Nobody waits for it: whoever does goes first.
        request.headers_mut().insert(PRIORITY, HeaderValue::from_static("batch"));
        let (head, ()) = request.into_parts();
        note_head(report, policy, &head, &Wanted::Call(endpoint));
        let key = claimed.caller.as_ref().map_or("", |caller| &caller.key);
        let caller = identify::by_name(policy, self.current.keys().as_deref(), key)?;
        note_caller(report, &caller);
        let mut call = Call::parse(endpoint, claimed.body.clone()).map_err(Refusal::Invalid)?;
        note_call(report, &call);
        let context = Context { policy, headers: &head.headers, trace };
        let answered = Box::pin(self.carry_out(context, caller, &mut call, report)).await;
        answered.map_err(|unanswered| unanswered.refusal)
    }
}

/// The response as it is kept.
async fn whole(response: Response<Body>) -> pb::Response {
    let (head, body) = response.into_parts();
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Ok(body) = body.collect().await;
    pb::Response {
        status: head.status.as_u16().into(),
        content_type: content_type.to_owned(),
        body: body.to_bytes(),
    }
}

/// It, or that it is too large.
fn fitting(response: pb::Response, request_id: &str) -> pb::Response {
    if response.body.len() <= MOST_ANSWER { response } else { too_large(MOST_ANSWER, request_id) }
}

/// What is kept in the place of an answer that is larger than this.
pub(super) fn too_large(limit: usize, request_id: &str) -> pb::Response {
    let refusal = Refusal::AnswerTooLarge { limit };
    let shown = refusal.shown();
    let body: Bytes = refusal.body(&shown, request_id);
    pb::Response {
        status: shown.status.as_u16().into(),
        content_type: "application/json".to_owned(),
        body,
    }
}
