//! Fifth stage: trying targets until one answers.
//!
//! An attempt ends where relaying starts. Until the first meaningful event nothing has reached the
//! caller, so that every failure may still move on to another target.

mod open;
pub(crate) mod send;
mod whole;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sluicegate_dialect::{Call, Destination, Fault, Unfit, UpstreamCall, call::StreamOptions};
use sluicegate_model::{Outcome, Profile};
use sluicegate_telemetry::record::AttemptRecord;
use tokio::time::Instant;

use crate::{
    limited::Limited,
    media::Fetcher,
    metrics::Metrics,
    quota::LimitFacts,
    refusal::Refusal,
    report::{Report, target_record},
    route::{Choice, Plan},
    trace::Trace,
};

pub use open::OpenStream;
pub use whole::WholeAnswer;

/// What an attempt brought.
#[derive(Debug)]
pub enum Opened {
    /// Everything at once.
    Whole(WholeAnswer),
    /// A stream that has begun to say something.
    Stream(Box<OpenStream>),
}

/// Everything an attempt needs to know of its request.
#[derive(Debug)]
struct Attempt<'a> {
    choice: &'a Choice,
    call: &'a Call,
    /// The call as the provider wants it.
    translated: &'a UpstreamCall,
    /// Usage that the upstream does not report is filled in from an estimate.
    fills_usage: bool,
    trace: &'a Trace,
    started: Instant,
    /// When the whole request must have ended.
    total: Instant,
    metrics: &'a Metrics,
    /// The request was lost on a connection that had been closed, and sent anew.
    resent: AtomicBool,
}

/// How long callers are asked to wait while keys or targets are left that were not tried.
const SHORT: Duration = Duration::from_secs(1);

impl<'a> Attempt<'a> {
    /// The same attempt with another translation of its call.
    fn with<'b>(&'b self, translated: &'b UpstreamCall) -> Attempt<'b>
    where
        'a: 'b,
    {
        Attempt { translated, resent: AtomicBool::new(false), ..*self }
    }
}

/// Tries the plan's choices in turn.
///
/// # Errors
/// The last failure, when nothing answers.
pub async fn first_answer(
    mut plan: Plan,
    call: &Call,
    trace: &Trace,
    fetcher: &Fetcher,
    limited: &mut Limited<'_>,
    report: &mut Report,
) -> Result<(Opened, Choice), Refusal> {
    report.queued();
    let metrics = report.shared_metrics();
    let mut last: Option<(Fault, Choice)> = None;
    let mut refused: Option<Box<LimitFacts>> = None;
    let mut unfit: Option<Unfit> = None;
    let mut images = Images { call, fetcher, inlined: None };
    while let Some(choice) = plan.next(last.as_ref().map(|(fault, _)| fault.outcome)) {
        // What one target cannot do, another may.
        let to = Destination { model: &choice.model, profile: &choice.provider.profile };
        let total = report.arrived() + choice.provider.timeouts.total;
        let called = images.call_for(&choice, total).await;
        let translated = called.and_then(|call| {
            choice.provider.dialect.request(call, &to).map(|translated| (call, translated))
        });
        let (call, translated) = match translated {
            Ok(fit) => fit,
            Err(found) => {
                plan.unfit();
                unfit = Some(found);
                continue;
            }
        };
        // A limit on a provider or key of ours holds back what goes there, and nothing else.
        let own = match limited.reserve(Some(&choice), plan.is_last()).await {
            Ok(own) => own,
            Err(facts) => {
                plan.untried();
                refused = Some(facts);
                continue;
            }
        };
        let attempt = Attempt {
            choice: &choice,
            call,
            translated: &translated,
            fills_usage: report.fills_usage || choice.provider.profile.fill_usage,
            trace,
            started: Instant::now(),
            total,
            metrics: &metrics,
            resent: AtomicBool::new(false),
        };
        // Written down before it is known how it ends: a caller that leaves ends it here.
        report.record.attempts.push(AttemptRecord {
            target: target_record(&choice),
            outcome: "client_cancelled",
            ..AttemptRecord::default()
        });
        report.sent(&choice, &own);
        let opened = open(&attempt).await;
        if attempt.resent.load(Ordering::Relaxed) {
            note_resend(report);
        }
        match opened {
            Ok(opened) => {
                choice.succeeded();
                report.served_by(&choice);
                report.dropped = translated.dropped;
                if let Some(bill) = &mut report.bill {
                    bill.join(own);
                }
                return Ok((opened, choice));
            }
            Err(fault) => {
                let fault = choice.scrubbed(fault);
                choice.failed(&fault);
                failed(report, &choice, &fault, attempt.started);
                if let Some(bill) = &mut report.bill {
                    bill.attempt_failed(own);
                }
                last = Some((fault, choice));
            }
        }
    }
    match last {
        Some((mut fault, choice)) => {
            if !plan.is_last() {
                // Others may take the next request at once; only the number of attempts is used up.
                fault.wait = fault.wait.map(|wait| wait.min(SHORT));
            }
            if let Some(down) = plan.down().filter(|_| fault.outcome == Outcome::RateLimited) {
                // Another key may be back before this one.
                let left = Duration::from_millis(down.left_ms);
                fault.wait = Some(fault.wait.map_or(left, |wait| wait.min(left)));
            }
            Err(Refusal::Upstream { fault, provider: choice.provider.name.clone() })
        }
        None if let Some(facts) = refused => Err(Refusal::Limited(facts)),
        None if let Some(unfit) = unfit => Err(Refusal::Unfit(unfit)),
        None if let Some(down) = plan.down() => {
            Err(Refusal::NoKey { model: call.model.clone(), down })
        }
        None => Err(Refusal::NoTarget {
            model: call.model.clone(),
            endpoint: call.endpoint.name(),
            served: true,
        }),
    }
}

/// The call as it came, and with the bytes of its images where they were got.
struct Images<'a> {
    call: &'a Call,
    fetcher: &'a Fetcher,
    inlined: Option<Call>,
}

impl Images<'_> {
    /// The call for this choice: one that takes no addresses of images gets the images.
    async fn call_for(&mut self, choice: &Choice, deadline: Instant) -> Result<&Call, Unfit> {
        let provider = &choice.provider;
        if provider.dialect.takes_image_urls() || !provider.fetch_images {
            return Ok(self.call);
        }
        if self.inlined.is_none() {
            self.inlined = self.fetcher.inline(self.call, deadline).await?;
        }
        Ok(self.inlined.as_ref().unwrap_or(self.call))
    }
}

async fn open(attempt: &Attempt<'_>) -> Result<Opened, Fault> {
    let fault = match try_once(attempt).await {
        Ok(opened) => return Ok(opened),
        Err(fault) => fault,
    };
    if refuses_to_be_asked(attempt, &fault) {
        let profile = Profile { ask_usage: Some(false), ..attempt.choice.provider.profile.clone() };
        let to = Destination { model: &attempt.choice.model, profile: &profile };
        if let Ok(translated) = attempt.choice.provider.dialect.request(attempt.call, &to) {
            return try_once(&attempt.with(&translated)).await;
        }
    }
    // A token that was taken back early: another is got, once.
    let Some(credential) = &attempt.choice.credential else { return Err(fault) };
    if attempt.choice.provider.dialect.wants_new_token(&fault)
        && credential.signer.renew(send::head_deadline(attempt)).await
    {
        return try_once(attempt).await;
    }
    Err(fault)
}

/// Usage was asked for on our own account, and the server does not know the question: its caller is
/// not to blame.
fn refuses_to_be_asked(attempt: &Attempt<'_>, fault: &Fault) -> bool {
    let ours = attempt.call.stream && attempt.call.stream_options == StreamOptions::Absent;
    let names =
        |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains("stream_options"));
    ours && fault.outcome == Outcome::InvalidRequest
        && (names(&fault.message) || names(&fault.param))
}

async fn try_once(attempt: &Attempt<'_>) -> Result<Opened, Fault> {
    let answer = send::send(attempt).await?;
    if attempt.call.stream && answer.is_stream(attempt.choice.provider.dialect.framing()) {
        let stream = open::open(attempt, answer).await?;
        return Ok(Opened::Stream(Box::new(stream)));
    }
    Ok(Opened::Whole(whole::read(attempt, answer).await?))
}

/// Enters the try that a closed connection lost before the one that followed it.
fn note_resend(report: &mut Report) {
    let attempts = &mut report.record.attempts;
    if let Some(newest) = attempts.last() {
        let lost = AttemptRecord {
            target: newest.target.clone(),
            outcome: Outcome::Network.name(),
            reason: Some("a kept connection had been closed; sent anew".to_owned()),
            ..AttemptRecord::default()
        };
        attempts.insert(attempts.len() - 1, lost);
    }
}

/// Completes the newest attempt's entry in the record.
fn failed(report: &mut Report, choice: &Choice, fault: &Fault, started: Instant) {
    report.metrics().attempted(&choice.provider.name, fault.outcome);
    if let Some(entry) = report.record.attempts.last_mut() {
        entry.outcome = fault.outcome.name();
        entry.status = fault.status;
        entry.reason = fault.message.as_deref().map(sluicegate_dialect::redact::message);
        entry.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
}
