//! The whole life of a request on one screen.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use sluicegate_dialect::{Call, fill};
use sluicegate_flow::{Class, choice::prefix_of};
use sluicegate_model::{Outcome, resource::Priority};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{self, Wanted},
    admit::{self, Permit},
    attempt::{self, Asked, Opened, WholeAnswer},
    body::Body,
    deferred::{self, Deferred, Told},
    degraded::{self, Degraded, Notice},
    estimate::{Learned, Sizes},
    hold::{self, Waits},
    identify,
    levels::Levels,
    limited::{Limited, Names},
    media::Fetcher,
    models,
    policy::{Caller, Current, Model, Policy},
    polite::{self, Polite},
    pool::Pool,
    pressure::Watchman,
    quota::Quota,
    refusal::{DEADLINE, Refusal},
    relay::{Relay, Streams},
    report::{Report, Reporter},
    respond,
    route::{self, Choice, Load},
    settle::{Bill, settle, settle_failed},
    target::Guard,
    tasks::{self, features::offers_tools},
    trace::Trace,
    usage::UsageLog,
    wishes,
};

/// With `true`: usage that the upstream does not report is filled in from an estimate.
pub(crate) const FILL_USAGE: &str = "x-sluicegate-fill-usage";
/// How urgent the caller thinks its request is; it can only make it less urgent.
pub(crate) const PRIORITY: &str = "x-sluicegate-priority";

/// What every request shares.
#[derive(Debug)]
pub struct Gateway {
    pub current: Arc<Current>,
    pub reporter: Reporter,
    /// What is held of the limits that the fleet shares.
    pub quota: Arc<Quota>,
    /// What is turned away, so that the rest can be served.
    pub watchman: Watchman,
    /// How provider keys stand.
    pub pool: Arc<Pool>,
    /// Requests that kill what they are sent to.
    pub guard: Arc<Guard>,
    /// What upstreams have reported before.
    pub learned: Learned,
    /// Where usage is written down.
    pub usage: Arc<UsageLog>,
    /// Who keeps requests for later.
    pub deferred: Arc<Deferred>,
    /// Gets images for providers that take no addresses of any.
    pub fetcher: Fetcher,
    /// Largest request body, decoded, in bytes.
    pub max_body: usize,
    /// Fires when streams must end at once.
    pub cut: CancellationToken,
    /// How far degradations have gone.
    pub levels: Arc<Levels>,
    /// Every running stream.
    pub streams: Streams,
}

/// A request that went well.
enum Answer {
    Models(Bytes),
    /// In words of our own.
    Polite(Box<Polite>),
    Call(Box<Answered>),
    Deferred(Told),
}

/// An answer that has begun, and what its stages need to know of it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) opened: Opened,
    choice: Choice,
    /// What was taken away from the request that it answers.
    notice: Option<Notice>,
}

/// A request that is not answered.
pub(crate) struct Unanswered {
    pub(crate) refusal: Refusal,
    /// The model that would have answered, once that was known.
    model: Option<Arc<Model>>,
}

impl From<Refusal> for Box<Unanswered> {
    fn from(refusal: Refusal) -> Self {
        Self::new(Unanswered { refusal, model: None })
    }
}

/// What is the same for all of a request's stages.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) trace: &'a Trace,
}

impl Gateway {
    /// Answers one request. Never fails: what goes wrong becomes an error in OpenAI's form.
    pub async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: Option<IpAddr>,
    ) -> Response<Body> {
        let trace = Trace::take(request.headers());
        let mut report = Report::begin(&self.reporter, &trace, client);
        if !self.current.load().is_some_and(|policy| policy.holds_streams) {
            return self.finish(request, trace, report).await;
        }
        let (told, id) = (Arc::new(Notify::new()), report.record.request_id.clone());
        report.waits = Waits::told(told.clone());
        let rest = Box::pin(async move { self.finish(request, trace, report).await });
        hold::open(rest, &told, &id).await
    }

    async fn finish(
        &self,
        request: Request<Incoming>,
        trace: Trace,
        mut report: Report,
    ) -> Response<Body> {
        let is_head = request.method() == Method::HEAD;
        let response = match self.answer(request, &trace, &mut report).await {
            Ok(Answer::Models(list)) => respond_models(list, report),
            Ok(Answer::Polite(polite)) => polite.into_response(report),
            Ok(Answer::Call(answered)) => self.respond(*answered, report),
            Ok(Answer::Deferred(told)) => told.into_response(report),
            Err(refusal) => refusal.into_response(report),
        };
        // HTTP/1 leaves the body of an answer to HEAD out by itself, HTTP/2 does not.
        if is_head { response.map(Body::without_bytes) } else { response }
    }

    pub(crate) fn respond(&self, answered: Answered, mut report: Report) -> Response<Body> {
        let Answered { opened, choice, notice } = answered;
        report.degraded(notice);
        match opened {
            Opened::Whole(mut answer) => {
                if let Some(notice) = report.notice() {
                    notice.put_into(&mut answer);
                }
                respond_whole(answer, report)
            }
            Opened::Stream(mut stream) => {
                report.first_event();
                if let Some(notice) = report.notice() {
                    notice.put_first(&mut stream.held);
                }
                let head = stream_head(&mut report);
                let cut = self.cut.clone();
                let relay = Relay::new(*stream, choice, report, cut, &self.streams);
                head.map(|()| Body::Stream(Box::new(relay)))
            }
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        trace: &Trace,
        report: &mut Report,
    ) -> Result<Answer, Refusal> {
        let (head, incoming) = request.into_parts();
        let wanted = accept::wanted(&head.method, head.uri.path())?;
        // One policy for the whole life of the request.
        let policy = self.current.load().ok_or(Refusal::NotReady)?;
        note_head(report, &policy, &head, &wanted);
        wishes::check(&head.headers)?;
        let caller = identify::caller(&policy, self.current.keys().as_deref(), &head.headers)?;
        note_caller(report, &caller);
        let endpoint = match wanted {
            Wanted::ListModels => return Ok(Answer::Models(models::list(&policy, &caller))),
            Wanted::GetModel(name) => {
                let model = admit::model(&policy, &caller, &name)?;
                return Ok(Answer::Models(models::one(&name, &model)));
            }
            Wanted::GetDeferred(id) => {
                return self.deferred.get(&caller, &id).await.map(Answer::Deferred);
            }
            Wanted::CancelDeferred(id) => {
                return self.deferred.cancel(&caller, &id).await.map(Answer::Deferred);
            }
            Wanted::Call(endpoint) => endpoint,
        };
        self.watchman.admit(class(&caller, &head.headers))?;
        let body = accept::body(&head.headers, incoming, self.max_body).await?;
        let mut call = Call::parse(endpoint, body).map_err(Refusal::Invalid)?;
        note_call(report, &call);
        let offer = deferred::offer(&policy, &caller, &call, &head.headers)?;
        if let Some(offer) = offer.as_ref().filter(|offer| offer.at_once) {
            return self.deferred.take(offer, &caller, None, report).await.map(Answer::Deferred);
        }
        let context = Context { policy: &policy, headers: &head.headers, trace };
        let Unanswered { refusal, model } =
            match self.carry_out(context, caller.clone(), &mut call, report).await {
                Ok(answered) => return Ok(Answer::Call(Box::new(answered))),
                Err(unanswered) => *unanswered,
            };
        if let Some(offer) = offer.filter(|_| deferred::may_pass(&refusal)) {
            let taken = self.deferred.take(&offer, &caller, Some(refusal), report).await;
            return taken.map(Answer::Deferred);
        }
        let polite = model.and_then(|model| polite::in_place_of(&refusal, &model, &call, report));
        polite.map(|polite| Answer::Polite(Box::new(polite))).ok_or(refusal)
    }

    /// Runs a call through the stages from admission on.
    ///
    /// # Errors
    /// Why it is not answered; nothing is owed then.
    pub(crate) async fn carry_out(
        &self,
        context: Context<'_>,
        caller: Arc<Caller>,
        call: &mut Call,
        report: &mut Report,
    ) -> Result<Answered, Box<Unanswered>> {
        let mut permit = admit::admit(context.policy, caller, call)?;
        let judge = tasks::stage::route(self, context, &mut permit, call, report).await?;
        let mut answered = match self.ask(context, &permit, call, report).await {
            Ok(answered) => answered,
            Err(refusal) => {
                return Err(Box::new(Unanswered { refusal, model: Some(permit.model) }));
            }
        };
        if let Some(judge) = judge {
            answered = self.improve(&judge, context, permit, call, answered, report).await;
        }
        Ok(answered)
    }

    /// Asks the model of the permit for an answer. Whole answers are settled then.
    ///
    /// # Errors
    /// What stood in the way; nothing is owed then.
    pub(crate) async fn ask(
        &self,
        context: Context<'_>,
        permit: &Permit,
        call: &mut Call,
        report: &mut Report,
    ) -> Result<Answered, Refusal> {
        let policy = context.policy;
        let mut stripped = None;
        let notice = self.degrade(policy, permit, call, &mut stripped, report)?;
        let call = stripped.as_deref_mut().unwrap_or(call);
        let load = load(permit, call, context.headers);
        let plan = route::plan(policy, permit, call.endpoint, &self.pool, load)?;
        let mut limited = self.limit(policy, permit, call, report).await?;
        let suspect = self.guard.suspect(&permit.caller.shares_as, &call.model, &call.body);
        let asked = Asked {
            call,
            trace: context.trace,
            fetcher: &self.fetcher,
            group: &permit.model.group,
            once: policy.retries_are_off() || !self.watchman.may_retry(),
            suspect: &suspect,
        };
        match attempt::first_answer(plan, asked, &mut limited, report).await {
            Ok((mut opened, choice)) => {
                if let Opened::Whole(answer) = &mut opened {
                    conclude(answer, &choice, report);
                }
                Ok(Answered { opened, choice, notice })
            }
            Err(refusal) => {
                settle_failed(report, refusal.blame());
                Err(refusal)
            }
        }
    }

    /// What degradations come to for the request: it goes on without some tools, as `stripped`, or not at
    /// all.
    fn degrade(
        &self,
        policy: &Policy,
        permit: &Permit,
        call: &Call,
        stripped: &mut Option<Box<Call>>,
        report: &mut Report,
    ) -> Result<Option<Notice>, Refusal> {
        let effect = self.levels.effect(policy, &permit.model.name, &permit.caller.tenants);
        let degraded = degraded::degrade(&effect, call).map_err(Refusal::Invalid)?;
        report.degraded(degraded.notice().cloned());
        if let Degraded::Reply { text, .. } = degraded {
            return Err(Refusal::Maintenance { text: text.to_owned() });
        }
        let notice = degraded.notice().cloned();
        if let Degraded::Stripped { call, .. } = degraded {
            *stripped = Some(call);
        }
        let offers = offers_tools(stripped.as_deref().unwrap_or(call));
        report.offers_tools(offers.then_some(permit));
        Ok(notice)
    }

    /// Lets stronger models answer as long as the answer is not good enough. A poor one is better than
    /// none.
    async fn improve(
        &self,
        judge: &Model,
        context: Context<'_>,
        mut permit: Permit,
        call: &mut Call,
        mut answered: Answered,
        report: &mut Report,
    ) -> Answered {
        loop {
            let before = report.record.route.clone();
            let better = tasks::stage::better(judge, context, &permit, call, &answered, report);
            let Some(next) = better else { return answered };
            match self.ask(context, &next, call, report).await {
                Ok(better) => (answered, permit) = (better, next),
                Err(_) => {
                    tasks::stage::undo(report, before);
                    return answered;
                }
            }
        }
    }

    /// Takes what the request may need from every limit that is for it. From here on the report
    /// settles it.
    async fn limit<'a>(
        &'a self,
        policy: &'a Policy,
        permit: &'a Permit,
        call: &mut Call,
        report: &mut Report,
    ) -> Result<Limited<'a>, Refusal> {
        if self.usage.is_full() {
            return Err(Refusal::JournalFull);
        }
        let model = &permit.model;
        let upstream_name = model.targets.first().and_then(|target| target.model.as_deref());
        let upstream_name = upstream_name.unwrap_or(&permit.upstream_name);
        let stats = self.learned.of(&model.name);
        let precise = policy.limits.measure_tokens();
        let sizes =
            Sizes::of(call, upstream_name, model.tokenizer, model.output_cap, &stats, precise);
        let names = Names::of(permit, report);
        let deadline = report.deadline();
        let mut limited = Limited { quota: &self.quota, policy, permit, names, sizes, deadline };
        let reservation = limited.reserve(None, true).await.map_err(Refusal::Limited)?;
        call.send_cap = limited.sizes.cap_to_send();
        report.standings = reservation.standings;
        report.bill = Some(Bill::new(&self.usage, model, &limited.sizes, stats, reservation));
        Ok(limited)
    }
}

/// How much a request is, as far as its size tells, and whose.
fn load(permit: &Permit, call: &Call, headers: &HeaderMap) -> Load {
    let caller = &permit.caller;
    let prompt_tokens = call.rough_prompt_tokens();
    let head = || call.member("messages").map_or(&call.body[..], |(_, messages)| messages);
    Load {
        prompt_tokens,
        tokens: prompt_tokens,
        prefix: if permit.model.group.choosing.by_prefix() { prefix_of(head()) } else { 0 },
        tenant: caller.shares_as.clone(),
        weight: caller.weight,
        class: class(caller, headers),
    }
}

/// How urgent a request is: as its tenant's are, or less, if the caller says so.
fn class(caller: &Caller, headers: &HeaderMap) -> Class {
    let wanted = headers.get(PRIORITY).and_then(|value| Priority::parse(value.to_str().ok()?));
    match wanted.map_or(caller.priority, |wanted| wanted.max(caller.priority)) {
        Priority::Critical => Class::Critical,
        Priority::Interactive => Class::Interactive,
        Priority::Default => Class::Default,
        Priority::Batch => Class::Batch,
    }
}

pub(crate) fn note_head(
    report: &mut Report,
    policy: &Policy,
    head: &http::request::Parts,
    wanted: &Wanted,
) {
    report.fills_usage = head.headers.get(FILL_USAGE).is_some_and(|value| value == "true");
    let limit = head.headers.get(DEADLINE).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(ms) = limit {
        report.must_end_within(Duration::from_millis(ms));
    }
    report.record.policy_version = policy.revision;
    report.record.endpoint = match wanted {
        Wanted::Call(endpoint) => endpoint.name(),
        Wanted::ListModels | Wanted::GetModel(_) => "models",
        Wanted::GetDeferred(_) | Wanted::CancelDeferred(_) => "deferred",
    };
    let app = head.headers.get("x-app-source").and_then(|value| value.to_str().ok());
    report.record.app = app.map(|app| app.chars().take(128).collect());
}

pub(crate) fn note_caller(report: &mut Report, caller: &Caller) {
    report.record.key = Some(caller.key.clone());
    report.record.tenant.clone_from(&caller.tenant);
    report.record.user.clone_from(&caller.user);
}

pub(crate) fn note_call(report: &mut Report, call: &Call) {
    let model = call.model.chars().take(sluicegate_model::name::MAX_MODEL_NAME).collect();
    report.record.model = Some(model);
    report.record.stream = call.stream;
    if call.user.is_some() {
        report.record.user.clone_from(&call.user);
    }
}

fn respond_models(list: Bytes, mut report: Report) -> Response<Body> {
    report.record.status = 200;
    report.record.outcome = Outcome::Success.name();
    let request_id = report.record.request_id.clone();
    let mut response = Response::new(Body::full(list, report));
    respond::common(response.headers_mut(), &request_id, "application/json");
    response
}

/// A whole answer is there: what it costs, and what the record says of it.
fn conclude(answer: &mut WholeAnswer, choice: &Choice, report: &mut Report) {
    let outcome = outcome_of(answer, report);
    report.record.outcome = outcome.name();
    report.record.finish_reason.clone_from(&answer.finish_reason);
    report.metrics().attempted(&choice.provider.name, outcome);
    if let Some(attempt) = report.record.attempts.last_mut() {
        attempt.outcome = outcome.name();
        attempt.status = Some(200);
        attempt.duration_ms =
            u64::try_from(answer.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    if answer.fills_usage
        && answer.usage.is_none()
        && let Some(bill) = &report.bill
    {
        let (usage, _) = bill.believed(None, answer.output_chars);
        answer.body = fill::into_answer(&answer.body, usage);
    }
    report.record.status = 200;
    settle(report, answer.usage, answer.output_chars);
}

fn outcome_of(answer: &WholeAnswer, report: &Report) -> Outcome {
    let proven = answer.finish_reason.is_some() || report.record.endpoint == "embeddings";
    if proven { Outcome::Success } else { Outcome::NoFinishReason }
}

fn respond_whole(answer: WholeAnswer, mut report: Report) -> Response<Body> {
    report.first_event();
    report.record.outcome = outcome_of(&answer, &report).name();
    report.record.status = 200;
    if answer.is_stream {
        return stream_head(&mut report).map(|()| Body::events(answer.body, report));
    }
    head(&report, "application/json").map(|()| Body::full(answer.body, report))
}

fn stream_head(report: &mut Report) -> Response<()> {
    report.record.status = 200;
    let mut response = head(report, "text/event-stream");
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks proxies in front not to collect what should flow.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn head(report: &Report, content_type: &'static str) -> Response<()> {
    let mut response = Response::new(());
    respond::common(response.headers_mut(), &report.record.request_id, content_type);
    let attempts = HeaderValue::from(report.record.attempts.len());
    response.headers_mut().insert(respond::ATTEMPTS, attempts);
    respond::stand(response.headers_mut(), &report.standings);
    respond::dropped(response.headers_mut(), &report.dropped);
    if let Some(notice) = report.notice() {
        respond::degraded(response.headers_mut(), &notice.header());
    }
    if let Some(route) = &report.record.route {
        respond::route(response.headers_mut(), route);
    }
    if let Some(fallback) = &report.record.fallback {
        respond::fallback(response.headers_mut(), fallback);
    }
    response
}
