//! Holds every ledger against nodes that crash and a network that loses, repeats and delays, and
//! measures what an operation costs in Redis.
//!
//! ```sh
//! cargo run --release -p sluicegate-store --example ledger-check -- 20 6000
//! ```
//!
//! Takes the number of seeds and of steps; `bench` as a third argument measures instead. Starts a
//! redis-server of its own. Panics at the first seed that breaks a rule.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this reports to a terminal")]
#![allow(unreachable_pub, dead_code, reason = "these files are shared with the tests")]

#[path = "../tests/contract/child.rs"]
mod child;
#[path = "../tests/contract/ledger/nodes.rs"]
mod nodes;
#[path = "../tests/contract/ledger/server.rs"]
mod server;

use std::time::Duration;

use futures_util::future::join_all;
use nodes::{Desk, Outcome, Real, Rules, Simulated};
use server::Server;
use sluicegate_store::{
    embedded::EmbeddedStore,
    ledger::{LeaseOp, Ledger, MeterKind, MeterSpec, OnExpiry},
    redis::{RedisConfig, RedisLedger, RedisTimeouts},
};
use tokio::time::Instant;

const RULES: [Rules; 4] = [Rules::Hold, Rules::Return, Rules::Slots, Rules::Bucket];

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let (seeds, steps) = (number(0).unwrap_or(20), number(1).unwrap_or(6_000));
    let server = Server::start().await;
    let redis = redis(&server).await;
    if arguments.iter().any(|argument| argument == "bench") {
        return measure(&server, &redis).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = EmbeddedStore::open(dir.path()).unwrap();
    let embedded = store.ledger().unwrap();
    for rules in RULES {
        check("the engine", rules, seeds, steps, Simulated::default).await;
        let real = |ledger| move || Real { ledger, started: Instant::now() };
        check("embedded", rules, seeds, steps, real(&embedded as &dyn Ledger)).await;
        check("redis", rules, seeds, steps, real(&redis as &dyn Ledger)).await;
    }
}

async fn redis(server: &Server) -> RedisLedger {
    let timeouts = RedisTimeouts {
        call: Duration::from_secs(5),
        recovery: Duration::ZERO,
        ..RedisTimeouts::default()
    };
    let config = RedisConfig { timeouts, ..RedisConfig::new([server.url()]) };
    let ledger = RedisLedger::connect(config).await.unwrap();
    nodes::until_leases_expire(&ledger).await;
    ledger
}

async fn check<D: Desk>(what: &str, rules: Rules, seeds: u64, steps: u64, desk: impl Fn() -> D) {
    let started = Instant::now();
    let mut all = Outcome::default();
    for seed in 0..seeds {
        let outcome = nodes::run(&mut desk(), rules, seed, steps).await;
        println!("  seed {seed}: {outcome}");
        outcome.check(rules);
        all.calls += outcome.calls;
        all.admitted += outcome.admitted;
        all.denied += outcome.denied;
        all.crashes += outcome.crashes;
        all.overshoot = all.overshoot.max(outcome.overshoot);
        all.overbooked = all.overbooked.max(outcome.overbooked);
        all.unreported = all.unreported.max(outcome.unreported);
        all.used += outcome.used;
        all.truth += outcome.truth;
        all.leaked += outcome.leaked;
    }
    println!("{what}, {rules:?}, {seeds} seeds x {steps} steps: {all} ({:?})", started.elapsed());
}

/// An operation of a lease that is one of `holders` on its meter.
fn operation(n: u64, holders: u64, meters: u64) -> LeaseOp {
    let spec = MeterSpec {
        kind: MeterKind::Bucket { amount: 1 << 40, window_ms: 60_000 },
        capacity: 1 << 40,
        on_expiry: OnExpiry::Return,
        ttl_ms: 15_000,
    };
    let round = n / (holders * meters) + 1;
    LeaseOp {
        meter: format!("limits/some-limit/{}", n % meters),
        spec,
        lease: format!("node-7f3a/{}/{holders}", n / meters % holders),
        seq: round,
        charged: 10 * round,
        refunded: round,
        granted: 10 * round + 50,
        wanted: 10 * round + 60,
        minimum: 1,
        close: false,
        window: 0,
    }
}

async fn measure(server: &Server, ledger: &RedisLedger) {
    let mut beside = server.connection().await;
    for (holders, meters) in [(1, 100), (10, 10), (100, 1), (1_000, 1)] {
        for batch in [1, 64] {
            redis::cmd("FLUSHDB").exec_async(&mut beside).await.unwrap();
            redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut beside).await.unwrap();
            let (total, mut n) = (if batch == 1 { 10_000 } else { 64_000 }, 0);
            let mut took = Vec::new();
            let started = Instant::now();
            while n < total {
                let ops: Vec<LeaseOp> =
                    (n..n + batch).map(|n| operation(n, holders, meters)).collect();
                let asked = Instant::now();
                ledger.lease(&ops).await.unwrap();
                took.push(asked.elapsed());
                n += batch;
            }
            let elapsed = started.elapsed();
            took.sort_unstable();
            let stats: String =
                redis::cmd("INFO").arg("commandstats").query_async(&mut beside).await.unwrap();
            let script = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
            println!(
                "{holders} holders on {meters} meters, {batch} a call: {:.0} ops/s; a call {:?} \
                 (p50), {:?} (p99); {}",
                total as f64 / elapsed.as_secs_f64(),
                took[took.len() / 2],
                took[took.len() * 99 / 100],
                script.unwrap_or("no script ran"),
            );
        }
    }
    let (callers, each) = (64, 1_000);
    let started = Instant::now();
    join_all((0..callers).map(|caller| async move {
        for n in 0..each {
            ledger.lease(&[operation(n * callers + caller, 10, 100)]).await.unwrap();
        }
    }))
    .await;
    let rate = (callers * each) as f64 / started.elapsed().as_secs_f64();
    println!("{callers} callers at a time, one operation a call: {rate:.0} ops/s");
}
