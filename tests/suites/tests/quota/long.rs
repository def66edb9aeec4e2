//! What is easily got wrong where requests are long, upstreams talk nonsense, and limits change
//! while they are counted.

use std::time::Duration;

use serde_json::json;

use crate::world::{LIMIT, Ledger, World, chat, chat_with, count};

/// A data plane gives an idle lease back long before this request has ended.
const LONG: &str = "slow 3500";

/// What a long request did not use is given back, though nothing else is asked for meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a3_a_long_request_is_settled_on_a_limit_that_nobody_else_uses() {
    let limits = json!([
        {"name": "tokens", "scope": {"key": "*"}, "dimension": "tokens", "rate": "10000/30d"},
        {"name": "calls", "scope": {"key": "*"}, "dimension": "requests", "rate": "10/30d"},
    ]);
    let world = World::limited(limits).await;
    let good = chat_with("alice", &format!("{LONG} usage 11 3"), json!({"max_tokens": 4000}));
    assert_eq!(world.ask(&good).await.status, Some(200));
    world.book.wait_for_used("tokens", LIMIT, 14.0).await.unwrap();
    // Much more than was reserved is charged as well.
    let more = chat_with("alice", &format!("{LONG} usage 11 6000"), json!({"max_tokens": 5}));
    assert_eq!(world.ask(&more).await.status, Some(200));
    world.book.wait_for_used("tokens", LIMIT, 14.0 + 6011.0).await.unwrap();
    // And a failure gives its request back, however late it comes.
    let failing = chat_with("alice", &format!("{LONG} cuda"), json!({"max_tokens": 5}));
    assert_eq!(world.ask(&failing).await.status, Some(502));
    world.book.wait_for_used("calls", LIMIT, 2.0).await.unwrap();
}

/// One upstream's nonsense in one meter holds up no other.
#[tokio::test(flavor = "multi_thread")]
async fn a6_an_absurd_report_of_usage_stays_where_it_is() {
    let limits = json!([
        {"name": "units", "scope": {"key": "alice"}, "dimension": "units", "rate": "100000/minute"},
        {"name": "calls", "scope": {"key": "bob"}, "dimension": "requests", "rate": "500/minute"},
    ]);
    let world = World::limited(limits).await;
    let absurd = world.ask(&chat("alice", "usage 1000000000000 2")).await;
    assert_eq!(absurd.status, Some(200), "{}", absurd.text());
    assert!(world.record(&absurd).await.usage.is_some_and(|usage| usage.estimated));
    for _ in 0..20 {
        let reply = world.ask(&chat("bob", "hi")).await;
        assert_eq!(reply.status, Some(200), "{}", reply.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A limit that counts something else than before begins anew, and counts that at once.
#[tokio::test(flavor = "multi_thread")]
async fn a6_a_limit_that_counts_something_else_begins_anew() {
    let limit = |dimension: &str| json!({"limits": [{"name": "l", "scope": {"key": "*"}, "dimension": dimension, "rate": "1000/day"}]});
    let world = World::start(Ledger::Embedded, 1, limit("requests")).await;
    for _ in 0..3 {
        assert_eq!(world.ask(&chat("alice", "usage 90 10")).await.status, Some(200));
    }
    world.apply(&limit("tokens")).await;
    let request = chat_with("alice", "usage 90 10", json!({"max_tokens": 50}));
    let mut served = 0;
    while world.ask(&request).await.status == Some(200) {
        served += 1;
        assert!(served <= 10, "1000 tokens are ten such requests");
    }
    assert!(served >= 9, "only {served} of ten were served");
}

/// Whoever fits is let in, also where many ask first, at the same moment, for what nobody holds yet:
/// one of them may take what was granted for another.
#[tokio::test(flavor = "multi_thread")]
async fn d5_all_who_fit_are_let_in_however_many_ask_at_once() {
    let limits = json!([{
        "name": "at-once", "scope": {"user": "*"}, "dimension": "concurrency", "amount": 16,
        "wait_ms": 0,
    }]);
    let world = World::limited(limits).await;
    for user in 0..100 {
        let asked = chat_with("alice", "slow 100", json!({"user": format!("u{user}")}));
        let replies = world.at_once(20, &asked).await;
        assert_eq!((count(&replies, 200), count(&replies, 429)), (16, 4), "user {user}");
    }
}

/// Who is being served fills a slot, also when nobody could be told for longer than a lease lasts.
#[tokio::test(flavor = "multi_thread")]
async fn d5_slots_stay_filled_through_an_outage_that_outlasts_the_lease() {
    let limits = json!([{
        "name": "at-once", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 3,
        "wait_ms": 0,
    }]);
    let world = World::limited(limits).await;
    let long = chat("alice", "slow 24000");
    let running = world.at_once(3, &long);
    let meanwhile = async {
        world
            .book
            .wait_for_meters("at-once", LIMIT, "three slots held", |meters| {
                meters.iter().any(|meter| meter.reserved >= 3.0)
            })
            .await
            .unwrap();
        world.control.freeze().unwrap();
        // Longer than the 15 s of a lease.
        tokio::time::sleep(Duration::from_secs(16)).await;
        let alone = world.ask(&chat("alice", "hi")).await;
        assert_eq!(alone.status, Some(429), "{}", alone.text());
        world.control.thaw().unwrap();
        world
            .book
            .wait_for_meters("at-once", LIMIT, "the slots held again", |meters| {
                meters.iter().any(|meter| meter.reserved >= 3.0)
            })
            .await
            .unwrap();
        world.ask(&chat("alice", "hi")).await
    };
    let (served, refused) = tokio::join!(running, meanwhile);
    assert_eq!(refused.status, Some(429), "{}", refused.text());
    assert_eq!(count(&served, 200), 3);
}

/// A count in quotes is a count: an upstream may read it so.
#[tokio::test(flavor = "multi_thread")]
async fn b3_choices_cannot_be_hidden_in_quotes() {
    let limits = json!([{"name": "tokens", "scope": {"key": "*"}, "dimension": "tokens", "rate": "1000/minute", "strict": true}]);
    let world = World::limited(limits).await;
    for n in [json!("50"), json!(50.0), json!(50)] {
        let request = chat_with("alice", "hi", json!({"n": n, "max_tokens": 100}));
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(429), "{n}: {}", reply.text());
    }
}
