//! Everything dies while what was kept is run, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::deadline::within;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::{ALICE, Caller, Fleet, LIMIT, content};

const JOBS: usize = 500;
/// How long the upstream takes, and how many a data plane may have there: so that it takes a while.
const SLOW_MS: u64 = 250;
const AT_ONCE: u32 = 8;
const KILLS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn b2_500_deferred_survive_kills() {
    let mut fleet = Fleet::start(SLOW_MS, |config| {
        config["providers"][0]["capacity"] = json!({ "max_requests": AT_ONCE });
    })
    .await;
    let begun = Instant::now();
    let ids = take(&fleet).await;
    println!("{} taken in {:?}", ids.len(), begun.elapsed());
    assert_eq!(ids.values().collect::<std::collections::BTreeSet<_>>().len(), JOBS);

    fleet.target.heal();
    let healed = Instant::now();
    let callers = [fleet.caller(0, ALICE), fleet.caller(1, ALICE)];
    let watching = tokio::spawn(watch(callers, ids.clone()));
    for kill in 0..KILLS {
        sleep(Duration::from_millis(700)).await;
        let cluster = &mut fleet.cluster;
        let restarted = match kill % 4 {
            0 => cluster.control_planes[0].restart().await,
            1 => cluster.redis.as_mut().unwrap().restart().await,
            2 => cluster.data_planes[1].restart().await,
            _ => cluster.control_planes[1].restart().await,
        };
        restarted.unwrap();
    }
    println!("{KILLS} kills over after {:?}", healed.elapsed());
    let first_seen = within(2 * LIMIT, "all results", watching).await.unwrap().unwrap();
    println!("all done {:?} after the target was well", healed.elapsed());

    // Nothing changes any more, whoever is asked.
    for (number, caller) in callers.iter().enumerate() {
        let standings = all(*caller, &ids).await;
        for (what, standing) in &standings {
            let seen = standing.as_ref().expect("an answer");
            assert_eq!(seen["response"], first_seen[what]["response"], "{what} at {number}");
        }
    }
    let (mut calls, mut twice) = (0, 0);
    for what in ids.keys() {
        let well = fleet.target.calls_about(what);
        let well = well.iter().filter(|call| call.arrived_at >= healed).count();
        assert!(well >= 1, "{what} was never run");
        calls += well;
        twice += usize::from(well > 1);
    }
    let mut attempts = BTreeMap::<u64, usize>::new();
    for standing in first_seen.values() {
        *attempts.entry(standing["attempts"].as_u64().unwrap_or(0)).or_default() += 1;
    }
    println!("claims, and how many requests took so many: {attempts:?}");
    println!("{calls} upstream calls for {JOBS} requests; {twice} were run more than once");
    assert!(twice < JOBS / 5, "{twice}");
}

/// Asks both data planes until all are kept. The text of each, and its id.
async fn take(fleet: &Fleet) -> BTreeMap<String, String> {
    let slots = Arc::new(Semaphore::new(32));
    let mut taking = JoinSet::new();
    for n in 0..JOBS {
        let (caller, slots) = (fleet.caller(n % 2, ALICE), slots.clone());
        taking.spawn(async move {
            let _slot = slots.acquire_owned().await.unwrap();
            let what = format!("job {n}");
            let id = caller.taken(&what, &[]).await;
            (what, id)
        });
    }
    taking.join_all().await.into_iter().collect()
}

/// Asks for all until each is done, whatever does not answer meanwhile; each as it was seen first.
async fn watch(callers: [Caller; 2], ids: BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let mut seen = BTreeMap::<String, Value>::new();
    for turn in 0.. {
        for (what, standing) in all(callers[turn % 2], &ids).await {
            let Some(standing) = standing.filter(|standing| standing["status"] == "done") else {
                continue;
            };
            let text = content(&standing);
            assert!(text.starts_with(&format!("{what} #")), "{what}: {standing}");
            let first = seen.entry(what).or_insert_with(|| standing.clone());
            assert_eq!(first["response"], standing["response"], "a result has changed");
        }
        if seen.len() == ids.len() {
            break;
        }
        sleep(Duration::from_millis(300)).await;
    }
    seen
}

/// How all of them stand; `None`: nobody could tell.
async fn all(caller: Caller, ids: &BTreeMap<String, String>) -> Vec<(String, Option<Value>)> {
    let slots = Arc::new(Semaphore::new(16));
    let mut asking = JoinSet::new();
    for (what, id) in ids.clone() {
        let slots = slots.clone();
        asking.spawn(async move {
            let _slot = slots.acquire_owned().await.unwrap();
            let reply = caller.get(&id).await;
            let known = reply.status == Some(200);
            let away = matches!(reply.status, None | Some(503));
            assert!(known || away, "{what}: {:?} {}", reply.status, reply.text());
            (what, if known { reply.json().ok() } else { None })
        });
    }
    asking.join_all().await
}
