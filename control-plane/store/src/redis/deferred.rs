//! Deferred requests of a cluster: Redis. Sorted sets are the queues instead of streams, since jobs are
//! given back later, extended, cancelled and expire one by one, each together with everything that is
//! known of them. Every operation is one script on keys of one slot.

mod calls;
mod sync;

use std::{fmt, sync::Arc};

use ::redis::{Cmd, FromRedisValue, aio::MultiplexedConnection};
use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_telemetry::task::{self, AbortOnDrop};

pub(super) use self::calls::DeferredScripts;
use self::sync::Sync;
use super::{KIND, NAME, config::RedisConfig, failure::unexpected, link::Link};
use crate::{
    StoreError,
    deferred::{
        Bound, Cancelled, Claim, Claimed, Deferred, DeferredError, DeferredLimits, Delivery,
        DeliveryOutcome, Finished, Held, Job, JobStatus, Kept, MAX_LIST_JOBS, Page, Put,
        QueueCount, check, engine::Full,
    },
};

/// Jobs whose truth is a Redis.
///
/// What is answered as durable is in the server's append-only file on disk: the server is asked for
/// that with `WAITAOF` (Redis 7.2 and newer); an older one is believed that says, with `CONFIG GET`,
/// that it writes with `appendfsync always`. With any other setting, without the file, or where the
/// user may use neither command, the answer is that it is not.
pub struct RedisDeferred {
    link: Arc<Link>,
    sync: Sync,
    keys: calls::Keys,
    limits: DeferredLimits,
    _supervisor: AbortOnDrop<()>,
}

impl RedisDeferred {
    /// Connects. A server that does not answer now is used as soon as it does. It has connections of
    /// its own, so that large bodies and slow disks hold up no limits.
    ///
    /// # Errors
    /// When something is set up wrongly, as for [`super::RedisLedger::connect`].
    pub async fn connect(config: RedisConfig, limits: DeferredLimits) -> Result<Self, StoreError> {
        let servers = config.servers().await?;
        let keys = calls::keys(&config.prefix);
        let link = Link::begin(servers.clone(), config.prefix.clone(), config.timeouts).await?;
        let sync = Sync::start(servers, &config).await?;
        let supervisor = AbortOnDrop(task::spawn("redis-deferred", link.clone().supervise()));
        Ok(Self { link, sync, keys, limits, _supervisor: supervisor })
    }

    async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let command = &command;
        let ask = |mut connection: MultiplexedConnection| async move {
            command.query_async::<T>(&mut connection).await
        };
        Ok(self.link.call(self.link.timeouts.deferred, ask).await?.0)
    }

    /// The answer, once it is known whether it is on disk.
    async fn kept<T>(&self, answer: T) -> Kept<T> {
        Kept { answer, durable: self.sync.is_durable().await }
    }

    async fn change(
        &self,
        what: char,
        id: &str,
        attempt: u64,
        ms: u64,
        result: &[u8],
    ) -> Result<u8, StoreError> {
        let command = calls::change(&self.link.scripts.deferred, &self.keys)
            .arg(what.to_string())
            .arg(id)
            .arg(calls::number(attempt))
            .arg(check::time(ms))
            .arg(result)
            .take();
        self.ask(command).await
    }

    async fn held(
        &self,
        what: char,
        id: &str,
        attempt: u64,
        ms: u64,
    ) -> Result<Held, DeferredError> {
        let answer = self.change(what, id, attempt, ms, b"").await?;
        Ok(if answer == 0 { Held::Yes } else { Held::No })
    }
}

#[async_trait]
impl Deferred for RedisDeferred {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn limits(&self) -> DeferredLimits {
        self.limits
    }

    async fn put(&self, job: &Job) -> Result<Kept<Put>, DeferredError> {
        check::job(NAME, &self.limits, job)?;
        let command = calls::put(&self.link.scripts.deferred, &self.keys, job, &self.limits);
        let (answer, text): (u8, String) = self.ask(command).await?;
        let full = |bound, is_share| Err(check::full(&self.limits, Full { bound, is_share }));
        match answer {
            0 => Ok(self.kept(Put::Stored).await),
            1 => Ok(self.kept(Put::Existing(text)).await),
            2 => full(Bound::QueueJobs, false),
            3 => full(Bound::Jobs, false),
            4 => full(Bound::Bytes, false),
            5 => full(Bound::QueueJobs, true),
            6 => full(Bound::Jobs, true),
            7 => full(Bound::Bytes, true),
            _ => Err(unexpected("a job that was put").into()),
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, DeferredError> {
        check::claim(NAME, claim)?;
        let command = calls::claim(&self.link.scripts.deferred, &self.keys, claim, &self.limits);
        let given: Vec<calls::Given> = self.ask(command).await?;
        Ok(given.into_iter().map(calls::claimed).collect())
    }

    async fn extend(&self, id: &str, attempt: u64, lease_ms: u64) -> Result<Held, DeferredError> {
        self.held('e', id, attempt, lease_ms).await
    }

    async fn finish(
        &self,
        id: &str,
        attempt: u64,
        result: &Bytes,
    ) -> Result<Kept<Finished>, DeferredError> {
        check::result(&self.limits, result.len())?;
        let answer = match self.change('f', id, attempt, 0, result).await? {
            0 => Finished::Recorded,
            1 => Finished::Already,
            _ => Finished::Unknown,
        };
        Ok(self.kept(answer).await)
    }

    async fn release(&self, id: &str, attempt: u64, after_ms: u64) -> Result<Held, DeferredError> {
        self.held('r', id, attempt, after_ms).await
    }

    async fn cancel(&self, id: &str) -> Result<Kept<Cancelled>, DeferredError> {
        let answer = match self.change('c', id, 0, 0, b"").await? {
            0 => Cancelled::Done,
            1 => Cancelled::Already,
            _ => Cancelled::Unknown,
        };
        Ok(self.kept(answer).await)
    }

    async fn get(&self, id: &str) -> Result<Option<JobStatus>, DeferredError> {
        // An empty one would be another question.
        if check::id(NAME, id).is_err() {
            return Ok(None);
        }
        let command = calls::look(&self.link.scripts.deferred, &self.keys).arg(id).take();
        let found: Vec<calls::Standing> = self.ask(command).await?;
        let Some(standing) = found.into_iter().next() else { return Ok(None) };
        let status = calls::status(id, standing);
        status.map(Some).ok_or_else(|| unexpected("a deferred request").into())
    }

    async fn list(&self, from: &str, most: usize) -> Result<Page, DeferredError> {
        check::page(NAME, from)?;
        let command = calls::list(&self.link.scripts.deferred, &self.keys)
            .arg(if from.is_empty() { "0" } else { from })
            .arg(most.clamp(1, MAX_LIST_JOBS))
            .take();
        let (next, found): (String, Vec<calls::Row>) = self.ask(command).await?;
        calls::page(next, found).ok_or_else(|| unexpected("a list of deferred requests").into())
    }

    async fn claim_deliveries(
        &self,
        most: usize,
        lease_ms: u64,
    ) -> Result<Vec<Delivery>, DeferredError> {
        let command = calls::deliver(&self.link.scripts.deferred, &self.keys)
            .arg("c")
            .arg(check::jobs(most))
            .arg(check::time(lease_ms).max(1))
            .arg(calls::number(self.limits.claim_bytes))
            .take();
        let given: Vec<calls::Told> = self.ask(command).await?;
        let deliveries: Option<Vec<Delivery>> = given.into_iter().map(calls::delivery).collect();
        deliveries.ok_or_else(|| unexpected("the end of a deferred request").into())
    }

    async fn delivered(
        &self,
        id: &str,
        attempt: u64,
        outcome: DeliveryOutcome,
    ) -> Result<(), DeferredError> {
        let (what, after_ms) = match outcome {
            DeliveryOutcome::Over => ("d", 0),
            DeliveryOutcome::Again { after_ms } => ("a", check::time(after_ms).max(1)),
        };
        let mut command = calls::deliver(&self.link.scripts.deferred, &self.keys);
        let command = command.arg(what).arg(id).arg(calls::number(attempt)).arg(after_ms).take();
        self.ask::<Vec<u8>>(command).await?;
        Ok(())
    }

    async fn counts(&self) -> Result<Vec<QueueCount>, DeferredError> {
        let command = calls::look(&self.link.scripts.deferred, &self.keys).arg("").take();
        let found: Vec<(String, u64)> = self.ask(command).await?;
        Ok(calls::counts(found))
    }
}

impl fmt::Debug for RedisDeferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisDeferred").field("limits", &self.limits).finish_non_exhaustive()
    }
}
