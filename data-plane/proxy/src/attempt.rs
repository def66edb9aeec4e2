//! Fifth stage: trying targets until one answers.
//!
//! An attempt ends where relaying starts. Until the first meaningful event nothing has reached the
//! caller, so that every failure may still move on to another target.

mod again;
mod failures;
mod open;
mod patience;
pub(crate) mod send;
mod whole;

use std::sync::atomic::AtomicBool;

use sluicegate_dialect::{Call, Destination, Fault, Unfit, UpstreamCall, call::StreamOptions};
use sluicegate_model::{
    Outcome, Profile,
    outcome::Blame,
    resource::{Again, Retry},
};
use sluicegate_protocol::breaker::{Blocked, TargetKey, Verdict};
use sluicegate_telemetry::record::AttemptRecord;
use tokio::time::Instant;

use crate::{
    group::Group,
    limited::Limited,
    media::Fetcher,
    metrics::Metrics,
    refusal::Refusal,
    report::{Report, target_record},
    route::{Choice, Next, Plan, Why},
    target::Suspect,
    trace::Trace,
};
use failures::Failures;
use patience::{Patience, Waited};

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

impl Opened {
    /// Tokens of it that are there, about.
    fn tokens(&self) -> u64 {
        match self {
            Self::Whole(answer) => {
                answer.usage.map_or(answer.output_chars / 4, |usage| usage.output)
            }
            Self::Stream(_) => 0,
        }
    }
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
    /// A kept connection has lost the request before: it takes a new one.
    fresh: bool,
    /// The request was lost on a connection that had been closed, and sent anew.
    resent: AtomicBool,
}

impl<'a> Attempt<'a> {
    /// The same attempt with another translation of its call.
    fn with<'b>(&'b self, translated: &'b UpstreamCall) -> Attempt<'b>
    where
        'a: 'b,
    {
        Attempt { translated, resent: AtomicBool::new(false), ..*self }
    }
}

/// What attempts need to know of their request.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub call: &'a Call,
    pub trace: &'a Trace,
    pub fetcher: &'a Fetcher,
    /// What targets of the model share.
    pub group: &'a Group,
    /// Nothing is tried again.
    pub once: bool,
    /// The request, as far as it may kill what it is sent to.
    pub suspect: &'a Suspect,
}

/// Tries the plan's choices in turn, within one budget of attempts and time.
///
/// # Errors
/// The failure that tells most, when nothing answers.
pub async fn first_answer(
    mut plan: Plan<'_>,
    asked: Asked<'_>,
    limited: &mut Limited<'_>,
    report: &mut Report,
) -> Result<(Opened, Choice), Refusal> {
    report.queued();
    asked.group.asked();
    let metrics = report.shared_metrics();
    let mut failures = Failures::default();
    let mut fresh = false;
    let model = limited.permit.model.clone();
    let retry = &model.retry;
    let mut patience = Patience::new(&model, asked.group);
    plan.set_tokens(limited.sizes.measured(), limited.sizes.expected_tokens());
    let mut killed: Option<TargetKey> = None;
    let mut images = Images { call: asked.call, fetcher: asked.fetcher, inlined: None };
    loop {
        let mut choice = match plan.advance() {
            Next::Try(choice) => *choice,
            Next::Again { tries } => {
                let told = failures.told();
                let Some(wait) = again::backoff(retry, tries, told, fastrand::f64()) else {
                    break;
                };
                if !report.has_time_for(wait) {
                    break;
                }
                tokio::time::sleep(wait).await;
                report.waited(wait);
                plan.renew();
                continue;
            }
            Next::Over => match patience.wait(&mut plan, failures.any(), report).await {
                Waited::Go(choice) => *choice,
                Waited::Look => continue,
                Waited::Enough => break,
            },
        };
        asked.suspect.check().map_err(poisonous)?;
        if killed.as_ref() == Some(&choice.target().key) {
            // What killed a target may kill another, but not the same one again.
            plan.unfit();
            continue;
        }
        choice.suspect = Some(asked.suspect.clone());
        // What one target cannot do, another may.
        let to = Destination { model: &choice.model, profile: &choice.provider.profile };
        let total = report.ends_by(choice.provider.timeouts.total);
        let called = images.call_for(&choice, total).await;
        let translated = called.and_then(|call| {
            choice.provider.dialect.request(call, &to).map(|translated| (call, translated))
        });
        let (call, translated) = match translated {
            Ok(fit) => fit,
            Err(found) => {
                plan.unfit();
                failures.unfit(found);
                continue;
            }
        };
        // A limit on a provider or key of ours holds back what goes there, and nothing else.
        let own = match limited.reserve(Some(&choice), plan.is_last()).await {
            Ok(own) => own,
            Err(facts) => {
                plan.untried();
                failures.limited(facts);
                continue;
            }
        };
        let attempt = Attempt {
            choice: &choice,
            call,
            translated: &translated,
            fills_usage: report.fills_usage || choice.provider.profile.fill_usage,
            trace: asked.trace,
            started: Instant::now(),
            total,
            metrics: &metrics,
            fresh,
            resent: AtomicBool::new(false),
        };
        let waited_ms = report.take_waited();
        // Written down before it is known how it ends: a caller that leaves ends it here.
        report.record.attempts.push(AttemptRecord {
            target: target_record(&choice),
            outcome: "client_cancelled",
            waited_ms,
            ..AttemptRecord::default()
        });
        report.sent(&choice, &own);
        let unseen = if call.stream { 0 } else { limited.sizes.expected_output() };
        let opened = choice.trip().watched(unseen, open(&attempt)).await;
        let (started, resent) = (attempt.started, attempt.resent.into_inner());
        if resent {
            note_resend(report);
            plan.counts_twice();
            fresh = true;
        }
        let fault = match opened {
            Ok(opened) => {
                choice.succeeded(opened.tokens());
                if matches!(opened, Opened::Whole(_)) {
                    choice.survived();
                }
                report.served_by(&choice);
                report.dropped = translated.dropped;
                if let Some(bill) = &mut report.bill {
                    bill.join(own);
                }
                return Ok((opened, choice));
            }
            Err(fault) => choice.scrubbed(fault),
        };
        choice.settle(&fault).await;
        let (mut poison, mut gives_up) = (None, false);
        if report.is_late() {
            // Its caller's time was over, not the target's.
            choice.ended(&Fault::new(Outcome::ClientCancelled, String::new()));
        } else {
            match choice.failed(&fault) {
                Verdict::Innocent => {}
                Verdict::GiveUp => gives_up = true,
                Verdict::RetryOnce => killed = Some(choice.target().key.clone()),
                Verdict::Blocked(blocked) => poison = Some(blocked),
            }
        }
        failed(report, &choice, &fault, started);
        if let Some(bill) = &mut report.bill {
            bill.attempt_failed(own);
        }
        let go_on = goes_on(&mut plan, &fault, retry, &asked);
        failures.attempt(fault, choice);
        if report.is_late() {
            return Err(Refusal::DeadlineExceeded);
        }
        poison.map_or(Ok(()), Err).map_err(poisonous)?;
        if !go_on || gives_up {
            break;
        }
    }
    Err(failures.refusal(&plan, asked.call))
}

fn poisonous(blocked: Blocked) -> Refusal {
    Refusal::Poison { left_ms: blocked.left_ms }
}

/// Tells the plan of a failure. `false`: nothing more is to be tried.
fn goes_on(plan: &mut Plan<'_>, fault: &Fault, retry: &Retry, asked: &Asked<'_>) -> bool {
    if asked.once {
        return false;
    }
    let diverted = match fault.outcome {
        Outcome::ContextTooLong => plan.divert(Why::ContextLength),
        Outcome::ContentFiltered => plan.divert(Why::ContentFilter),
        _ => false,
    };
    if diverted {
        return true;
    }
    let again = again::again(fault, retry, plan.is_fallback());
    plan.failed(fault.outcome, again);
    // What was never sent has loaded nobody; a key that is refused is not asked again.
    let is_load = fault.outcome.blame() == Blame::Upstream && !fault.unsent;
    again != Again::Never && (!is_load || asked.group.may_repeat())
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
        entry.unsent = fault.unsent;
        entry.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
}
