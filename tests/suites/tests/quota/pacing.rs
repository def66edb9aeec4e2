//! Bursts that are smoothed instead of refused.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::world::{LIMIT, Ledger, World, chat, count, detail, header_number};

fn paced(pace_ms: u64) -> Value {
    json!([{
        "name": "smooth", "scope": { "key": "*" }, "dimension": "requests",
        "rate": "10/second", "burst": 1, "pace_ms": pace_ms,
    }])
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_burst_is_smoothed_over_its_rate() {
    let world = World::limited(paced(5_000)).await;
    assert_eq!(world.ask(&chat("alice", "first")).await.status, Some(200));
    let begun = Instant::now();
    let replies = world.at_once(20, &chat("alice", "hello")).await;
    let took = begun.elapsed();
    println!("20 at once over 10/second, burst 1: {} answered in {took:?}", count(&replies, 200));
    assert_eq!(count(&replies, 200), 20);
    assert!(took > Duration::from_millis(1_700), "faster than the rate: {took:?}");
    assert!(took < Duration::from_millis(4_000), "{took:?}");
    let calls = world.upstream.calls(|_| true);
    let mut gaps: Vec<_> =
        calls.windows(2).map(|pair| pair[1].arrived_at - pair[0].arrived_at).collect();
    gaps.sort_unstable();
    println!(
        "gaps between upstream calls: least {:?}, middle {:?}, most {:?}",
        gaps[0], gaps[10], gaps[19]
    );
    assert!(gaps[10] > Duration::from_millis(60), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_whoever_would_wait_too_long_is_told_at_once_how_long() {
    let world = World::start(Ledger::Redis, 1, json!({ "limits": paced(1_000) })).await;
    assert_eq!(world.ask(&chat("alice", "first")).await.status, Some(200));
    let begun = Instant::now();
    let replies = world.at_once(40, &chat("alice", "hello")).await;
    let took = begun.elapsed();
    let (answered, refused) = (count(&replies, 200), count(&replies, 429));
    println!(
        "40 at once, no longer than a second: {answered} answered, {refused} refused, {took:?}"
    );
    assert_eq!(answered + refused, 40);
    assert!((7..=13).contains(&answered), "{answered}");
    assert!(took < Duration::from_millis(2_500), "{took:?}");
    let mut waits = Vec::new();
    for reply in replies.iter().filter(|reply| reply.status == Some(429)) {
        let ms = detail(reply)["retry_after_ms"].as_u64().unwrap();
        assert_eq!(header_number(reply, "retry-after-ms"), Some(ms));
        waits.push(ms);
    }
    waits.sort_unstable();
    println!("told waits: {:?} to {:?} ms", waits.first(), waits.last());
    // Who is refused at once is told when the line will have gone; who stood in it to the end, when its
    // turn is.
    let at_once = waits.iter().filter(|wait| (800..2_000).contains(*wait)).count();
    assert!(at_once + 2 >= refused && waits.last().is_some_and(|wait| *wait < 2_000), "{waits:?}");

    // A caller's own time counts, too: it is not kept waiting for what comes after.
    let request = chat("alice", "hello").header("x-request-timeout-ms", "40");
    let replies = world.at_once(3, &request).await;
    assert!(count(&replies, 429) >= 2, "{replies:?}");
}

/// Resolves once the rate has come back, and data planes have given back what they keep ready.
async fn idle(world: &World) {
    let back = world.book.wait_for_meters("smooth", LIMIT, "nothing used nor held", |meters| {
        meters.iter().all(|meter| meter.used == 0.0 && meter.reserved == 0.0)
    });
    back.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_limit_that_was_idle_takes_a_burst_and_smooths_the_rest() {
    let limit = json!([{
        "name": "smooth", "scope": { "key": "*" }, "dimension": "requests",
        "rate": "5/second", "pace_ms": 2_000,
    }]);
    let world = World::limited(limit).await;
    assert_eq!(world.ask(&chat("alice", "first")).await.status, Some(200));
    idle(&world).await;
    let begun = Instant::now();
    let replies = world.at_once(12, &chat("alice", "hello")).await;
    println!("12 at once over 5/second: {} in {:?}", count(&replies, 200), begun.elapsed());
    assert_eq!(count(&replies, 200), 12, "{replies:?}");
    // And where nobody can wait, what is there is given.
    idle(&world).await;
    let hurried = chat("alice", "hello").header("x-request-timeout-ms", "400");
    let replies = world.at_once(4, &hurried).await;
    assert_eq!(count(&replies, 200), 4, "{replies:?}");
}
