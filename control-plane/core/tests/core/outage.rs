//! A store that fails on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluicegate_control_core::{CoreError, Desired};
use sluicegate_model::Kind;
use sluicegate_store::{
    Commit, Committed, ConfigStore, Entry, Epoch, Listing, Revision, StoreError, WatchStream,
};

use crate::fixture::{Core, put, tenant};

#[derive(Debug)]
struct Flaky {
    inner: Arc<dyn ConfigStore>,
    away: AtomicBool,
    /// So many commits are done but not answered.
    unanswered: AtomicUsize,
}

impl Flaky {
    fn new(inner: Arc<dyn ConfigStore>) -> Arc<Self> {
        Arc::new(Self { inner, away: false.into(), unanswered: 0.into() })
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.away.load(Ordering::SeqCst) { Err(unavailable()) } else { Ok(()) }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { store: "flaky", reason: "out for lunch".into() }
}

#[async_trait::async_trait]
impl ConfigStore for Flaky {
    fn kind(&self) -> &'static str {
        "flaky"
    }

    fn location(&self) -> String {
        "http://flaky:1".into()
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        self.check()?;
        self.inner.epoch().await
    }

    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError> {
        self.check()?;
        self.inner.renew_epoch(seen).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.check()?;
        self.inner.revision().await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.check()?;
        let committed = self.inner.commit(commit).await?;
        let lost = |left: usize| left.checked_sub(1);
        if self.unanswered.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lost).is_ok() {
            return Err(unavailable());
        }
        Ok(committed)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.check()?;
        self.inner.get(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        self.check()?;
        self.inner.list(prefix).await
    }

    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError> {
        self.check()?;
        self.inner.watch(prefix, epoch, from).await
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_is_looked_for() {
    let base = Core::seeded().await;
    let store = Flaky::new(base.store.clone());
    let core = Core::over(store.clone(), base.seal.clone()).await;
    store.unanswered.store(1, Ordering::SeqCst);
    let outcome = core.apply(vec![put(tenant("t"))]).await.unwrap();
    assert_eq!(outcome.at.revision, core.version(Kind::Tenant, "t"));
}

#[tokio::test]
async fn while_the_store_is_away_reads_go_on_and_changes_fail() {
    let base = Core::seeded().await;
    let store = Flaky::new(base.store.clone());
    let core = Core::over(store.clone(), base.seal.clone()).await;
    store.away.store(true, Ordering::SeqCst);
    let error = core.apply(vec![put(tenant("t"))]).await.unwrap_err();
    assert_eq!(error.to_string(), "flaky is unavailable: out for lunch");
    assert_eq!(core.names(), ["provider/p", "model/m"]);
    store.away.store(false, Ordering::SeqCst);
    core.put(vec![tenant("t")]).await;
}

#[tokio::test]
async fn the_start_waits_for_a_store_and_gives_up_by_name() {
    let base = Core::seeded().await;
    let store = Flaky::new(base.store.clone());
    store.away.store(true, Ordering::SeqCst);
    let error = Desired::start(store.clone(), Duration::from_millis(700)).await.unwrap_err();
    assert!(matches!(error, CoreError::StoreAway { .. }));
    assert!(error.to_string().contains("http://flaky:1"), "{error}");

    let waiting = Desired::start(store.clone(), Duration::from_secs(10));
    let back = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        store.away.store(false, Ordering::SeqCst);
    };
    let (started, ()) = tokio::join!(waiting, back);
    assert_eq!(started.unwrap().0.snapshot().resources.len(), 2);
}
