//! What the suite needs to know about a store of jobs that it tests.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_store::deferred::{
    Claim, Claimed, Deferred, DeferredLimits, Finished, Job, JobState, JobStatus, Listed, Put,
};
use tokio::time::{sleep, timeout};

/// Nothing that is going to happen takes longer.
pub const SOON: Duration = Duration::from_secs(15);
/// A time that does not end during a test.
pub const LONG: u64 = 600_000;

/// Small ones, so that a test reaches them.
pub const LIMITS: DeferredLimits = DeferredLimits {
    body_bytes: 1_000,
    result_bytes: 1_000,
    meta_bytes: 100,
    queue_jobs: 400,
    jobs: 2_000,
    bytes: 200_000,
    claim_bytes: 1_000,
};

/// A store of jobs and the power over what it stands on.
#[async_trait]
pub trait DeferredFixture: Send + Sync {
    /// A fresh one.
    async fn start(limits: DeferredLimits) -> Self
    where
        Self: Sized;

    fn jobs(&self) -> &dyn Deferred;

    /// As after a restart of our process.
    async fn reopen(&mut self, limits: DeferredLimits);

    /// As if the clock of the store's host had been set by so much.
    async fn set_clock(&mut self, by_ms: i64);
}

pub fn job(id: &str, queue: &str) -> Job {
    Job {
        id: id.to_owned(),
        owner: "tenant/key".to_owned(),
        party: "tenant".to_owned(),
        idempotency_key: String::new(),
        queue: queue.to_owned(),
        body: Bytes::from(format!("body of {id}")),
        meta: Bytes::from(format!("meta of {id}")),
        expires_ms: LONG,
        keep_ms: LONG,
        deliver: false,
    }
}

/// A job of one of several parties.
pub fn of(party: &str, id: &str, queue: &str) -> Job {
    Job { party: party.to_owned(), ..job(id, queue) }
}

/// Puts a job that is not there.
pub async fn put(jobs: &dyn Deferred, job: &Job) {
    assert_eq!(jobs.put(job).await.unwrap().answer, Put::Stored, "{job:?}");
}

pub async fn claim(
    jobs: &dyn Deferred,
    call: &str,
    queue: &str,
    most: u32,
    lease_ms: u64,
) -> Vec<Claimed> {
    let queues = vec![(queue.to_owned(), most)];
    let claim = Claim { node: "n".into(), call: call.to_owned(), queues, lease_ms };
    jobs.claim(&claim).await.unwrap()
}

/// Ids and attempts.
pub fn given(claimed: &[Claimed]) -> Vec<(&str, u64)> {
    claimed.iter().map(|one| (one.id.as_str(), one.attempt)).collect()
}

/// Claims until something comes.
pub async fn claim_soon(jobs: &dyn Deferred, call: &str, queue: &str) -> Claimed {
    let waiting = async {
        loop {
            if let Some(claimed) = claim(jobs, call, queue, 1, LONG).await.pop() {
                return claimed;
            }
            sleep(Duration::from_millis(3)).await;
        }
    };
    timeout(SOON, waiting).await.expect("a job comes")
}

pub async fn finish(jobs: &dyn Deferred, id: &str, attempt: u64, result: &str) -> Finished {
    jobs.finish(id, attempt, &Bytes::from(result.to_owned())).await.unwrap().answer
}

pub async fn get(jobs: &dyn Deferred, id: &str) -> JobStatus {
    jobs.get(id).await.unwrap().expect("there is such a job")
}

/// All pages of the list.
pub async fn list(jobs: &dyn Deferred, most: usize) -> Vec<Listed> {
    let (mut all, mut from) = (Vec::new(), String::new());
    loop {
        let page = jobs.list(&from, most).await.unwrap();
        all.extend(page.jobs);
        match page.next {
            Some(next) => from = next,
            None => return all,
        }
    }
}

/// Waits until the job stands so.
pub async fn becomes(jobs: &dyn Deferred, id: &str, state: JobState) -> JobStatus {
    let waiting = async {
        loop {
            let status = get(jobs, id).await;
            if status.state == state {
                return status;
            }
            sleep(Duration::from_millis(3)).await;
        }
    };
    timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{id} becomes {state:?}"))
}

/// Waits until the store has forgotten the job.
pub async fn forgotten(jobs: &dyn Deferred, id: &str) {
    let waiting = async {
        while jobs.get(id).await.unwrap().is_some() {
            sleep(Duration::from_millis(3)).await;
        }
    };
    timeout(SOON, waiting).await.expect("it is forgotten");
}
