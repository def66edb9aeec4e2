//! The stage behind admission: which model a task goes to, and whether its answer is good enough.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::HeaderMap;
use sluicegate_dialect::{Call, Endpoint};
use sluicegate_model::resource::{
    Routing,
    routing::{Classifier, Label},
};
use sluicegate_telemetry::record::{PassedOverRecord, RouteRecord};
use tokio::time::{Instant, timeout_at};

use super::{
    Asker, By, Decision, Features, HEADER, Route, choose, classify, decide, decide::labelled,
    escalate::escalate,
};
use crate::{
    admit::Permit,
    attempt::Opened,
    pipeline::{Answered, Context, Gateway},
    policy::Model,
    refusal::Refusal,
    report::Report,
};

/// Longest way over models that are routed themselves. Validation has seen to it that none comes back.
const MAX_HOPS: usize = 8;
/// The attempts' own clocks end them; this is for whatever else may hang.
const GRACE: Duration = Duration::from_millis(50);
/// What the questions of our own are named after in records.
const CLASSIFY: &str = "classify";

/// Where the rules lead, free of what they were asked about.
enum Step {
    Taken(Taken),
    /// The small model is to be asked this.
    Ask(Bytes),
}

/// A route, kept.
struct Taken {
    model: String,
    by: String,
    /// The caller chose.
    chosen: bool,
}

impl Taken {
    fn of(route: Route<'_>) -> Self {
        let chosen = matches!(route.by, By::ChosenRule(_) | By::ChosenModel | By::Off);
        Self { model: route.model.to_owned(), by: route.by.to_string(), chosen }
    }
}

/// Lets the model that the task calls for take the place of one that is routed. Returns the model
/// whose routing decided, which judges the answer, too; `None` where nothing was to be decided, or the
/// caller did.
///
/// # Errors
/// The caller's own choice is not to be had.
pub(crate) async fn route(
    gateway: &Gateway,
    context: Context<'_>,
    permit: &mut Permit,
    call: &Call,
    report: &mut Report,
) -> Result<Option<Arc<Model>>, Refusal> {
    let mut judge = None;
    for hop in 0..MAX_HOPS {
        let from = permit.model.clone();
        let Some(routing) = &from.routing else { break };
        let wish = (hop == 0).then(|| context.headers.get(HEADER)).flatten();
        let taken = match first_step(routing, permit, wish, call, context.headers)? {
            Step::Taken(taken) => taken,
            Step::Ask(body) => {
                let label = match &routing.classifier {
                    Some(classifier) => {
                        let id = format!("{}-{CLASSIFY}-{hop}", report.record.request_id);
                        ask(gateway, context, permit, classifier, body, (id, report)).await
                    }
                    None => None,
                };
                Taken::of(labelled(routing, &from.name, label))
            }
        };
        let to = context.policy.model(&taken.model).filter(|to| to.name != from.name).cloned();
        if let Some(to) = &to
            && taken.chosen
            && !permit.caller.may_use(to)
        {
            return Err(Refusal::ModelNotAllowed { model: taken.model });
        }
        note(report, &from, taken.model, taken.by);
        let Some(to) = to else {
            return Ok((!taken.chosen).then_some(from));
        };
        *permit = permit.to(to);
        judge = Some(from);
        if taken.chosen {
            return Ok(None);
        }
    }
    Ok(judge)
}

/// What the caller's word or the rules say.
fn first_step(
    routing: &Routing,
    permit: &Permit,
    wish: Option<&http::HeaderValue>,
    call: &Call,
    headers: &HeaderMap,
) -> Result<Step, Refusal> {
    let own = &permit.model.name;
    if let Some(wish) = wish {
        let route = choose(wish.as_bytes(), routing, own).map_err(Refusal::BadRoute)?;
        return Ok(Step::Taken(Taken::of(route)));
    }
    let caller = &permit.caller;
    let asker = Asker { headers, tenants: &caller.tenants, key: Some(&caller.key) };
    let features = Features::of(call, asker);
    Ok(match decide(routing, own, &features) {
        Decision::To(route) => Step::Taken(Taken::of(route)),
        Decision::Ask(classifier) => Step::Ask(classify::request(classifier, features.text())),
    })
}

/// Asks the small model, on the caller's account and within its deadline. `None`: it said nothing of
/// use, or not in time.
async fn ask<'c>(
    gateway: &Gateway,
    context: Context<'_>,
    permit: &Permit,
    classifier: &'c Classifier,
    body: Bytes,
    (id, main): (String, &Report),
) -> Option<&'c Label> {
    let model = context.policy.model(&classifier.model)?.clone();
    let permit = permit.to(model);
    let mut call = Call::parse(Endpoint::Chat, body).ok()?;
    let mut own = main.aside(context.trace, id, CLASSIFY);
    own.record.model = Some(classifier.model.clone());
    own.must_end_within(classifier.deadline);
    let by = Instant::now() + classifier.deadline + GRACE;
    let by = main.deadline().map_or(by, |deadline| by.min(deadline));
    let answered = match timeout_at(by, gateway.ask(context, &permit, &mut call, &mut own)).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(refusal)) => {
            // Its record is written; the answer is nobody's.
            drop(refusal.into_response(own));
            return None;
        }
        Err(_late) => {
            own.record.reason = Some("the label did not come in time".to_owned());
            return None;
        }
    };
    let Opened::Whole(answer) = &answered.opened else { return None };
    own.finish();
    classify::label(classifier, &answer.body)
}

fn note(report: &mut Report, from: &Model, model: String, by: String) {
    report.metrics().routed(&from.name, &model);
    report.record.route = Some(RouteRecord { model, by, passed_over: Vec::new() });
}

/// Who is to answer in the place of a model whose whole answer is not good enough. The record is made
/// ready for that; [`undo`] takes it back.
pub(crate) fn better(
    judge: &Model,
    context: Context<'_>,
    permit: &Permit,
    call: &Call,
    answered: &Answered,
    report: &mut Report,
) -> Option<Permit> {
    let escalation = judge.routing.as_ref()?.escalation.as_ref()?;
    let Opened::Whole(answer) = &answered.opened else { return None };
    if answer.is_stream || call.endpoint == Endpoint::Embeddings {
        return None;
    }
    let own = &permit.model.name;
    let asker = Asker { headers: context.headers, tenants: &[], key: None };
    let json = Features::of(call, asker).json;
    let next = escalate(escalation, own, json, &answer.body)?;
    let to = context.policy.model(next.model)?.clone();
    let usage = report.record.usage.take();
    let route = report.record.route.get_or_insert_default();
    route.passed_over.push(PassedOverRecord { model: own.clone(), usage });
    next.model.clone_into(&mut route.model);
    route.by = next.by.to_string();
    report.metrics().routed(&judge.name, next.model);
    report.unanswered();
    Some(permit.to(to))
}

/// Nobody answered better: the answer that was passed over stands.
pub(crate) fn undo(report: &mut Report, route: Option<RouteRecord>) {
    let stands = report.record.route.as_mut().and_then(|route| route.passed_over.pop());
    report.record.usage = stands.and_then(|stands| stands.usage);
    report.record.route = route;
}
