//! How much is let in, however much comes at once.

use serde_json::json;
use sluicegate_testkit::client::Connection;
use tokio::time::Instant;

use crate::world::{
    IDLE, LIMIT, Ledger, SETTLED, World, chat, chat_with, count, detail, header_number, told,
};

fn a_hundred_tokens() -> serde_json::Value {
    json!([{"name": "tpm", "scope": {"tenant": "*"}, "dimension": "tokens", "rate": "100/minute"}])
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_five_parallel_calls_against_100_tokens() {
    let world = World::limited(a_hundred_tokens()).await;
    // Each may need a bit more than 30, and uses 9; the answers come after everybody's patience.
    let request = chat_with("alice", "slow 800", json!({"max_tokens": 30}));
    let replies = world.at_once(5, &request).await;
    assert_eq!((count(&replies, 200), count(&replies, 429)), (2, 3), "{:#?}", told(&replies));
    assert_eq!(world.upstream.count(), 2, "a refused call went upstream");
    for refused in replies.iter().filter(|reply| reply.status == Some(429)) {
        let detail = detail(refused);
        assert_eq!(detail["limit_name"], "tpm", "{detail}");
        let sum = ["used", "reserved", "remaining"].map(|name| detail[name].as_u64().unwrap());
        assert_eq!(sum.iter().sum::<u64>(), 100, "{detail}");
        assert!(sum[2] < 31, "it would have fitted: {detail}");
    }
    // What they did not use is there again.
    let again = world.ask(&request).await;
    assert_eq!(again.status, Some(200), "{}", again.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_parallel_calls_of_open_length_never_use_more_than_the_limit() {
    let world = World::limited(a_hundred_tokens()).await;
    let replies = world.at_once(5, &chat("alice", "slow 800 usage 40 50")).await;
    assert_eq!((count(&replies, 200), count(&replies, 429)), (1, 4), "{:#?}", told(&replies));
    assert_eq!(world.upstream.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_small_limit_admits_its_first_call_at_the_length_that_fits() {
    let world = World::limited(a_hundred_tokens()).await;
    let mut call = Connection::open(world.planes[0].traffic()).await.unwrap();
    call.send(&chat("alice", "slow 700")).await;
    let awaited = "all of the limit taken";
    let taken = world.book.wait_for_meters("tpm", LIMIT, awaited, |meters| {
        let [meter] = meters else { return false };
        (97.0..=100.0).contains(&(meter.used + meter.reserved))
    });
    taken.await.unwrap();
    call.read_to_end().await;
    let reply = call.into_reply();
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    assert_eq!(header_number(&reply, "x-ratelimit-limit-tokens"), Some(100));
    let settled = world.book.wait_for_meters("tpm", SETTLED, "9 tokens used", |meters| {
        let [meter] = meters else { return false };
        meter.used <= 9.0 && meter.used > 5.0 && meter.reserved == 0.0
    });
    settled.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_small_max_tokens_does_not_hide_a_large_one() {
    let world = World::limited(a_hundred_tokens()).await;
    let lengths = json!({"max_tokens": 1, "max_completion_tokens": 5_000});
    let reply = world.ask(&chat_with("alice", "hi", lengths)).await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    assert_eq!(reply.json().unwrap()["error"]["code"], "request_exceeds_limit");
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    assert_eq!(reply.header("retry-after"), None, "the same request never fits");
    assert!(detail(&reply)["requested"].as_u64().unwrap() > 5_000, "{}", reply.text());
    assert_eq!(world.upstream.count(), 0);
}

/// One large request does not starve small ones, and small ones do not hide it.
#[tokio::test(flavor = "multi_thread")]
async fn b3_a_million_tokens_and_small_requests_are_weighed_alike() {
    // 0.003 units times 2 for each token of output.
    let weight = json!([{"name": "weight", "scope": {"key": "*"}, "dimension": "units", "rate": "1000/hour"}]);
    let world = World::limited(weight).await;
    let huge = world.ask(&chat_with("alice", "hi", json!({"max_tokens": 1_000_000}))).await;
    assert_eq!(huge.status, Some(429), "{}", huge.text());
    assert_eq!(detail(&huge)["dimension"], "units");
    let small = world.at_once(10, &chat_with("alice", "hi", json!({"max_tokens": 100}))).await;
    assert_eq!(count(&small, 200), 10, "{:#?}", told(&small));
    // 960 of 1000 units.
    let large = chat_with("alice", "usage 7 160000", json!({"max_tokens": 160_000}));
    let reply = world.ask(&large).await;
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    let next = world.ask(&chat_with("alice", "hi", json!({"max_tokens": 10_000}))).await;
    assert_eq!(next.status, Some(429), "60 units more: {}", next.text());
    let other = world.ask(&chat_with("bob", "hi", json!({"max_tokens": 10_000}))).await;
    assert_eq!(other.status, Some(200), "{}", other.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_twenty_at_once_against_five_a_minute_on_one_data_plane() {
    twenty_at_once(Ledger::Embedded, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_twenty_at_once_against_five_a_minute_on_three_data_planes() {
    twenty_at_once(Ledger::Embedded, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_twenty_at_once_against_five_a_minute_on_three_data_planes_with_redis() {
    twenty_at_once(Ledger::Redis, 3).await;
}

/// A budget that somebody never seen before spends at two data planes at once.
#[tokio::test(flavor = "multi_thread")]
async fn b3_a_budget_for_three_on_two_data_planes_is_spent_by_three() {
    for ledger in [Ledger::Embedded, Ledger::Redis] {
        let budget = json!({
            "name": "budget", "scope": {"user": "*"}, "dimension": "units", "amount": 3, "window": "month",
        });
        let model = json!({
            "name": "m1", "targets": [{"provider": "p1", "model": "m1"}],
            "units": {"input": 0, "output": 0.5}, "output_cap": {"tokens": 2},
        });
        let changes = json!({"limits": [budget], "models": [model]});
        let world = World::start(ledger, 2, changes).await;
        let request = chat_with("alice", "slow 600", json!({"user": "never seen before"}));
        let replies = world.at_once(30, &request).await;
        assert_eq!((count(&replies, 200), count(&replies, 429)), (3, 27), "{:#?}", told(&replies));
        assert_eq!(world.upstream.count(), 3, "a refused call went upstream");
        world.book.wait_for_used("budget", IDLE, 3.0).await.unwrap();
    }
}

async fn twenty_at_once(ledger: Ledger, planes: usize) {
    let limit =
        json!({"name": "rpm", "scope": {"key": "*"}, "dimension": "requests", "rate": "5/minute"});
    let world = World::start(ledger, planes, json!({"limits": [limit]})).await;
    let begun = Instant::now();
    let replies = world.at_once(20, &chat("alice", "slow 200")).await;
    // One more every 12 seconds.
    assert!(begun.elapsed().as_secs() < 11, "too slow to tell: {:?}", begun.elapsed());
    assert_eq!((count(&replies, 200), count(&replies, 429)), (5, 15), "{:#?}", told(&replies));
    assert_eq!(world.upstream.count(), 5, "a refused call went upstream");
    // Another caller has a limit of its own.
    assert_eq!(world.ask(&chat("bob", "hi")).await.status, Some(200));
}
