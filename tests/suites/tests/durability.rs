//! kill -9 during a stream of changes: what was acknowledged is there, and nothing is there by halves.
//!
//! `SLUICEGATE_APPLIES=N` is the number of acknowledged changes to reach, `SLUICEGATE_SEED=N` repeats
//! the pauses of an earlier run.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_proto::resource::v1::resource::Spec;
use sluicegate_suites::admin::{self, Admin};
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::deadline::within;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(30);

/// Clients that apply at the same time, so that the kill finds changes in every state.
const WRITERS: usize = 4;

/// The process lives for some random time up to this, counted from its first acknowledgement.
const LONGEST_LIFE_MS: u64 = 100;

/// A change that was acknowledged: its number and its revision.
type Acknowledged = (usize, u64);

#[tokio::test(flavor = "multi_thread")]
async fn d1_an_acknowledged_change_survives_kill_9_and_no_half_of_one_does() {
    let wanted = number("SLUICEGATE_APPLIES").unwrap_or(150);
    let seed = number("SLUICEGATE_SEED").unwrap_or_else(|| fastrand::usize(..));
    println!("{wanted} acknowledged applies, SLUICEGATE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed as u64);

    let folder = TempDir::with_prefix("sluicegate-durability-").unwrap();
    let mut gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let next = Arc::new(AtomicUsize::new(0));
    let mut acknowledged = BTreeMap::new();
    let (mut kills, mut unanswered, begun) = (0, 0, Instant::now());
    while acknowledged.len() < wanted {
        let life = Duration::from_millis(random.u64(..LONGEST_LIFE_MS));
        let before = acknowledged.len();
        acknowledged.extend(changes_until_killed(&gateway, &next, life).await);
        kills += 1;
        assert!(acknowledged.len() > before, "nothing was acknowledged in round {kills}");

        gateway.restart().await.unwrap();
        let there = tenants(gateway.admin()).await;
        let head = there.values().flatten().copied().max().unwrap_or_default();
        for (n, revision) in &acknowledged {
            let pair = there.get(n).map(Vec::as_slice).unwrap_or_default();
            let whole = pair == [*revision, *revision];
            assert!(whole, "apply {n} at {revision} left {pair:?} (kill {kills}, seed {seed})");
        }
        for (n, pair) in &there {
            let whole = pair.len() == 2 && pair[0] == pair[1];
            assert!(whole, "apply {n} is there by halves: {pair:?} (kill {kills}, seed {seed})");
        }
        assert!(acknowledged.values().all(|revision| *revision <= head));
        unanswered = there.len() - acknowledged.len();
    }
    println!(
        "{} acknowledged, {unanswered} done without an answer, {kills} kills, {:?}",
        acknowledged.len(),
        begun.elapsed()
    );
}

/// Applies pairs of tenants until the process is killed; gives what was acknowledged.
async fn changes_until_killed(
    gateway: &Standalone,
    next: &Arc<AtomicUsize>,
    life: Duration,
) -> Vec<Acknowledged> {
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write(gateway.admin(), next.clone(), sender.clone()));
    }
    drop(sender);
    let first = within(LIMIT, "the first acknowledgement", inbox.recv()).await.unwrap();
    let mut acknowledged: Vec<_> = first.into_iter().collect();
    tokio::time::sleep(life).await;
    gateway.kill().unwrap();
    gateway.wait_for_exit(LIMIT).await.unwrap();
    // Each writer ends with the error that the kill gives it.
    within(LIMIT, "the end of the writers", async {
        while let Some(one) = inbox.recv().await {
            acknowledged.push(one);
        }
    })
    .await
    .unwrap();
    acknowledged
}

/// Applies one pair after the other until a call fails.
async fn write(
    server: SocketAddr,
    next: Arc<AtomicUsize>,
    acknowledged: mpsc::UnboundedSender<Acknowledged>,
) {
    let mut client = Admin::new(server).unwrap();
    loop {
        let n = next.fetch_add(1, Ordering::SeqCst);
        let pair = ["a", "b"].map(|half| admin::put(admin::tenant(&format!("{half}-{n}"))));
        match client.apply(pair.to_vec()).await {
            Ok(reply) => acknowledged.send((n, reply.at.unwrap().revision)).unwrap(),
            Err(status) => {
                // Only the broken connection may end it, never a refusal.
                let broken = matches!(
                    status.code(),
                    tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Cancelled
                );
                assert!(broken, "{status:?}");
                return;
            }
        }
    }
}

/// The versions of each pair's tenants.
async fn tenants(server: SocketAddr) -> BTreeMap<usize, Vec<u64>> {
    let mut there = BTreeMap::<_, Vec<_>>::new();
    for entry in Admin::new(server).unwrap().list("tenant").await.unwrap() {
        let Some(Spec::Tenant(tenant)) = entry.resource.and_then(|resource| resource.spec) else {
            panic!("a tenant was asked for");
        };
        if let Some(n) = tenant.name.split_once('-').and_then(|(_, n)| n.parse().ok()) {
            there.entry(n).or_default().push(entry.version);
        }
    }
    there
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}
