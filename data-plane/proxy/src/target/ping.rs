//! A probe of the gateway's own, where the fleet wants one and no request waits: a chat completion of
//! one token. Nobody is billed for it.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::HeaderMap;
use serde_json::json;
use sluicegate_dialect::{Call, Destination, Endpoint, Fault};
use sluicegate_model::Outcome;
use sluicegate_protocol::breaker::End;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Target, end_of};
use crate::{
    attempt::send::{self, Outgoing},
    metrics::Metrics,
    policy::{Credential, Current, Policy, Provider},
    pool::Pool,
    trace::Trace,
    upstream::decode::Decoded,
};

/// A request that comes within this time is the probe.
const PATIENCE: Duration = Duration::from_millis(200);
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// What a probe needs.
#[derive(Debug)]
pub(super) struct Pinger {
    pub(super) current: Arc<Current>,
    pub(super) pool: Arc<Pool>,
    pub(super) metrics: Arc<Metrics>,
}

impl Pinger {
    /// Sends one, unless a request was sooner. It must be answered within `deadline_ms`.
    pub(super) async fn ping(&self, target: &Arc<Target>, deadline_ms: u64) {
        sleep(PATIENCE).await;
        let Some(policy) = self.current.load().filter(|_| target.wants_probe()) else { return };
        // A target that no model names needs no probe.
        let Some(provider) = provider(&policy, target) else { return };
        let Ok(mut trip) = target.admit(1) else { return };
        if !trip.is_probe() {
            return;
        }
        let deadline = Instant::now() + Duration::from_millis(deadline_ms);
        // Without a key to find out with the trip ends without a word.
        let Some(answer) = self.complete(provider, &target.key.model, deadline).await else {
            return;
        };
        let end = match answer {
            Ok(()) => {
                trip.first_event(1);
                End::Success
            }
            Err(fault) => match end_of(&fault, false) {
                // It answers; that it does not like this request is no illness.
                End::Neutral => {
                    trip.first_event(0);
                    End::Success
                }
                end => end,
            },
        };
        self.metrics.pinged(&target.key, end == End::Success);
        tracing::info!(target = %target.key, ?end, "a probe of the gateway's own has ended");
        trip.ended(end, false);
    }

    /// Asks for a completion of one token with one of the provider's keys; `None`: no key is up.
    pub(super) async fn complete(
        &self,
        provider: &Arc<Provider>,
        model: &str,
        deadline: Instant,
    ) -> Option<Result<(), Fault>> {
        let pass = if provider.keyless {
            None
        } else {
            Some(self.pool.choose(provider, &provider.credentials, model).ok()?)
        };
        let credential = pass.as_ref().map(|pass| pass.credential().as_ref());
        let answer = ask(provider, credential, model, deadline).await;
        match (&pass, &answer) {
            (Some(pass), Ok(())) => pass.succeeded(),
            (Some(pass), Err(fault)) => pass.failed(fault, false),
            (None, _) => {}
        }
        Some(answer)
    }
}

/// The provider, as the policy has it.
fn provider<'a>(policy: &'a Policy, target: &Arc<Target>) -> Option<&'a Arc<Provider>> {
    let models = policy.model_names().into_iter().flat_map(|(_, model)| &model.targets);
    let mut of = models.filter(|one| Arc::ptr_eq(&one.state, target));
    of.next().map(|one| &one.provider)
}

async fn ask(
    provider: &Provider,
    credential: Option<&Credential>,
    model: &str,
    deadline: Instant,
) -> Result<(), Fault> {
    let body = json!({
        "model": model, "max_tokens": 1, "messages": [{ "role": "user", "content": "ping" }],
    });
    // What the gateway cannot even say is no fault of the target's.
    let unsaid = |why: String| Fault::new(Outcome::InvalidRequest, why);
    let call = Call::parse(Endpoint::Chat, Bytes::from(body.to_string()))
        .map_err(|fault| unsaid(fault.to_string()))?;
    let to = Destination { model, profile: &provider.profile };
    let translated =
        provider.dialect.request(&call, &to).map_err(|unfit| unsaid(unfit.to_string()))?;
    let trace = Trace::take(&HeaderMap::new());
    let outgoing =
        Outgoing { provider, credential, call: &call, translated: &translated, trace: &trace };
    let request = outgoing.request(deadline).await?;
    let late = |_| Fault::new(Outcome::Timeout, "no answer to a probe in time");
    // A connection of its own: that a kept one was closed says nothing.
    let answer = timeout_at(deadline, provider.client.fresh.request(request)).await;
    let answer = answer.map_err(late)?.map_err(|error| send::transport(&error))?;
    let (head, body) = answer.into_parts();
    let body = Decoded::new(&head.headers, body)
        .map_err(|error| Fault::new(Outcome::ProviderError, error.to_string()))?;
    if !head.status.is_success() {
        let body = send::error_body(body, deadline).await;
        return Err(provider.dialect.refusal(head.status, &head.headers, &body));
    }
    let body = timeout_at(deadline, whole(body)).await.map_err(late)??;
    provider.dialect.answer(&call, &head.headers, &body).map(drop)
}

async fn whole(mut body: Decoded) -> Result<Bytes, Fault> {
    let mut read = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk =
            chunk.map_err(|_| Fault::new(Outcome::Network, "the connection broke within"))?;
        if read.len() + chunk.len() > MAX_ANSWER {
            return Err(Fault::new(Outcome::ProviderError, "the answer to a probe is too large"));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read.freeze())
}
