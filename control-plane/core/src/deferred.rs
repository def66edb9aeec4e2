//! Deferred requests: kept for data planes, who run them, and for callers, who fetch or are told what
//! came of them.
//!
//! What callers wrote and were answered is sealed before it is kept, each for its own place. A caller
//! sees its own requests and no others.

mod operators;
mod parse;
mod sealed;
pub mod webhook;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prost::Message;
use sha2::{Digest, Sha256};
use sluicegate_model::{Violation, path::Path, seal::SealKey};
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_store::deferred::{
    Cancelled, Claim, Claimed, Deferred as Store, DeferredLimits, Delivery, DeliveryOutcome,
    Finished, Held, Job, JobState, JobStatus, Put, QueueCount,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout_at},
};

pub use self::operators::Wanted;
use self::{
    parse::{Owner, Want},
    sealed::{Place, Sealed},
    webhook::{Allowed, Webhook},
};
use crate::error::CoreError;

/// How often a claim that waits looks what other replicas were given.
const POLL: Duration = Duration::from_secs(1);
/// How long whoever delivers has an end, beyond the deadline of one attempt.
const DELIVERY_LEASE_MS: u64 = 60_000;

/// The deferred requests of the fleet.
#[derive(Debug)]
pub struct Deferred {
    store: Arc<dyn Store>,
    sealed: Sealed,
    allowed: Allowed,
    /// Grows with everything that may be claimed, and names the queue of the last.
    news: watch::Sender<(u64, String)>,
    /// Something has ended.
    ended: Notify,
    counts: Mutex<Vec<QueueCount>>,
}

impl Deferred {
    /// Requests in this store, sealed with this key, told to addresses that are public or `allowed`.
    pub fn new(store: Arc<dyn Store>, key: SealKey, allowed: Allowed) -> Self {
        Self {
            store,
            sealed: Sealed(key),
            allowed,
            news: watch::Sender::default(),
            ended: Notify::new(),
            counts: Mutex::default(),
        }
    }

    /// What the store takes.
    pub fn limits(&self) -> DeferredLimits {
        self.store.limits()
    }

    /// Where ends may be told.
    pub fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// Keeps a request.
    ///
    /// # Errors
    /// [`CoreError::Invalid`]; [`CoreError::Deferred`] when it is too large or there is no room.
    pub async fn put(&self, request: pb::PutRequest) -> Result<pb::PutReply, CoreError> {
        let want = Want::parse(request, &self.allowed)?;
        let id = format!("def_{}", uuid::Uuid::new_v4().simple());
        let body_sha256 = Sha256::digest(&want.body).to_vec().into();
        let kept = pb::Kept { note: want.note, webhook: want.webhook, body_sha256 };
        let job = Job {
            body: self.sealed.seal(Place::Body, &id, &want.body)?,
            meta: self.sealed.seal(Place::Kept, &id, &kept.encode_to_vec())?,
            id,
            owner: want.owner.to_text(),
            party: want.owner.party(),
            idempotency_key: want.idempotency_key,
            queue: want.queue,
            expires_ms: want.expires_ms,
            keep_ms: want.keep_ms,
            deliver: kept.webhook.is_some(),
        };
        let put = self.store.put(&job).await?;
        let (id, existing) = match put.answer {
            Put::Stored => (job.id, false),
            Put::Existing(id) => {
                self.must_be_the_same(&id, &kept).await?;
                (id, true)
            }
        };
        self.tell(&job.queue);
        Ok(pb::PutReply { id, existing, durable: put.durable })
    }

    /// A key that was used before is for the same request again.
    async fn must_be_the_same(&self, id: &str, kept: &pb::Kept) -> Result<(), CoreError> {
        let Some(known) = self.store.get(id).await? else { return Ok(()) };
        let known = self.kept(id, &known.meta)?;
        if known.body_sha256.is_empty() || known.body_sha256 == kept.body_sha256 {
            return Ok(());
        }
        let path = Path::root().field("idempotency_key");
        let violation = Violation::new(path, "was used for another request");
        Err(CoreError::Invalid(violation.hint("give every request a key of its own").into()))
    }

    /// How a request of the caller stands.
    ///
    /// # Errors
    /// [`CoreError::UnknownRequest`], also for another caller's.
    pub async fn get(&self, request: pb::GetRequest) -> Result<pb::GetReply, CoreError> {
        let status = self.of(request.caller, &request.id).await?;
        let kept = self.kept(&status.id, &status.meta)?;
        let response = match &status.result {
            Some(result) => Some(self.response(&status.id, result)?),
            None => None,
        };
        Ok(pb::GetReply {
            state: state(status.state).into(),
            id: status.id,
            queue: status.queue,
            attempt: status.attempt,
            ahead: status.ahead,
            age_ms: status.age_ms,
            left_ms: status.left_ms,
            note: kept.note,
            response,
        })
    }

    /// Ends a request of the caller without a result.
    ///
    /// # Errors
    /// As [`Deferred::get`].
    pub async fn cancel(&self, request: pb::CancelRequest) -> Result<pb::CancelReply, CoreError> {
        let status = self.of(request.caller, &request.id).await?;
        let cancelled = self.store.cancel(&status.id).await?;
        match cancelled.answer {
            Cancelled::Done => Ok(pb::CancelReply { cancelled: true, durable: cancelled.durable }),
            Cancelled::Already => {
                Ok(pb::CancelReply { cancelled: false, durable: cancelled.durable })
            }
            // It was forgotten a moment ago.
            Cancelled::Unknown => Err(CoreError::UnknownRequest { id: request.id }),
        }
    }

    /// Gives requests to be run. Waits for some, as long as is asked and at most 20 s.
    ///
    /// # Errors
    /// [`CoreError::Invalid`].
    pub async fn claim(&self, request: pb::ClaimRequest) -> Result<pb::ClaimReply, CoreError> {
        let (claim, wait) = parse::claim(request)?;
        let deadline = Instant::now() + wait;
        let mut news = self.news.subscribe();
        loop {
            let seen = news.borrow_and_update().0;
            let claimed = self.store.claim(&claim).await?;
            let is_over = Instant::now() >= deadline || claim.queues.is_empty();
            if !claimed.is_empty() || is_over {
                let requests = self.opened(claimed).await;
                return Ok(pb::ClaimReply { requests });
            }
            let until = deadline.min(Instant::now() + POLL);
            tokio::select! {
                () = concerns(&mut news, seen, &claim) => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Keeps a request for whoever runs it.
    ///
    /// # Errors
    /// [`CoreError::Invalid`].
    pub async fn extend(&self, request: pb::ExtendRequest) -> Result<pb::ExtendReply, CoreError> {
        let lease_ms = parse::lease_ms(request.lease_ms)?;
        let held = self.store.extend(&request.id, request.attempt, lease_ms).await?;
        Ok(pb::ExtendReply { held: held == Held::Yes })
    }

    /// Takes the result of a request.
    ///
    /// # Errors
    /// [`CoreError::Invalid`]; [`CoreError::Deferred`] when it is too large.
    pub async fn finish(&self, request: pb::FinishRequest) -> Result<pb::FinishReply, CoreError> {
        let response = parse::response(request.response)?;
        let sealed = self.sealed.seal(Place::Result, &request.id, &response.encode_to_vec())?;
        let finished = self.store.finish(&request.id, request.attempt, &sealed).await?;
        let status = match finished.answer {
            Finished::Recorded => pb::FinishStatus::Recorded,
            Finished::Already => pb::FinishStatus::Already,
            Finished::Unknown => pb::FinishStatus::Unknown,
        };
        self.ended.notify_one();
        Ok(pb::FinishReply { status: status.into(), durable: finished.durable })
    }

    /// Takes back a request that was not run.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn release(
        &self,
        request: pb::ReleaseRequest,
    ) -> Result<pb::ReleaseReply, CoreError> {
        let pb::ReleaseRequest { id, attempt, after_ms } = request;
        let held = self.store.release(&id, attempt, after_ms).await?;
        if held == Held::Yes && after_ms == 0 {
            // Nobody knows which queue it was: everybody looks.
            self.tell("");
        }
        Ok(pb::ReleaseReply { released: held == Held::Yes })
    }

    /// Ends that are to be told now, at most `most`. They are nobody else's for a minute.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn deliveries(&self, most: usize) -> Result<Vec<Webhook>, CoreError> {
        let mut webhooks = Vec::new();
        for delivery in self.store.claim_deliveries(most, DELIVERY_LEASE_MS).await? {
            match self.webhook(&delivery) {
                Ok(webhook) => webhooks.push(webhook),
                Err(error) => {
                    tracing::error!(id = delivery.id, %error, "a result cannot be delivered");
                    let over = DeliveryOutcome::Over;
                    self.store.delivered(&delivery.id, delivery.attempt, over).await?;
                }
            }
        }
        Ok(webhooks)
    }

    /// What became of an attempt to tell an end.
    ///
    /// # Errors
    /// Those of the store; then it is told once more.
    pub async fn delivered(
        &self,
        webhook: &Webhook,
        outcome: DeliveryOutcome,
    ) -> Result<(), CoreError> {
        Ok(self.store.delivered(&webhook.id, webhook.attempt, outcome).await?)
    }

    /// Returns when something has ended, or at `deadline`.
    pub async fn until_ended(&self, deadline: Instant) {
        drop(timeout_at(deadline, self.ended.notified()).await);
    }

    /// Asks the store how many requests wait and run.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn count(&self) -> Result<(), CoreError> {
        let counts = self.store.counts().await?;
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        Ok(())
    }

    /// What [`Deferred::count`] was told last.
    pub fn counts(&self) -> Vec<QueueCount> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn of(&self, caller: Option<pb::Caller>, id: &str) -> Result<JobStatus, CoreError> {
        let owner = Owner::parse(caller)?.to_text();
        let found = self.store.get(id).await?;
        let unknown = || CoreError::UnknownRequest { id: id.to_owned() };
        found.filter(|status| status.owner == owner).ok_or_else(unknown)
    }

    /// Requests as they were put. One that cannot be opened is of use to nobody, and ends.
    async fn opened(&self, claimed: Vec<Claimed>) -> Vec<pb::Claimed> {
        let mut requests = Vec::with_capacity(claimed.len());
        for one in claimed {
            match self.open(&one) {
                Ok(request) => requests.push(request),
                Err(error) => {
                    tracing::error!(id = one.id, %error, "a deferred request cannot be run");
                    if let Err(error) = self.store.cancel(&one.id).await {
                        tracing::warn!(id = one.id, %error, "it cannot be cancelled, either");
                    }
                }
            }
        }
        requests
    }

    fn open(&self, claimed: &Claimed) -> Result<pb::Claimed, CoreError> {
        let id = &claimed.id;
        Ok(pb::Claimed {
            id: id.clone(),
            queue: claimed.queue.clone(),
            attempt: claimed.attempt,
            caller: Some(Owner::from_text(&claimed.owner).ok_or_else(|| corrupt(id))?.into()),
            body: self.sealed.open(Place::Body, id, &claimed.body)?,
            note: self.kept(id, &claimed.meta)?.note,
            age_ms: claimed.age_ms,
        })
    }

    fn webhook(&self, delivery: &Delivery) -> Result<Webhook, CoreError> {
        let id = &delivery.id;
        let target = self.kept(id, &delivery.meta)?.webhook.ok_or_else(|| corrupt(id))?;
        let response = match &delivery.result {
            Some(result) => Some(self.response(id, result)?),
            None => None,
        };
        Ok(Webhook {
            id: id.clone(),
            attempt: delivery.attempt,
            age_ms: delivery.age_ms,
            payload: webhook::payload(id, delivery.state, response.as_ref()).into(),
            endpoint: webhook::Endpoint::parse(&target, &self.allowed)?,
        })
    }

    fn kept(&self, id: &str, sealed: &[u8]) -> Result<pb::Kept, CoreError> {
        let plain = self.sealed.open(Place::Kept, id, sealed)?;
        pb::Kept::decode(plain).map_err(|_| corrupt(id))
    }

    fn response(&self, id: &str, sealed: &[u8]) -> Result<pb::Response, CoreError> {
        let plain = self.sealed.open(Place::Result, id, sealed)?;
        pb::Response::decode(plain).map_err(|_| corrupt(id))
    }

    fn tell(&self, queue: &str) {
        self.news.send_modify(|(version, of)| {
            *version += 1;
            queue.clone_into(of);
        });
    }
}

/// Waits for something that this claim may get. News that came together are not told apart.
async fn concerns(news: &mut watch::Receiver<(u64, String)>, seen: u64, claim: &Claim) {
    let concerned = news.wait_for(|(version, queue)| {
        let several = *version > seen + 1;
        let asked_for = || claim.queues.iter().any(|(wanted, _)| wanted == queue);
        *version > seen && (several || queue.is_empty() || asked_for())
    });
    // The sender lives as long as whoever waits.
    drop(concerned.await);
}

fn state(state: JobState) -> pb::State {
    match state {
        JobState::Waiting => pb::State::Waiting,
        JobState::Running => pb::State::Running,
        JobState::Done => pb::State::Done,
        JobState::Cancelled => pb::State::Cancelled,
        JobState::Expired => pb::State::Expired,
    }
}

fn corrupt(id: &str) -> CoreError {
    let reason = "it is not what this program writes".to_owned();
    CoreError::Corrupt { key: format!("deferred/{id}"), reason }
}
