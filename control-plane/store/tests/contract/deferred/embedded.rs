//! The contract on the embedded store, and what it owes for its file.

use std::{fs, path::Path};

use async_trait::async_trait;
use sluicegate_store::{
    StoreError,
    deferred::{Deferred, DeferredLimits, Finished, JobState},
    embedded::{EmbeddedDeferred, EmbeddedStore},
};
use tempfile::TempDir;

use super::{fixture::*, model, suite};

struct Embedded {
    dir: TempDir,
    jobs: Option<EmbeddedDeferred>,
    store: Option<EmbeddedStore>,
}

fn open(dir: &Path, limits: DeferredLimits) -> (EmbeddedDeferred, EmbeddedStore) {
    let (store, notices) = EmbeddedStore::open(dir).unwrap();
    assert_eq!(notices, []);
    (store.deferred(limits).unwrap(), store)
}

#[async_trait]
impl DeferredFixture for Embedded {
    async fn start(limits: DeferredLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (jobs, store) = open(dir.path(), limits);
        Self { dir, jobs: Some(jobs), store: Some(store) }
    }

    fn jobs(&self) -> &dyn Deferred {
        self.jobs.as_ref().unwrap()
    }

    async fn reopen(&mut self, limits: DeferredLimits) {
        drop(self.jobs.take());
        drop(self.store.take());
        let (jobs, store) = open(self.dir.path(), limits);
        (self.jobs, self.store) = (Some(jobs), Some(store));
    }

    /// It asks no wall clock; but a restart begins with another monotonic one.
    async fn set_clock(&mut self, _by_ms: i64) {
        self.reopen(LIMITS).await;
    }
}

macro_rules! contract {
    ($($module:ident :: $promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $module::$promise::<Embedded>().await;
            }
        )+
    };
}

crate::for_every_promise_of_deferred!(contract);

/// A copy of the file at any moment is what a crash would leave: what was answered is in it.
#[tokio::test]
async fn what_is_answered_survives_a_crash() {
    let f = Embedded::start(LIMITS).await;
    let jobs = f.jobs();
    for n in 0..5 {
        let id = format!("j{n}");
        let kept = jobs.put(&job(&id, "q")).await.unwrap();
        assert!(kept.durable);
        claim(jobs, &id, "q", 1, LONG).await;
        if n % 2 == 0 {
            assert_eq!(finish(jobs, &id, 1, &id).await, Finished::Recorded);
        }
        let copy = tempfile::tempdir().unwrap();
        fs::copy(f.dir.path().join("state.redb"), copy.path().join("state.redb")).unwrap();
        let (after, _store) = open(copy.path(), LIMITS);
        for n in 0..=n {
            let status = get(&after, &format!("j{n}")).await;
            let (state, result) = if n % 2 == 0 {
                (JobState::Done, Some(format!("j{n}")))
            } else {
                (JobState::Running, None)
            };
            assert_eq!(status.state, state);
            assert_eq!(status.result, result.map(Into::into));
        }
    }
}

#[tokio::test]
async fn jobs_are_open_once_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (jobs, store) = open(dir.path(), LIMITS);
    let error = store.deferred(LIMITS).unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error}");
    drop(jobs);
    let jobs = store.deferred(LIMITS).unwrap();
    // A store that is dropped first is no trouble.
    drop(store);
    put(&jobs, &job("a", "q")).await;
}
