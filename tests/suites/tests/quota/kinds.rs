//! The kinds of limits there are.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sluicegate_testkit::client::Reply;
use tokio::time::Instant;

use crate::world::{IDLE, LIMIT, Ledger, World, chat, chat_with, count, detail, post};

async fn admitted(world: &World, n: usize) {
    for number in 0..n {
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
    }
}

async fn refused(world: &World) -> (Reply, Value) {
    let reply = world.ask(&chat("alice", "hi")).await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    let detail = detail(&reply);
    (reply, detail)
}

fn wait_of(detail: &Value) -> Duration {
    Duration::from_millis(detail["retry_after_ms"].as_u64().expect("retry_after_ms"))
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_each_rate_of_a_composite_limit_holds() {
    let limits = json!([
        {"name": "pace", "scope": {"key": "alice"}, "dimension": "requests", "rate": "3/second;1000/minute"},
        {"name": "sum", "scope": {"key": "bob"}, "dimension": "requests", "rate": "6/second;8/minute"},
    ]);
    let world = World::limited(limits).await;
    let replies = world.at_once(30, &chat("alice", "slow 300")).await;
    let let_in = count(&replies, 200);
    // Three, and one more for each third of a second that the 30 took to arrive.
    assert!((3..=7).contains(&let_in) && let_in + count(&replies, 429) == 30, "{let_in} of 30");
    let refused = replies.iter().find(|reply| reply.status == Some(429)).unwrap();
    let detail = detail(refused);
    assert_eq!((&detail["window"], &detail["limit"]), (&json!("second"), &json!(3)), "{detail}");
    tokio::time::sleep(wait_of(&detail).max(Duration::from_millis(350))).await;
    admitted(&world, 1).await;

    let replies = world.at_once(6, &chat("bob", "hi")).await;
    assert_eq!(count(&replies, 200), 6, "{:#?}", crate::world::told(&replies));
    // The second is full again, the minute is not.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let replies = world.at_once(6, &chat("bob", "hi")).await;
    assert_eq!(
        (count(&replies, 200), count(&replies, 429)),
        (2, 4),
        "{:#?}",
        crate::world::told(&replies)
    );
    let refused = replies.iter().find(|reply| reply.status == Some(429)).unwrap();
    let detail = crate::world::detail(refused);
    assert_eq!((&detail["window"], &detail["limit"]), (&json!("minute"), &json!(8)), "{detail}");
}

/// A burst beyond the rate's own amount, and one below it.
#[tokio::test(flavor = "multi_thread")]
async fn a6_a_burst_is_what_goes_at_once() {
    let limits = json!([
        {"name": "large", "scope": {"key": "alice"}, "dimension": "requests", "rate": "2/hour", "burst": 6},
        {"name": "small", "scope": {"key": "bob"}, "dimension": "requests", "rate": "100/day", "burst": 3},
    ]);
    let world = World::limited(limits).await;
    for (key, burst) in [("alice", 6), ("bob", 3)] {
        let replies = world.at_once(12, &chat(key, "hi")).await;
        assert_eq!(count(&replies, 200), burst, "{key}: {:#?}", crate::world::told(&replies));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_a_sliding_limit_looks_back_over_its_window() {
    let limit = json!({
        "name": "sliding", "scope": {"key": "*"}, "dimension": "requests", "rate": "2/3s",
        "algorithm": "sliding",
    });
    let world = World::limited(json!([limit])).await;
    admitted(&world, 2).await;
    let (_, detail) = refused(&world).await;
    assert_eq!((&detail["limit"], &detail["used"]), (&json!(2), &json!(2)), "{detail}");
    // Half of the window at least must have gone by, and not much more than it all.
    let (begun, mut moments) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(9) {
        if world.ask(&chat("alice", "hi")).await.status == Some(200) {
            moments.push(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let first = moments[0].as_millis();
    assert!((1_300..=4_800).contains(&first), "the next one after {first} ms");
    assert!((3..=7).contains(&moments.len()), "{moments:?} in 9 s of 2 in 3 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_sliding_limit_says_when_there_is_room() {
    let limit = json!({
        "name": "sliding", "scope": {"key": "*"}, "dimension": "requests", "rate": "2/3s",
        "algorithm": "sliding",
    });
    let world = World::limited(json!([limit])).await;
    admitted(&world, 2).await;
    let (_, detail) = refused(&world).await;
    let wait = wait_of(&detail);
    assert!(wait <= Duration::from_secs(6), "{detail}");
    tokio::time::sleep(wait).await;
    admitted(&world, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_calendar_day_ends_at_midnight() {
    let limit = json!({
        "name": "daily", "scope": {"key": "*"}, "dimension": "requests", "amount": 2, "window": "day",
    });
    let world = World::limited(json!([limit])).await;
    admitted(&world, 2).await;
    let (reply, detail) = refused(&world).await;
    assert_eq!(detail["window"], "calendar day", "{detail}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let left = 86_400_000 - u64::try_from(now % 86_400_000).unwrap();
    let told = detail["retry_after_ms"].as_u64().unwrap();
    assert!(told.abs_diff(left) < 5_000, "{told} ms, but {left} are left: {detail}");
    assert!(reply.header("retry-after").is_some_and(|after| after.parse::<u64>().is_ok()));
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_cost_budget_is_spent_and_then_refuses() {
    let limit = json!({
        "name": "budget", "scope": {"tenant": "*"}, "dimension": "cost", "amount": 0.05, "window": "month",
    });
    let world = World::limited(json!([limit])).await;
    // 7 times 0.001 and 2 times 0.002 dollars each.
    let request = chat_with("alice", "hi", json!({"max_tokens": 2}));
    for number in 0..4 {
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
    }
    let reply = world.ask(&request).await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    assert_eq!(reply.json().unwrap()["error"]["code"], "insufficient_quota");
    let detail = detail(&reply);
    assert_eq!(
        (&detail["dimension"], &detail["limit"]),
        (&json!("cost"), &json!(0.05)),
        "{detail}"
    );
    assert_eq!(detail["used"], json!(0.044), "{detail}");
    world.book.wait_for_used("budget", IDLE, 0.044).await.unwrap();
    let all =
        world.book.wait_for_usage(LIMIT, "4 requests", |all| all.requests == 4).await.unwrap();
    assert_eq!(all.cost_nano, 44_000_000, "{all:?}");
    let shown = world.cli(&["usage", "--by", "key,model,tenant", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert!(shown.to_string().contains("0.044"), "{shown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_units_are_tokens_times_weights() {
    let limit = json!({
        "name": "weight", "scope": {"key": "*"}, "dimension": "units", "amount": 1, "window": "month",
    });
    let world = World::limited(json!([limit])).await;
    let request = chat_with("alice", "usage 100 50", json!({"max_tokens": 50}));
    // (100 times 0.001 and 50 times 0.003) times 2 each.
    for used in [0.5, 1.0] {
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(200), "{}", reply.text());
        world.book.wait_for_used("weight", IDLE, used).await.unwrap();
    }
    let reply = world.ask(&request).await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    assert_eq!(detail(&reply)["used"], json!(1), "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_a_shadow_limit_counts_and_never_refuses() {
    let limit = json!({
        "name": "shadow", "scope": {"key": "*"}, "dimension": "requests", "amount": 1,
        "window": "month", "shadow": true,
    });
    let world = World::limited(json!([limit])).await;
    admitted(&world, 4).await;
    world.book.wait_for_used("shadow", IDLE, 4.0).await.unwrap();
    let labels = ["limit=\"shadow\"", "shadow=\"true\""];
    assert_eq!(world.metric("sluicegate_limit_refusals_total", &labels).await, 3.0);
    let reply = world.ask(&chat("alice", "hi")).await;
    assert_eq!(
        reply.header("x-ratelimit-limit-requests"),
        None,
        "it is for operators: {:?}",
        reply.headers
    );
    // A request that is larger than it ever allows passes as well.
    let tokens = json!({
        "name": "shadow-tokens", "scope": {"key": "*"}, "dimension": "tokens", "amount": 10,
        "window": "month", "shadow": true,
    });
    world.apply(&json!({"limits": [tokens]})).await;
    let reply = world.ask(&chat_with("alice", "hi", json!({"max_tokens": 500}))).await;
    assert_eq!(reply.status, Some(200), "{}", reply.text());
    world.book.wait_for_used("shadow-tokens", IDLE, 9.0).await.unwrap();
}

/// Two limits match and the second refuses: the first one's amount is given back.
#[tokio::test(flavor = "multi_thread")]
async fn a6_what_another_limit_refused_costs_nothing() {
    let limits = json!([
        {"name": "a-wide", "scope": {"key": "*"}, "dimension": "requests", "amount": 100, "window": "month"},
        {"name": "b-tight", "scope": {"tenant": "*"}, "dimension": "requests", "rate": "2/day"},
        {"name": "c-wide", "scope": {"key": "*"}, "dimension": "tokens", "amount": 100_000, "window": "month"},
        {"name": "d-rate", "scope": {"key": "*"}, "dimension": "requests", "rate": "50/day"},
    ]);
    let world = World::limited(limits).await;
    admitted(&world, 2).await;
    let replies = world.at_once(20, &chat("alice", "hi")).await;
    assert_eq!(count(&replies, 429), 20, "{:#?}", crate::world::told(&replies));
    let names: Vec<_> = replies.iter().map(|reply| detail(reply)["limit_name"].clone()).collect();
    assert!(names.iter().all(|name| name == "b-tight"), "{names:?}");
    for (limit, used) in [("a-wide", 2.0), ("b-tight", 2.0), ("c-wide", 18.0), ("d-rate", 2.0)] {
        world.book.wait_for_used(limit, IDLE, used).await.unwrap();
    }
}

/// A model without prices costs nothing: a budget has no say in it, and holds nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn c12_what_costs_nothing_is_never_held_up_by_a_budget() {
    let limits = json!([
        {"name": "budget", "scope": {"key": "*"}, "dimension": "cost", "amount": 1, "window": "month"},
    ]);
    let world = World::start(
        Ledger::Embedded,
        1,
        json!({
            "models": [{"name": "free", "targets": [{"provider": "p1"}]}],
            "limits": limits,
        }),
    )
    .await;
    let request = post(
        "/v1/chat/completions",
        "alice",
        json!({"model": "free", "messages": [{"role": "user", "content": "hi"}]}),
    );
    for _ in 0..5 {
        let begun = Instant::now();
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(200), "{}", reply.text());
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
}
