//! One replica decides, whatever becomes of it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_control_core::{
    Election,
    election::{NotWritten, Timing},
};
use sluicegate_store::{
    Commit, Committed, ConfigStore, Entry, Epoch, Listing, Op, Revision, StoreError, WatchStream,
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::fixture::Core;

/// Ten times as quick as the usual ones, but for whole seconds, in which etcd counts.
const TIMING: Timing = Timing {
    ttl: Duration::from_secs(2),
    refresh: Duration::from_millis(300),
    look: Duration::from_millis(100),
    margin: Duration::from_millis(300),
};
const SOON: Duration = Duration::from_secs(15);

fn start(store: Arc<dyn ConfigStore>, name: &str) -> (Arc<Election>, AbortOnDrop<()>) {
    Election::start(store, name, TIMING)
}

async fn leads(election: &Election, wanted: bool) {
    let mut leads = election.leads();
    let becoming = leads.wait_for(|leads| *leads == wanted);
    assert!(timeout(SOON, becoming).await.is_ok(), "leads: {wanted}");
}

fn put(key: &str) -> Vec<Op> {
    vec![Op::Put { key: key.to_owned(), value: Bytes::from("x"), ttl: None }]
}

#[tokio::test]
async fn b1_one_replica_leads_and_another_takes_over_when_it_is_gone() {
    let core = Core::new().await;
    let (first, task) = start(core.store.clone(), "one");
    leads(&first, true).await;
    let (second, _task) = start(core.store.clone(), "two");
    let mut leader = second.leader();
    drop(timeout(SOON, leader.wait_for(|name| name.as_deref() == Some("one"))).await.unwrap());
    tokio::time::sleep(TIMING.ttl + TIMING.refresh).await;
    assert!(*first.leads().borrow() && !*second.leads().borrow(), "it stays the leader");
    // It dies: its key has to end first.
    let killed = Instant::now();
    drop(task);
    leads(&second, true).await;
    let took = killed.elapsed();
    assert!(took < 3 * TIMING.ttl, "{took:?}");
    assert!(matches!(first.commit(put("fleet/x")).await, Err(NotWritten::NotLeader)));
    second.commit(put("fleet/y")).await.unwrap();
    let listed = core.store.list("fleet/").await.unwrap();
    let keys: Vec<_> = listed.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["fleet/leader", "fleet/y"]);
    assert!(core.names().is_empty() && core.revision() == 0, "nothing of it is configuration");
}

#[tokio::test]
async fn b1_one_that_resigns_is_followed_at_once() {
    let core = Core::new().await;
    let (first, _one) = start(core.store.clone(), "one");
    leads(&first, true).await;
    let (second, _two) = start(core.store.clone(), "two");
    first.resign().await;
    assert!(!*first.leads().borrow());
    let begun = Instant::now();
    leads(&second, true).await;
    assert!(begun.elapsed() < TIMING.ttl, "{:?}", begun.elapsed());
    tokio::time::sleep(2 * TIMING.look).await;
    assert!(!*first.leads().borrow());
}

#[tokio::test]
async fn b1_writes_of_the_leader_and_its_refreshes_do_not_disturb_each_other() {
    let core = Core::new().await;
    let (election, _task) = start(core.store.clone(), "one");
    leads(&election, true).await;
    let writes = (0..20).map(|n| {
        let election = election.clone();
        task::spawn("write", async move { election.commit(put(&format!("fleet/{n}"))).await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap().unwrap();
    }
    let many = (0..200).flat_map(|n| put(&format!("fleet/many/{n}"))).collect();
    election.commit(many).await.unwrap();
    assert_eq!(core.store.list("fleet/many/").await.unwrap().entries.len(), 200);
    assert!(*election.leads().borrow());
}

/// A store that can be switched off: its calls fail, or hang.
#[derive(Debug)]
struct Switched {
    inner: Arc<dyn ConfigStore>,
    mode: watch::Sender<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    On,
    Fails,
    /// Does what it is asked, and says that it failed.
    Lies,
    Hangs,
}

impl Switched {
    async fn reached(&self) -> Result<(), StoreError> {
        let mode = *self.mode.borrow();
        match mode {
            Mode::On | Mode::Lies => Ok(()),
            Mode::Fails => {
                Err(StoreError::Unavailable { store: "switched", reason: "off".to_owned() })
            }
            Mode::Hangs => std::future::pending().await,
        }
    }
}

#[async_trait]
impl ConfigStore for Switched {
    fn kind(&self) -> &'static str {
        "switched"
    }

    fn location(&self) -> String {
        "here".to_owned()
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        self.inner.epoch().await
    }

    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError> {
        self.inner.renew_epoch(seen).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision().await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.reached().await?;
        let done = self.inner.commit(commit).await;
        if *self.mode.borrow() == Mode::Lies {
            let reason = "no answer".to_owned();
            return Err(StoreError::Unavailable { store: "switched", reason });
        }
        done
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.reached().await?;
        self.inner.get(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        self.inner.list(prefix).await
    }

    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError> {
        self.inner.watch(prefix, epoch, from).await
    }
}

#[tokio::test]
async fn b1_one_that_cannot_refresh_stops_before_its_key_ends() {
    for mode in [Mode::Fails, Mode::Hangs] {
        let core = Core::new().await;
        let store =
            Arc::new(Switched { inner: core.store.clone(), mode: watch::Sender::new(Mode::On) });
        let (election, _task) = start(store.clone(), "one");
        leads(&election, true).await;
        store.mode.send_replace(mode);
        let begun = Instant::now();
        leads(&election, false).await;
        assert!(begun.elapsed() < TIMING.ttl, "{mode:?}: {:?}", begun.elapsed());
        let key = core.store.get("fleet/leader").await.unwrap();
        assert!(key.is_some(), "{mode:?}: nobody else could have taken it yet");
    }
}

/// Writes that happened and seemed to have failed are found again.
#[tokio::test]
async fn b1_a_write_whose_answer_was_lost_ends_nothing() {
    let core = Core::new().await;
    let store =
        Arc::new(Switched { inner: core.store.clone(), mode: watch::Sender::new(Mode::On) });
    let (election, _task) = start(store.clone(), "one");
    leads(&election, true).await;
    store.mode.send_replace(Mode::Lies);
    assert!(matches!(election.commit(put("fleet/x")).await, Err(NotWritten::Store(_))));
    store.mode.send_replace(Mode::On);
    election.commit(put("fleet/y")).await.unwrap();
    assert!(*election.leads().borrow());
}
