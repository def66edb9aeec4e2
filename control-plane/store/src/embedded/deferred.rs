//! Deferred requests of a single machine. What is known of jobs lives in memory, their bodies and
//! results in the file; what is answered is durable.

mod table;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use redb::WriteTransaction;
use tokio::time::Instant;

use super::{EmbeddedStore, KIND, NAME, Shared, blocking};
use crate::{
    StoreError,
    deferred::{
        Cancelled, Claim, Claimed, Deferred, DeferredError, DeferredLimits, Delivery,
        DeliveryOutcome, Finished, Held, Job, JobState, JobStatus, Kept, MAX_STEP_MS, Page, Put,
        QueueCount, check,
        engine::{Clock, Engine},
    },
};
use table::{BODY, META, RESULT, Writing};

/// Jobs in the file of an [`EmbeddedStore`].
pub struct EmbeddedDeferred {
    desk: Arc<Desk>,
}

struct Desk {
    shared: Arc<Shared>,
    limits: DeferredLimits,
    open: Mutex<Open>,
    opened: Instant,
}

struct Open {
    engine: Engine,
    clock: Clock,
    /// The newest time in the file.
    written_ms: u64,
    /// Writing failed: nobody knows whether what is in memory is in the file.
    in_doubt: bool,
}

impl Open {
    /// Everything as it is in the file, when the host's clock says `host_ms`.
    fn read(shared: &Shared, host_ms: u64) -> Result<Self, StoreError> {
        let found = shared.file.write(table::open)?;
        let mut engine = Engine::default();
        for (id, record) in found.jobs {
            engine.load(&id, record);
        }
        for id in found.unreadable {
            tracing::error!(id, "a deferred request in the state file cannot be read; it is left");
        }
        let clock = Clock::new(found.time_ms, host_ms);
        Ok(Self { engine, clock, written_ms: found.time_ms, in_doubt: false })
    }
}

impl EmbeddedStore {
    /// Opens the jobs in the store's file; that can be done once at a time. Blocks while they are
    /// read.
    ///
    /// # Errors
    /// When they are open already, or the file cannot be used.
    pub fn deferred(&self, limits: DeferredLimits) -> Result<EmbeddedDeferred, StoreError> {
        if self.shared.has_deferred.swap(true, Ordering::AcqRel) {
            let reason = "its deferred requests are open already; use those".to_owned();
            return Err(StoreError::Misconfigured { store: NAME, reason });
        }
        match Desk::open(self.shared.clone(), limits) {
            Ok(desk) => Ok(EmbeddedDeferred { desk: Arc::new(desk) }),
            Err(error) => {
                self.shared.has_deferred.store(false, Ordering::Release);
                Err(error)
            }
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.has_deferred.store(false, Ordering::Release);
    }
}

impl Desk {
    fn open(shared: Arc<Shared>, limits: DeferredLimits) -> Result<Self, StoreError> {
        let open = Mutex::new(Open::read(&shared, 0)?);
        Ok(Self { shared, limits, open, opened: Instant::now() })
    }

    /// Does one operation: what it changes is in the file before it is answered.
    fn operate<T, E>(
        &self,
        act: impl FnOnce(&mut Engine, u64) -> Result<T, E>,
        also: impl FnOnce(&T, &mut Writing<'_>) -> Result<(), redb::Error>,
    ) -> Result<Result<T, E>, StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        if open.in_doubt {
            *open = Open::read(&self.shared, passed)?;
        }
        let now_ms = open.clock.at(passed);
        open.engine.begin(now_ms);
        let outcome = act(&mut open.engine, now_ms);
        let changes = open.engine.changes();
        let is_old = now_ms.saturating_sub(open.written_ms) >= MAX_STEP_MS;
        if changes.is_empty() && !is_old {
            return Ok(outcome);
        }
        let written = self.shared.file.write(|txn: WriteTransaction| {
            table::write(txn, &changes, now_ms, |writing| match &outcome {
                Ok(answer) => also(answer, writing),
                Err(_) => Ok(()),
            })
        });
        match written {
            Ok(()) => open.written_ms = now_ms,
            Err(error) => {
                open.in_doubt = true;
                return Err(error);
            }
        }
        Ok(outcome)
    }

    /// One that cannot fail by itself and writes no bodies or results.
    fn simply<T>(&self, act: impl FnOnce(&mut Engine, u64) -> T) -> Result<T, StoreError> {
        let outcome =
            self.operate(|engine, now| Ok::<_, Never>(act(engine, now)), |_, _| Ok(()))?;
        Ok(match outcome {
            Ok(answer) => answer,
            Err(never) => match never {},
        })
    }

    fn blob(&self, id: &str, kind: u8) -> Result<Option<Bytes>, StoreError> {
        self.shared.file.read(|txn| table::blob(txn, id, kind))
    }

    fn meta(&self, id: &str) -> Result<Bytes, StoreError> {
        Ok(self.blob(id, META)?.unwrap_or_default())
    }

    fn result(&self, id: &str, state: JobState) -> Result<Option<Bytes>, StoreError> {
        if state == JobState::Done { self.blob(id, RESULT) } else { Ok(None) }
    }
}

/// No error.
enum Never {}

impl EmbeddedDeferred {
    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Desk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, DeferredError> {
        let desk = self.desk.clone();
        Ok(blocking(move || act(&desk)).await?)
    }
}

#[async_trait]
impl Deferred for EmbeddedDeferred {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn limits(&self) -> DeferredLimits {
        self.desk.limits
    }

    async fn put(&self, job: &Job) -> Result<Kept<Put>, DeferredError> {
        let limits = self.desk.limits;
        check::job(NAME, &limits, job)?;
        let job = job.clone();
        let outcome = self
            .blocking(move |desk| {
                desk.operate(
                    |engine, now_ms| engine.put(&job, &limits, now_ms),
                    |put, writing| match put {
                        Put::Stored => {
                            writing.blob(&job.id, BODY, &job.body)?;
                            writing.blob(&job.id, META, &job.meta)
                        }
                        Put::Existing(_) => Ok(()),
                    },
                )
            })
            .await?;
        let answer = outcome.map_err(|full| check::full(&limits, full))?;
        Ok(Kept { answer, durable: true })
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, DeferredError> {
        check::claim(NAME, claim)?;
        let (claim, limits) = (claim.clone(), self.desk.limits);
        self.blocking(move |desk| {
            let given = desk.simply(|engine, now_ms| engine.claim(&claim, &limits, now_ms))?;
            let claimed = given.into_iter().map(|given| {
                Ok(Claimed {
                    body: desk.blob(&given.id, BODY)?.unwrap_or_default(),
                    meta: desk.meta(&given.id)?,
                    id: given.id,
                    queue: given.queue,
                    attempt: given.attempt,
                    owner: given.owner,
                    age_ms: given.age_ms,
                })
            });
            claimed.collect()
        })
        .await
    }

    async fn extend(&self, id: &str, attempt: u64, lease_ms: u64) -> Result<Held, DeferredError> {
        let id = id.to_owned();
        self.blocking(move |desk| {
            desk.simply(|engine, now_ms| engine.extend(&id, attempt, lease_ms, now_ms))
        })
        .await
    }

    async fn finish(
        &self,
        id: &str,
        attempt: u64,
        result: &Bytes,
    ) -> Result<Kept<Finished>, DeferredError> {
        check::result(&self.desk.limits, result.len())?;
        let (id, result) = (id.to_owned(), result.clone());
        let answer = self
            .blocking(move |desk| {
                let length = result.len() as u64;
                let outcome = desk.operate(
                    |engine, now_ms| Ok::<_, Never>(engine.finish(&id, attempt, length, now_ms)),
                    |_, writing| writing.first_result(&id, &result),
                )?;
                Ok(match outcome {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                })
            })
            .await?;
        Ok(Kept { answer, durable: true })
    }

    async fn release(&self, id: &str, attempt: u64, after_ms: u64) -> Result<Held, DeferredError> {
        let id = id.to_owned();
        self.blocking(move |desk| {
            desk.simply(|engine, now_ms| engine.release(&id, attempt, after_ms, now_ms))
        })
        .await
    }

    async fn cancel(&self, id: &str) -> Result<Kept<Cancelled>, DeferredError> {
        let id = id.to_owned();
        let answer = self
            .blocking(move |desk| desk.simply(|engine, now_ms| engine.cancel(&id, now_ms)))
            .await?;
        Ok(Kept { answer, durable: true })
    }

    async fn get(&self, id: &str) -> Result<Option<JobStatus>, DeferredError> {
        let id = id.to_owned();
        self.blocking(move |desk| {
            let Some(found) = desk.simply(|engine, now_ms| engine.get(&id, now_ms))? else {
                return Ok(None);
            };
            Ok(Some(JobStatus {
                meta: desk.meta(&id)?,
                result: desk.result(&id, found.state)?,
                id,
                owner: found.owner,
                queue: found.queue,
                state: found.state,
                attempt: found.attempt,
                ahead: found.ahead,
                age_ms: found.age_ms,
                left_ms: found.left_ms,
            }))
        })
        .await
    }

    async fn list(&self, from: &str, most: usize) -> Result<Page, DeferredError> {
        check::page(NAME, from)?;
        let from = from.to_owned();
        self.blocking(move |desk| desk.simply(|engine, now_ms| engine.list(&from, most, now_ms)))
            .await
    }

    async fn claim_deliveries(
        &self,
        most: usize,
        lease_ms: u64,
    ) -> Result<Vec<Delivery>, DeferredError> {
        let limits = self.desk.limits;
        self.blocking(move |desk| {
            let due = desk.simply(|engine, now_ms| {
                engine.claim_deliveries(most, lease_ms, &limits, now_ms)
            })?;
            let deliveries = due.into_iter().map(|due| {
                Ok(Delivery {
                    meta: desk.meta(&due.id)?,
                    result: desk.result(&due.id, due.state)?,
                    id: due.id,
                    attempt: due.attempt,
                    age_ms: due.age_ms,
                    state: due.state,
                })
            });
            deliveries.collect()
        })
        .await
    }

    async fn delivered(
        &self,
        id: &str,
        attempt: u64,
        outcome: DeliveryOutcome,
    ) -> Result<(), DeferredError> {
        let id = id.to_owned();
        self.blocking(move |desk| {
            desk.simply(|engine, now_ms| engine.delivered(&id, attempt, outcome, now_ms))
        })
        .await
    }

    async fn counts(&self) -> Result<Vec<QueueCount>, DeferredError> {
        self.blocking(|desk| desk.simply(|engine, _| engine.counts())).await
    }
}

impl fmt::Debug for EmbeddedDeferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.desk.shared.file.path();
        f.debug_struct("EmbeddedDeferred").field("file", &file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str) -> Job {
        Job {
            id: id.into(),
            owner: "o".into(),
            party: "p".into(),
            idempotency_key: id.into(),
            queue: "q".into(),
            body: Bytes::from_static(b"body"),
            meta: Bytes::new(),
            expires_ms: 600_000,
            keep_ms: 600_000,
            deliver: false,
        }
    }

    /// What a failed write left in memory is given up for what is in the file.
    #[tokio::test]
    async fn after_a_failed_write_the_file_is_the_truth() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = EmbeddedStore::open(dir.path()).unwrap();
        let jobs = store.deferred(DeferredLimits::default()).unwrap();
        jobs.put(&job("a")).await.unwrap();
        let now_ms = {
            let mut open = jobs.desk.open.lock().unwrap();
            let now_ms = open.clock.at(1);
            open.engine.begin(now_ms);
            open.engine.put(&job("b"), &DeferredLimits::default(), now_ms).unwrap();
            open.engine.cancel("a", now_ms);
            open.in_doubt = true;
            now_ms
        };
        let status = jobs.get("a").await.unwrap().unwrap();
        assert_eq!(status.state, JobState::Waiting);
        assert!(status.age_ms < 60_000 && now_ms < 60_000, "time goes on: {status:?}");
        assert_eq!(jobs.get("b").await.unwrap(), None);
        assert_eq!(jobs.put(&job("b")).await.unwrap().answer, Put::Stored);
    }
}
