//! Several data planes and control planes.

use std::time::Duration;

use serde_json::json;
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::process::http_get;

use crate::world::{ALICE, BOB, Fleet, LIMIT, code, content};

#[tokio::test(flavor = "multi_thread")]
async fn b2_what_one_data_plane_took_is_fetched_from_another() {
    let fleet = Fleet::start(0, |_| {}).await;
    let id = fleet.caller(0, ALICE).taken("hi", &[]).await;
    let elsewhere = fleet.caller(1, ALICE);
    assert!(matches!(elsewhere.standing(&id).await["status"].as_str(), Some("queued" | "running")));
    fleet.target.heal();
    let done = elsewhere.ended(&id).await;
    assert!(content(&done).starts_with("hi #"), "{done}");
}

/// A tenant that came first with many requests is one of those who take turns.
#[tokio::test(flavor = "multi_thread")]
async fn b2_one_tenants_many_do_not_hold_up_anothers_one() {
    let fleet = Fleet::start(0, |_| {}).await;
    let (alice, bob) = (fleet.caller(0, ALICE), fleet.caller(1, BOB));
    for number in 0..9 {
        alice.taken(&format!("many {number}"), &[]).await;
    }
    let one = bob.taken("one", &[]).await;
    let standing = bob.standing(&one).await;
    assert!(standing["ahead"].as_u64().is_some_and(|ahead| ahead <= 1), "{standing}");
    fleet.target.heal();
    assert_eq!(bob.ended(&one).await["status"], "done");
}

/// Nothing is taken that nobody has kept.
#[tokio::test(flavor = "multi_thread")]
async fn b2_without_a_control_plane_it_is_refused_and_not_lost() {
    let mut fleet = Fleet::start(0, |_| {}).await;
    let alice = fleet.caller(0, ALICE);
    let kept = alice.taken("kept", &[]).await;
    for plane in &fleet.cluster.control_planes {
        plane.end();
    }
    let reply = alice.ask("later", "refused", &[]).await;
    println!("{} {}", reply.status.unwrap_or(0), reply.text());
    assert!(matches!(reply.status, Some(502 | 503)), "{}", reply.text());
    assert!(matches!(code(&reply).as_str(), "upstream_error" | "target_unavailable"));
    assert!(reply.text().contains("cannot be kept for later"), "{}", reply.text());
    let reply = alice.ask("later", "refused", &[("x-sluicegate-defer", "true")]).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(503), "deferred_unavailable"));
    let reply = alice.get(&kept).await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(503), "deferred_unavailable"));
    // What can be answered is, with or without them.
    fleet.target.heal();
    let answered = async {
        while alice.ask("now", "answered", &[]).await.status != Some(200) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(LIMIT, "what can be answered", answered).await.unwrap();
    for plane in &mut fleet.cluster.control_planes {
        plane.restart().await.unwrap();
    }
    let done = alice.ended(&kept).await;
    assert_eq!(done["status"], "done", "{done}");
    let before = fleet.target.calls_about("refused").len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.target.calls_about("refused").len(), before, "it is nowhere");
}

/// Nobody waits for the lease of a data plane that was told to stop.
#[tokio::test(flavor = "multi_thread")]
async fn b2_a_data_plane_that_stops_gives_back_what_it_runs() {
    let fleet = Fleet::start(2_000, |_| {}).await;
    fleet.target.heal();
    let id = fleet.caller(0, ALICE).taken("long", &[("x-sluicegate-defer", "true")]).await;
    fleet.target.upstream.wait_for_calls(1, LIMIT).await.unwrap();
    let mut running = None;
    for (number, plane) in fleet.cluster.data_planes.iter().enumerate() {
        let metrics = http_get(plane.ops(), "/metrics").await.text();
        if metrics.lines().any(|line| line == "sluicegate_deferred_running 1") {
            running = Some(number);
        }
    }
    let running = running.expect("one of them runs it");
    let begun = tokio::time::Instant::now();
    fleet.cluster.data_planes[running].terminate().unwrap();
    let done = fleet.caller(1 - running, ALICE).ended(&id).await;
    println!("done {:?} after the stop", begun.elapsed());
    assert_eq!((&done["status"], &done["attempts"]), (&json!("done"), &json!(2)), "{done}");
    assert!(begun.elapsed() < Duration::from_secs(10), "its lease had to end");
}

/// A target that has come back is not flooded, and live requests go first.
#[tokio::test(flavor = "multi_thread")]
async fn b2_what_was_kept_keeps_to_what_the_target_takes() {
    let most = 4;
    let fleet = Fleet::start(100, |config| {
        config["providers"][0]["capacity"] = json!({ "max_requests": most });
    })
    .await;
    let mut ids = Vec::new();
    for n in 0..60 {
        ids.push(fleet.caller(n % 2, ALICE).taken(&format!("kept {n}"), &[]).await);
    }
    fleet.target.heal();
    let mut longest = Duration::ZERO;
    let mut live = 0;
    let mut left = ids.clone();
    while let Some(id) = left.last() {
        let begun = tokio::time::Instant::now();
        let reply = fleet.caller(0, ALICE).ask("now", "live", &[]).await;
        if reply.status == Some(200) {
            longest = longest.max(begun.elapsed());
            live += 1;
        }
        if fleet.caller(1, ALICE).standing(id).await["status"] == "done" {
            left.pop();
        }
    }
    let busy = most_at_once(&fleet);
    println!("{live} live requests of {longest:?} at most; {busy} at one time upstream");
    assert!(busy <= 2 * most, "{busy} at one time on two data planes that may {most} each");
    assert!(live > 0 && longest < Duration::from_secs(2), "{longest:?}");
}

/// How many calls the upstream had at one time, of those that it answered well.
fn most_at_once(fleet: &Fleet) -> usize {
    let calls = fleet.target.upstream.calls(|call| call.answered_at.is_some());
    let mut moments: Vec<_> = calls
        .iter()
        .flat_map(|call| {
            [(call.arrived_at, 1_i64), (call.answered_at.unwrap_or(call.arrived_at), -1)]
        })
        .collect();
    moments.sort_by_key(|(at, step)| (*at, *step));
    let (mut now, mut most) = (0, 0);
    for (_, step) in moments {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}
