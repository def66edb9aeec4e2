//! The contract on the embedded ledger, and what it owes for its file and its clock.

use std::{fs, path::Path, time::Duration};

use async_trait::async_trait;
use sluicegate_store::{
    StoreError,
    embedded::{EmbeddedLedger, EmbeddedStore},
    ledger::{LeaseOp, LeaseStatus::*, Ledger, LedgerHealth, MeterSpec},
};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{
    cells,
    fixture::*,
    nodes::{self, Rules},
    notes,
    redis::nodes_seeds,
    suite, usage,
};

struct Embedded {
    dir: TempDir,
    /// In this order: the ledger is closed before the store.
    ledger: Option<EmbeddedLedger>,
    store: Option<EmbeddedStore>,
}

fn open(dir: &Path) -> (EmbeddedLedger, EmbeddedStore) {
    let (store, notices) = EmbeddedStore::open(dir).unwrap();
    assert_eq!(notices, []);
    (store.ledger().unwrap(), store)
}

#[async_trait]
impl LedgerFixture for Embedded {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, store) = open(dir.path());
        Self { dir, ledger: Some(ledger), store: Some(store) }
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ref().unwrap()
    }

    async fn reopen(&mut self) {
        drop(self.ledger.take());
        drop(self.store.take());
        let (ledger, store) = open(self.dir.path());
        assert_eq!(*ledger.health().borrow(), LedgerHealth::Ready, "it was closed");
        (self.ledger, self.store) = (Some(ledger), Some(store));
    }

    async fn plant(&mut self, field: &str, value: &str) {
        drop(self.ledger.take());
        drop(self.store.take());
        {
            let file = redb::Database::open(self.dir.path().join("state.redb")).unwrap();
            let txn = file.begin_write().unwrap();
            let table = redb::TableDefinition::<&str, &str>::new("ledger_cells");
            txn.open_table(table).unwrap().insert(field, value).unwrap();
            txn.commit().unwrap();
        }
        self.reopen().await;
    }

    fn is_durable(&self) -> bool {
        true
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

crate::for_every_promise_of_a_ledger!(contract);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_never_get_more_than_there_is() {
    let f = Embedded::start().await;
    for seed in 0..nodes_seeds(2) {
        for rules in [Rules::Hold, Rules::Return, Rules::Slots, Rules::Bucket] {
            let mut desk = nodes::Real { ledger: f.ledger(), started: Instant::now() };
            let outcome = nodes::run(&mut desk, rules, seed, 1_500).await;
            println!("seed {seed}, {rules:?}: {outcome}");
            outcome.check(rules);
        }
    }
}

#[tokio::test]
async fn the_engine_alone_never_gives_more_than_there_is() {
    for seed in 0..nodes_seeds(12) {
        for rules in [Rules::Hold, Rules::Return, Rules::Slots, Rules::Bucket] {
            let outcome = nodes::run(&mut nodes::Simulated::default(), rules, seed, 3_000).await;
            println!("seed {seed}, {rules:?}: {outcome}");
            outcome.check(rules);
        }
    }
}

/// A copy of the file as it is at this moment: what a crash would leave.
fn crash(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(dir.join("state.redb"), copy.path().join("state.redb")).unwrap();
    copy
}

#[tokio::test]
async fn after_a_crash_nothing_is_given_before_all_had_time_to_report() {
    let f = Embedded::start().await;
    let now = f.ledger().now_ms().await.unwrap();
    let s = MeterSpec { ttl_ms: 600, ..spec(around(now, 1), 100) };
    let holder = |seq, charged| LeaseOp { charged, granted: 50, ..op("m", s, "a", seq, 50) };
    apply(f.ledger(), op("m", s, "a", 1, 50)).await;
    f.ledger().count(&batch("s", 1, 3)).await.unwrap();
    // Written a moment later; until then the copy would not have it.
    let copy = loop {
        let copy = crash(f.dir.path());
        let (ledger, _store) = open(copy.path());
        if !ledger.meters("m", 1).await.unwrap().is_empty() {
            drop(ledger);
            break crash(f.dir.path());
        }
    };
    let (ledger, store) = open(copy.path());
    assert_eq!(*ledger.health().borrow(), LedgerHealth::Recovering);
    // Usage was durable.
    assert_eq!(ledger.count(&batch("s", 1, 3)).await.unwrap().applied_through, 3);
    assert_eq!(usage::requests(&ledger).await, 3);
    let opened = ledger.now_ms().await.unwrap();
    expect(apply(&ledger, op("m", s, "b", 1, 10)).await, Recovering, 0);
    past(&ledger, opened + 700).await;
    // Its time was over meanwhile, and nobody may have been able to hear it.
    let state = expect(apply(&ledger, holder(2, 10)).await, Granted, 50);
    assert_eq!((state.used, state.reserved), (10, 40));
    becomes(&ledger, |health| *health == LedgerHealth::Ready).await;
    assert!(ledger.now_ms().await.unwrap() >= opened + 1_990);
    expect(apply(&ledger, op("m", s, "b", 2, 10)).await, Granted, 10);
    drop((ledger, store));
    let (ledger, _store) = open(copy.path());
    assert_eq!(*ledger.health().borrow(), LedgerHealth::Ready);
}

#[tokio::test]
async fn a13_the_ledgers_clock_never_goes_back_over_a_restart() {
    let mut f = Embedded::start().await;
    let mut newest = 0;
    let s = spec(bucket(1, HOUR), 100);
    for seq in 1..=3 {
        let before = Instant::now();
        let state = apply(f.ledger(), op("m", s, "a", seq, 1)).await;
        assert!(state.now_ms >= newest, "{} after {newest}", state.now_ms);
        newest = state.now_ms;
        // In the process it goes as the monotonic clock goes.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let now = f.ledger().now_ms().await.unwrap();
        let passed = u64::try_from(before.elapsed().as_millis()).unwrap();
        assert!(now - newest >= 30 && now - newest <= passed + 1, "{} in {passed}", now - newest);
        newest = now;
        f.reopen().await;
    }
}

#[tokio::test]
async fn a_state_file_without_a_ledger_gets_one() {
    let dir = tempfile::tempdir().unwrap();
    drop(EmbeddedStore::open(dir.path()).unwrap());
    let (ledger, store) = open(dir.path());
    assert_eq!(*ledger.health().borrow(), LedgerHealth::Ready);
    let error = store.ledger().unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error}");
    drop(ledger);
    let ledger = store.ledger().unwrap();
    ledger.count(&batch("s", 1, 1)).await.unwrap();
    // A store that is dropped first is no trouble.
    drop(store);
    ledger.count(&batch("s", 2, 2)).await.unwrap();
}
