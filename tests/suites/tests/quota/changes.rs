//! Limits that are changed while traffic runs.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::cluster::DataPlane;
use sluicegate_testkit::deadline::within;
use tokio::time::Instant;

use crate::counting::Callers;
use crate::world::{LIMIT, Ledger, World, ask, chat, detail};

/// In which time a change must be in force on every data plane.
const IN_FORCE: Duration = Duration::from_secs(1);

fn per_minute(amount: u32) -> Value {
    json!({"name": "rpm", "scope": {"key": "*"}, "dimension": "requests", "rate": format!("{amount}/minute")})
}

/// Waits until a key has that status on a data plane; gives the moment.
async fn until_status(plane: &DataPlane, key: &str, status: u16) -> Instant {
    let awaited = format!("{status} for {key} on {}", plane.name());
    let there = within(LIMIT, &awaited, async {
        loop {
            let reply = ask(plane, &chat(key, "hi")).await;
            if reply.status == Some(status) {
                return Instant::now();
            }
            assert!(matches!(reply.status, Some(200 | 429)), "{}", reply.text());
        }
    });
    there.await.unwrap()
}

async fn in_force_everywhere(world: &World, from: Instant, key: &str) {
    for plane in &world.planes {
        let took = until_status(plane, key, 429).await.saturating_duration_since(from);
        assert!(took <= IN_FORCE, "{}: in force after {took:?}", plane.name());
    }
    // And so it stays.
    for plane in &world.planes {
        let reply = ask(plane, &chat(key, "hi")).await;
        assert_eq!(reply.status, Some(429), "{}: {}", plane.name(), reply.text());
        assert_eq!(detail(&reply)["limit"], 1, "{}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_an_override_holds_within_a_second_and_ends_by_itself() {
    lowered(Ledger::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_an_override_holds_within_a_second_and_ends_by_itself_with_redis() {
    lowered(Ledger::Redis).await;
}

async fn lowered(ledger: Ledger) {
    let limits = json!({"limits": [per_minute(100_000)]});
    let world = World::start(ledger, 3, limits).await;
    let bursting = Callers::start(&world, "alice", &[0, 1, 2]);
    let others = Callers::start(&world, "bob", &[0, 1, 2]);
    bursting.some(10).await;
    let set = ["limit", "set", "rpm", "--for", "key=alice", "--rate", "1/minute", "--during", "5s"];
    let output = world.cli(&set).await;
    let changed = Instant::now();
    assert!(output.status.success(), "{}", output.said());
    in_force_everywhere(&world, changed, "alice").await;
    let shown = world.book.meters("rpm").await.unwrap();
    let alice = shown.iter().find(|meter| meter.subject == "key=alice").unwrap();
    assert!(!alice.override_name.is_empty() && alice.capacity == 1.0, "{alice:?}");

    // It is over five seconds after it was made, and nobody has to say so.
    let over = changed + Duration::from_secs(5);
    for plane in &world.planes {
        let served = until_status(plane, "alice", 200).await;
        let early = over.saturating_duration_since(served);
        // It was made before the command came back.
        assert!(early < Duration::from_secs(2), "{}: {early:?} too early", plane.name());
        let late = served.saturating_duration_since(over);
        assert!(late <= 2 * IN_FORCE, "{}: {late:?} too late", plane.name());
    }
    bursting.stop().await;
    others.stop().await.all_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_lowered_limit_holds_within_a_second_on_every_data_plane() {
    let other = json!({"name": "other", "scope": {"tenant": "other"}, "dimension": "requests", "rate": "100000/minute"});
    let limits = |amount| {
        let mut rpm = per_minute(amount);
        rpm["scope"] = json!({"key": "*", "tenant": "team"});
        json!({"limits": [rpm, other]})
    };
    let world = World::start(Ledger::Embedded, 3, limits(100_000)).await;
    let bursting = Callers::start(&world, "alice", &[0, 1, 2]);
    let others = Callers::start(&world, "other", &[0, 1, 2]);
    bursting.some(10).await;
    let output = world.try_apply(&limits(1).to_string(), &[]).await;
    let changed = Instant::now();
    assert!(output.status.success(), "{}", output.said());
    in_force_everywhere(&world, changed, "alice").await;
    // A limit that is gone holds nobody.
    let output = world.cli(&["delete", "limit", "rpm"]).await;
    let deleted = Instant::now();
    assert!(output.status.success(), "{}", output.said());
    for plane in &world.planes {
        let took = until_status(plane, "alice", 200).await.saturating_duration_since(deleted);
        assert!(took <= IN_FORCE, "{}: gone after {took:?}", plane.name());
    }
    bursting.stop().await;
    others.stop().await.all_well();
}
