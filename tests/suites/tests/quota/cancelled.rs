//! Callers that leave, and what they leave behind.

use serde_json::{Value, json};
use sluicegate_testkit::client::{Connection, Request};
use sluicegate_testkit::record::AccessRecord;
use tokio::time::Instant;

use crate::script::{CUDA, HANG, TICKS};
use crate::world::{LIMIT, SETTLED, World, chat, chat_with, count};

fn limits() -> Value {
    json!([
        {"name": "tokens", "scope": {"key": "*"}, "dimension": "tokens", "amount": 20_000, "window": "month"},
        {"name": "requests", "scope": {"key": "*"}, "dimension": "requests", "amount": 15, "window": "month"},
        {"name": "at-once", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 1, "wait_ms": 10_000},
    ])
}

/// Sends a request on a connection of its own and waits until it is upstream.
async fn sent(world: &World, request: &Request) -> Connection {
    let calls = world.upstream.count();
    let mut connection = Connection::open(world.planes[0].traffic()).await.unwrap();
    connection.send(request).await;
    world.upstream.wait_for_calls(calls + 1, LIMIT).await.unwrap();
    connection
}

/// Waits until nothing is reserved any more.
async fn nothing_reserved(world: &World) {
    for limit in ["tokens", "requests", "at-once"] {
        let free = world.book.wait_for_meters(limit, SETTLED, "nothing reserved", |meters| {
            let free = meters.iter().all(|meter| meter.reserved == 0.0);
            free && (limit != "at-once" || meters.iter().all(|meter| meter.used == 0.0))
        });
        free.await.unwrap();
    }
}

/// The record of the only request of a key that the caller left.
async fn left(world: &World, key: &str) -> AccessRecord {
    let mine = |line: &str| {
        AccessRecord::parse(line)
            .filter(|r| r.key.as_deref() == Some(key) && r.outcome == "client_cancelled")
    };
    world.planes[0].stdout().find(LIMIT, "a record of who left", mine).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_who_leaves_before_the_first_byte_keeps_nothing_reserved() {
    let world = World::limited(limits()).await;
    let mut paid = Vec::new();
    for (key, stream) in [("alice", false), ("bob", true)] {
        let more = json!({"stream": stream});
        let mut connection = sent(&world, &chat_with(key, HANG, more)).await;
        connection.close();
        nothing_reserved(&world).await;
        let usage = left(&world, key).await.usage.expect("the prompt is paid");
        assert!(usage.estimated && usage.input_tokens > 0, "{usage:?}");
        assert_eq!(usage.output_tokens, 0, "{usage:?}");
        paid.push(usage.input_tokens);
    }
    assert_eq!(paid[0], paid[1], "the rule is one, streamed or not");
    let sum = u32::try_from(paid[0] + paid[1]).unwrap().into();
    world.book.wait_for_used("tokens", LIMIT, sum).await.unwrap();
    let all =
        world.book.wait_for_usage(LIMIT, "two requests", |all| all.requests == 2).await.unwrap();
    assert_eq!((all.input_tokens, all.output_tokens), (paid[0] + paid[1], 0), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_who_leaves_in_the_middle_pays_what_passed() {
    let world = World::limited(limits()).await;
    let mut connection = sent(&world, &chat_with("alice", TICKS, json!({"stream": true}))).await;
    connection.read_events(10).await;
    assert_eq!(connection.reply().status, Some(200), "{}", connection.reply().text());
    connection.reset();
    nothing_reserved(&world).await;
    let usage = left(&world, "alice").await.usage.expect("usage");
    assert!(usage.estimated && usage.input_tokens > 0, "{usage:?}");
    // Ten times "word ", at four characters a token, and what was on its way.
    assert!((10..=80).contains(&usage.output_tokens), "{usage:?}");
    let sum = u32::try_from(usage.input_tokens + usage.output_tokens).unwrap().into();
    world.book.wait_for_used("tokens", LIMIT, sum).await.unwrap();
    world.book.wait_for_used("requests", LIMIT, 1.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_who_leaves_while_waiting_for_a_limit_takes_nothing() {
    let world = World::limited(limits()).await;
    let mut first = sent(&world, &chat("alice", HANG)).await;
    let mut second = Connection::open(world.planes[0].traffic()).await.unwrap();
    second.send(&chat("alice", "never to be seen")).await;
    let waiting = async {
        while world.metric("sluicegate_requests_in_flight", &[]).await < 2.0 {
            tokio::task::yield_now().await;
        }
    };
    sluicegate_testkit::deadline::within(LIMIT, "two in flight", waiting).await.unwrap();
    second.close();
    left(&world, "alice").await;
    first.close();
    nothing_reserved(&world).await;
    let third = world.ask(&chat("alice", "hi")).await;
    assert_eq!(third.status, Some(200), "{}", third.text());
    let seen = world.upstream.calls(|call| String::from_utf8_lossy(&call.body).contains("never"));
    assert!(seen.is_empty(), "it went upstream");
    let all = world.book.wait_for_usage(LIMIT, "two requests", |all| all.requests == 2).await;
    all.unwrap();
    world.book.wait_for_used("requests", LIMIT, 2.0).await.unwrap();
}

/// A request that waits for a slot has it as soon as it is free.
#[tokio::test(flavor = "multi_thread")]
async fn a6_a_slot_is_free_again_after_whatever_ends_a_request() {
    let world = World::limited(limits()).await;
    let next = |world: &World| {
        let (address, request) = (world.planes[0].traffic(), chat("alice", "hi"));
        tokio::spawn(async move {
            sluicegate_testkit::client::exchange(address, &request, &[], LIMIT).await
        })
    };
    for round in 0..2 {
        for way in ["abort", "disconnect", "failure", "answer"] {
            let request = match way {
                "abort" => chat("alice", HANG),
                "disconnect" => chat_with("alice", TICKS, json!({"stream": true})),
                "failure" => chat("alice", &format!("slow 100 {CUDA}")),
                _ => chat("alice", "slow 100"),
            };
            let mut connection = sent(&world, &request).await;
            let waiting = next(&world);
            match way {
                "abort" => connection.close(),
                "disconnect" => {
                    connection.read_events(2).await;
                    connection.close();
                }
                _ => connection.read_to_end().await,
            }
            let freed = Instant::now();
            let reply = waiting.await.unwrap();
            let took = reply.over_at().map(|at| at.saturating_duration_since(freed));
            assert_eq!(reply.status, Some(200), "{way} {round}: {}", reply.text());
            assert!(took.is_some_and(|took| took < SETTLED), "{way} {round}: {took:?}");
        }
    }
    nothing_reserved(&world).await;
    assert_eq!(world.metric("sluicegate_requests_in_flight", &[]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_one_at_one_time_is_one_at_one_time() {
    let limit =
        json!({"name": "at-once", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 1});
    let world = World::limited(json!([limit])).await;
    let replies = world.at_once(6, &chat("alice", "slow 700")).await;
    assert_eq!(
        (count(&replies, 200), count(&replies, 429)),
        (1, 5),
        "{:#?}",
        crate::world::told(&replies)
    );
    let refused = replies.iter().find(|reply| reply.status == Some(429)).unwrap();
    let detail = crate::world::detail(refused);
    assert_eq!(
        (&detail["dimension"], &detail["window"]),
        (&json!("concurrency"), &json!("at one time"))
    );
    assert_eq!(world.upstream.count(), 1);
}
