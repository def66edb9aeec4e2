//! The contract on Redis.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sluicegate_store::{
    deferred::{Deferred, DeferredLimits, DeliveryOutcome, Job},
    redis::{RedisConfig, RedisDeferred},
};

use super::{fixture::*, model, suite};
use crate::ledger::{
    redis::{keys_that_expire, patient},
    server::Server,
};

pub struct Redis {
    pub server: Server,
    jobs: RedisDeferred,
}

pub async fn connect(server: &Server, limits: DeferredLimits) -> RedisDeferred {
    let config = RedisConfig { timeouts: patient(), ..RedisConfig::new([server.url()]) };
    RedisDeferred::connect(config, limits).await.unwrap()
}

#[async_trait]
impl DeferredFixture for Redis {
    async fn start(limits: DeferredLimits) -> Self {
        let server = Server::start().await;
        let jobs = connect(&server, limits).await;
        Self { server, jobs }
    }

    fn jobs(&self) -> &dyn Deferred {
        &self.jobs
    }

    async fn reopen(&mut self, limits: DeferredLimits) {
        self.jobs = connect(&self.server, limits).await;
    }

    /// What the server's clock said last is remembered; moving that is the same.
    async fn set_clock(&mut self, by_ms: i64) {
        let mut connection = self.server.connection().await;
        let mut set = redis::cmd("HINCRBY");
        set.arg("sluicegate:d2:{deferred}:numbers").arg("host").arg(-by_ms);
        set.exec_async(&mut connection).await.unwrap();
    }
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

crate::for_every_promise_of_deferred!(contract);

/// Everything expires, and when all jobs are forgotten nothing of them is left but numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_expires_and_what_is_forgotten_is_gone() {
    let f = Redis::start(LIMITS).await;
    let jobs = f.jobs();
    for id in ["a", "b", "c", "d"] {
        let job = Job { deliver: true, keep_ms: 300, idempotency_key: id.into(), ..job(id, "q") };
        put(jobs, &job).await;
    }
    claim(jobs, "1", "q", 3, LONG).await;
    jobs.release("b", 1, LONG).await.unwrap();
    finish(jobs, "c", 1, "x").await;
    let mut connection = f.server.connection().await;
    let keys = keys_that_expire(&mut connection).await;
    let ours = keys.iter().filter(|key| key.starts_with("sluicegate:d2:{deferred}:")).count();
    assert_eq!(ours, 10, "{keys:?}");
    let told = jobs.claim_deliveries(9, LONG).await.unwrap();
    jobs.delivered("c", told[0].attempt, DeliveryOutcome::Over).await.unwrap();
    for id in ["a", "b", "d"] {
        jobs.cancel(id).await.unwrap();
    }
    for id in ["a", "b", "c", "d"] {
        forgotten(jobs, id).await;
    }
    let keys = keys_that_expire(&mut connection).await;
    let left: Vec<_> = keys.iter().filter(|key| key.contains("{deferred}")).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let numbers: Vec<String> = redis::cmd("HGETALL")
        .arg("sluicegate:d2:{deferred}:numbers")
        .query_async(&mut connection)
        .await
        .unwrap();
    let (pairs, _) = numbers.as_chunks::<2>();
    let names: BTreeSet<&str> = pairs.iter().map(|[name, _]| name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["host", "now", "seq"]), "{numbers:?}");
}

/// What is not ours is got around.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_among_the_jobs_is_left_out() {
    let f = Redis::start(LIMITS).await;
    let jobs = f.jobs();
    put(jobs, &job("a", "q")).await;
    let mut connection = f.server.connection().await;
    for (name, value) in [("x", "rubbish"), ("y", "\u{91}\u{1}"), ("z", "")] {
        let mut set = redis::cmd("HSET");
        set.arg("sluicegate:d2:{deferred}:jobs").arg(name).arg(value);
        set.exec_async(&mut connection).await.unwrap();
        for (set, score, member) in [
            ("timers", 1, name.to_owned()),
            ("due", 1, name.to_owned()),
            ("ready", 0, format!("q\u{1f}0000000000000000\u{1f}{name}")),
        ] {
            let mut add = redis::cmd("ZADD");
            add.arg(format!("sluicegate:d2:{{deferred}}:{set}")).arg(score).arg(member);
            add.exec_async(&mut connection).await.unwrap();
        }
    }
    assert_eq!(jobs.get("x").await.unwrap(), None);
    assert_eq!(jobs.claim_deliveries(9, LONG).await.unwrap(), []);
    assert_eq!(given(&claim(jobs, "1", "q", 9, LONG).await), [("a", 1)]);
}
