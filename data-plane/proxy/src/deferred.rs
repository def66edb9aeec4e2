//! Requests that are kept for later, because no target can take them now or because their callers are
//! in no hurry.
//!
//! A control plane keeps them; this is the data plane's part. [`offer`] says which requests may be
//! kept, [`Deferred`] takes them, and tells their callers what became of them, [`Runner`] runs them
//! through the same stages as every other request, on whichever data plane it is their turn.

mod answers;
mod client;
mod offer;
mod pace;
mod queues;
mod run;
mod runner;
mod verdict;

use std::{sync::Arc, time::Duration};

use sluicegate_model::secret::Secret;
use sluicegate_proto::deferred::v1 as pb;
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::StatusExt;

pub use answers::Told;
pub(crate) use offer::DEFER;
pub use offer::{Offer, offer};
pub use runner::Runner;
pub(crate) use verdict::may_pass;

use self::client::{Client, Failure};
use crate::{
    metrics::Metrics,
    policy::Caller,
    refusal::{Refusal, Undeferred},
    report::Report,
};

/// Largest request that is kept. Stores take 8 MiB, what sealing adds among them. Bytes.
const MOST_BODY: usize = (8 << 20) - 4096;
/// Largest answer that is kept. Bytes.
const MOST_ANSWER: usize = (8 << 20) - 4096;
/// When a target may be well again that does not say.
const SOON: Duration = Duration::from_secs(1);
/// How long a request waits whose caller does not say.
const DAY_MS: u64 = 86_400_000;

/// Keeps requests with the control plane, and knows what became of them.
#[derive(Debug)]
pub struct Deferred {
    client: Client,
    node_id: String,
    metrics: Arc<Metrics>,
}

impl Deferred {
    /// Kept by the first of these control planes that answers.
    pub fn new(
        endpoints: &[Endpoint],
        token: &Secret,
        node_id: String,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self { client: Client::new(endpoints, token), node_id, metrics })
    }

    /// Takes a request in, which was refused with `refusal` or was not tried.
    ///
    /// # Errors
    /// The refusal, and why the request is not kept. Where no control plane answered in time it may be kept
    /// all the same, which the refusal says; whoever named it asks again for the same.
    pub async fn take(
        &self,
        offer: &Offer<'_>,
        caller: &Caller,
        refusal: Option<Refusal>,
        report: &mut Report,
    ) -> Result<Told, Refusal> {
        let shown = refusal.as_ref().map(Refusal::shown);
        let wait = match &shown {
            Some(shown) => shown.retry.unwrap_or(SOON),
            None => Duration::ZERO,
        };
        match self.keep(offer, caller, wait).await {
            Ok(told) => {
                report.record.reason = shown.map(|shown| shown.message);
                let why = if offer.at_once { "asked" } else { "unavailable" };
                self.metrics.deferred.taken(&offer.model.name, why);
                Ok(told)
            }
            Err(why) => {
                tracing::info!(
                    request_id = report.record.request_id,
                    ?why,
                    "a request is not kept for later"
                );
                Err(match refusal {
                    Some(refusal) => Refusal::NotKept { refusal: Box::new(refusal), why },
                    None => Refusal::Deferral(why),
                })
            }
        }
    }

    async fn keep(
        &self,
        offer: &Offer<'_>,
        caller: &Caller,
        wait: Duration,
    ) -> Result<Told, Undeferred> {
        let request = offer.put(caller)?;
        let put = self.client.put(request.clone()).await.map_err(undeferred)?;
        if put.existing && offer.is_named() {
            // It may have been run by now.
            let get = pb::GetRequest { caller: request.caller.clone(), id: put.id.clone() };
            if let Ok(reply) = self.client.get(get).await {
                return Ok(answers::standing(&reply, true));
            }
        }
        Ok(answers::accepted(&put, &request, &offer.asked, wait))
    }

    /// How a request of the caller stands.
    ///
    /// # Errors
    /// There is none, or nobody can tell.
    pub async fn get(&self, caller: &Caller, id: &str) -> Result<Told, Refusal> {
        let get = pb::GetRequest { caller: Some(offer::owner(caller)), id: known(id)? };
        let reply = self.client.get(get).await.map_err(|failure| unfetched(id, failure))?;
        Ok(answers::standing(&reply, false))
    }

    /// Ends a request of the caller, unless it has ended; then tells how it stands.
    ///
    /// # Errors
    /// As [`Deferred::get`].
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<Told, Refusal> {
        let cancel = pb::CancelRequest { caller: Some(offer::owner(caller)), id: known(id)? };
        self.client.cancel(cancel).await.map_err(|failure| unfetched(id, failure))?;
        self.get(caller, id).await
    }
}

/// An id that may be one.
fn known(id: &str) -> Result<String, Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.len() <= 64 && id.bytes().all(is_plain) { Ok(id.to_owned()) } else { Err(unknown(id)) }
}

fn unknown(id: &str) -> Refusal {
    Refusal::UnknownDeferred { id: id.chars().take(64).collect() }
}

fn unfetched(id: &str, failure: Failure) -> Refusal {
    match failure {
        Failure::Refused(status) if status.code() == Code::NotFound => unknown(id),
        Failure::Refused(status) => Refusal::Deferral(Undeferred::Away(said(&status))),
        Failure::Away(reason) => Refusal::Deferral(Undeferred::Away(reason)),
    }
}

/// Why a control plane does not keep a request.
fn undeferred(failure: Failure) -> Undeferred {
    let status = match failure {
        Failure::Away(reason) => return Undeferred::Away(reason),
        Failure::Refused(status) => status,
    };
    let too_large =
        status.get_details_error_info().filter(|info| info.reason == "DEFERRED_TOO_LARGE");
    match (status.code(), too_large) {
        (Code::OutOfRange, _) => Undeferred::TooLarge { limit: MOST_BODY },
        (_, Some(info)) => {
            let limit = info.metadata.get("limit").and_then(|limit| limit.parse().ok());
            Undeferred::TooLarge { limit: limit.unwrap_or(MOST_BODY) }
        }
        (Code::ResourceExhausted, _) => Undeferred::NoRoom(said(&status)),
        (Code::InvalidArgument, _) => Undeferred::Invalid(said(&status)),
        _ => Undeferred::Away(said(&status)),
    }
}

/// What a control plane says, with what is wrong with each field.
fn said(status: &Status) -> String {
    let details = status.get_details_bad_request();
    let fields = details.iter().flat_map(|details| &details.field_violations);
    let fields = fields.map(|one| format!("{} {}", one.field, one.description));
    let mut said: Vec<_> = fields.collect();
    if said.is_empty() {
        said.push(status.message().to_owned());
    }
    said.join("; ")
}

#[cfg(test)]
mod tests;
