//! The contract on Redis, and that its scripts do what the engine does.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use sluicegate_store::{
    ledger::{Ledger, LedgerHealth},
    redis::{RedisConfig, RedisLedger, RedisTimeouts},
};
use tokio::time::Instant;

use super::{
    cells,
    fixture::*,
    model,
    nodes::{self, Rules},
    notes,
    server::Server,
    suite, usage,
};

/// Deadlines for a machine that does other things as well; and a fresh server is trusted at once.
pub fn patient() -> RedisTimeouts {
    RedisTimeouts {
        connect: Duration::from_secs(5),
        call: Duration::from_secs(5),
        read: Duration::from_secs(5),
        recovery: Duration::ZERO,
        ..RedisTimeouts::default()
    }
}

pub async fn connect(server: &Server, timeouts: RedisTimeouts) -> RedisLedger {
    let config = RedisConfig { timeouts, ..RedisConfig::new([server.url()]) };
    RedisLedger::connect(config).await.unwrap()
}

struct Redis {
    server: Arc<Server>,
    ledger: RedisLedger,
}

#[async_trait]
impl LedgerFixture for Redis {
    async fn start() -> Self {
        let server = Arc::new(Server::start().await);
        let ledger = connect(&server, patient()).await;
        nodes::until_leases_expire(&ledger).await;
        server.forget_leases().await;
        Self { server, ledger }
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    async fn reopen(&mut self) {
        self.ledger = connect(&self.server, patient()).await;
    }

    async fn plant(&mut self, field: &str, value: &str) {
        let mut connection = self.server.connection().await;
        let mut put = redis::cmd("HSET");
        put.arg("sluicegate:p:{pool}:cells").arg(field).arg(value);
        put.exec_async(&mut connection).await.unwrap();
        self.reopen().await;
    }

    fn is_durable(&self) -> bool {
        false
    }
}

/// Every key that there is; each must have an expiry.
pub async fn keys_that_expire(connection: &mut MultiplexedConnection) -> Vec<String> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(connection).await.unwrap();
    for key in &keys {
        let left: i64 = redis::cmd("PTTL").arg(key).query_async(connection).await.unwrap();
        assert!(left > 0 && left <= 801 * 86_400_000, "{key} lives {left} ms");
        assert!(key.starts_with("sluicegate:"), "{key}");
    }
    keys
}

macro_rules! contract {
    ($($module:ident :: $promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $module::$promise::<Redis>().await;
            }
        )+
    };
}

crate::for_every_promise_of_a_ledger!(contract);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_agree_with_the_engine() {
    let f = Redis::start().await;
    let hour = RedisTimeouts { recovery: Duration::from_secs(3_600), ..patient() };
    let recovering = connect(&f.server, hour).await;
    assert_eq!(*recovering.health().borrow(), LedgerHealth::Recovering);
    // A server that has just begun settles for as long as a lease lives.
    tokio::time::sleep(Duration::from_millis(2 * model::SHORT)).await;
    for seed in 0..nodes_seeds(24) {
        model::agrees(&f.ledger, Some(&recovering), seed, 400).await;
    }
    let keys = keys_that_expire(&mut f.server.connection().await).await;
    assert!(keys.len() > 24, "{keys:?}");
}

/// How many seeds to try: those, or as many as `SLUICEGATE_SEEDS` says.
pub fn nodes_seeds(usual: u64) -> u64 {
    std::env::var("SLUICEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_never_get_more_than_there_is() {
    let f = Redis::start().await;
    for seed in 0..nodes_seeds(2) {
        for rules in [Rules::Hold, Rules::Return, Rules::Slots, Rules::Bucket] {
            let mut desk = nodes::Real { ledger: &f.ledger, started: Instant::now() };
            let outcome = nodes::run(&mut desk, rules, seed, 1_500).await;
            println!("seed {seed}, {rules:?}: {outcome}");
            outcome.check(rules);
        }
    }
    keys_that_expire(&mut f.server.connection().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_expires_and_no_name_is_lost() {
    let f = Redis::start().await;
    let l = &f.ledger;
    let now = l.now_ms().await.unwrap();
    for (n, kind) in [
        bucket(1, 1_000),
        sluicegate_store::ledger::MeterKind::Sliding { window_ms: 1_000 },
        around(now, 1),
        sluicegate_store::ledger::MeterKind::Slots,
    ]
    .into_iter()
    .enumerate()
    {
        apply(l, op(&format!("m{n}"), spec(kind, 10), "a", 1, 5)).await;
    }
    for source in 0..40 {
        l.count(&batch(&source.to_string(), 1, 2)).await.unwrap();
        l.count(&batch(&source.to_string(), 3, 2)).await.unwrap();
    }
    assert_eq!(usage::requests(l).await, 80);
    let keys = keys_that_expire(&mut f.server.connection().await).await;
    // Numbers and leases, cursors, days and months in several parts, and the note of the epoch.
    let of = |part: &str| keys.iter().filter(|key| key.contains(part)).count();
    assert_eq!((of(":m"), of("}:l"), of("}:c:"), of("epoch")), (4 + of("}:m:"), 4, 40, 1));
    assert!(of("}:d:2026-02-28") > 8 && of("}:m:2026-02") == of("}:d:2026-02-28"), "{keys:?}");
    assert_eq!(of("rights"), 0);
    l.cells(&[sluicegate_protocol::pool::Change::Merge(cells::cell("k", 1, 1))]).await.unwrap();
    let keys = keys_that_expire(&mut f.server.connection().await).await;
    assert!(keys.iter().any(|key| key.ends_with("p:{pool}:cells")), "{keys:?}");
}
