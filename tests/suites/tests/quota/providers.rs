//! Limits of a provider or of one of its keys.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{Ledger, World, chat, count, detail};

/// Model `m1` on `p1` and, should that have no room, on `p2`; `p1` has two keys.
async fn world(limits: Value) -> World {
    let world = World::start(Ledger::Embedded, 1, json!({})).await;
    let targets = json!([
        {"provider": "p1", "model": "m1"}, {"provider": "p2", "model": "m1", "priority": 1},
    ]);
    let second = json!({
        "name": "p1/k2", "provider": "p1", "secret": {"value": "sk-upstream-p1-k2"},
    });
    world
        .apply(&json!({
            "models": [{"name": "m1", "targets": targets}],
            "credentials": [second],
            "limits": limits,
        }))
        .await;
    world
}

/// How many calls went where: the provider and the last part of the key.
fn calls(world: &World, provider: &str, key: &str) -> usize {
    let mine = |call: &sluicegate_testkit::upstream::Call| {
        call.provider() == provider && call.bearer().is_some_and(|secret| secret.ends_with(key))
    };
    world.upstream.calls(mine).len()
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_providers_limit_moves_traffic_and_does_not_slow_it() {
    let limit = json!({"name": "p1", "scope": {"provider": "p1"}, "dimension": "requests", "rate": "3/day"});
    let world = world(json!([limit])).await;
    for number in 0..8 {
        let begun = Instant::now();
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
        assert!(begun.elapsed() < Duration::from_millis(500), "{number}: {:?}", begun.elapsed());
    }
    assert_eq!((calls(&world, "p1", ""), calls(&world, "p2", "")), (3, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_at_once_a_provider_gets_no_more_than_its_limit() {
    let limit = json!({"name": "p1", "scope": {"provider": "p1"}, "dimension": "requests", "rate": "3/day"});
    let world = world(json!([limit])).await;
    let replies = world.at_once(12, &chat("alice", "slow 200")).await;
    assert_eq!(count(&replies, 200), 12, "{:#?}", crate::world::told(&replies));
    assert_eq!((calls(&world, "p1", ""), calls(&world, "p2", "")), (3, 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_keys_limit_moves_traffic_to_the_other_key() {
    let limit = json!({"name": "k1", "scope": {"credential": "p1/k1"}, "dimension": "requests", "rate": "2/day"});
    let world = world(json!([limit])).await;
    for number in 0..10 {
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
    }
    assert_eq!((calls(&world, "p1", "k1"), calls(&world, "p1", "k2")), (2, 8));
    assert_eq!(calls(&world, "p2", ""), 0, "the first provider had a key with room");
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_when_all_are_at_their_limit_the_refusal_names_it() {
    let limits = json!([
        {"name": "keys", "scope": {"credential": "*"}, "dimension": "requests", "rate": "1/day"},
        {"name": "callers", "scope": {"key": "*"}, "dimension": "requests", "amount": 100, "window": "month"},
    ]);
    let world = world(limits).await;
    for number in 0..3 {
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
    }
    let reply = world.ask(&chat("alice", "hi")).await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    let detail = detail(&reply);
    assert_eq!(
        (&detail["source"], &detail["limit_name"]),
        (&json!("gateway"), &json!("keys")),
        "{detail}"
    );
    assert!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    assert_eq!(world.upstream.count(), 3);
    // What never went anywhere did not count for its caller.
    world.book.wait_for_used("callers", crate::world::IDLE, 3.0).await.unwrap();
}

/// An attempt that failed has been asked of its provider, though the caller pays nothing for it.
#[tokio::test(flavor = "multi_thread")]
async fn c6_failed_attempts_count_for_the_provider_and_not_for_the_caller() {
    let limits = json!([
        {"name": "p1", "scope": {"provider": "p1"}, "dimension": "requests", "amount": 100, "window": "month"},
        {"name": "callers", "scope": {"key": "*"}, "dimension": "requests", "amount": 100, "window": "month"},
    ]);
    let world = world(limits).await;
    let reply = world.ask(&chat("alice", crate::script::CUDA)).await;
    // Two targets died while they worked on it, so that it is to blame.
    assert_eq!(reply.status, Some(422), "{}", reply.text());
    let asked = calls(&world, "p1", "");
    assert!(asked >= 1);
    let asked = f64::from(u32::try_from(asked).unwrap());
    world.book.wait_for_used("p1", crate::world::IDLE, asked).await.unwrap();
    world.book.wait_for_used("callers", crate::world::IDLE, 0.0).await.unwrap();
}
