//! What is said when a limit refuses, and where.

use serde_json::{Value, json};
use sluicegate_testkit::client::Reply;
use std::time::Duration;

use crate::world::{LIMIT, World, chat, detail, header_number};

const RATELIMIT: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];

#[tokio::test(flavor = "multi_thread")]
async fn a7_refusals_name_their_author() {
    let limit =
        json!({"name": "slowly", "scope": {"key": "*"}, "dimension": "requests", "rate": "2/6s"});
    let world = World::limited(json!([limit])).await;
    for left in [1, 0] {
        let good = world.ask(&chat("alice", "hi")).await;
        assert_eq!(good.status, Some(200), "{}", good.text());
        assert_eq!(header_number(&good, RATELIMIT[0]), Some(2));
        assert_eq!(header_number(&good, RATELIMIT[1]), Some(left), "{:?}", good.headers);
        assert!(good.header(RATELIMIT[2]).is_some_and(is_duration), "{:?}", good.headers);
        assert_eq!(good.header("retry-after"), None);
    }
    let lines = world.planes[0].stderr().count();
    let refused = world.ask(&chat("alice", "hi")).await;
    let wait = in_body_and_headers(&refused);
    in_record_log_and_metric(&world, &refused, lines).await;
    assert_eq!(world.upstream.count(), 2);

    tokio::time::sleep(wait).await;
    let good = world.ask(&chat("alice", "hi")).await;
    assert_eq!(good.status, Some(200), "after {wait:?}: {}", good.text());
}

/// Gives the wait that is asked for.
fn in_body_and_headers(refused: &Reply) -> Duration {
    assert_eq!(refused.status, Some(429), "{}", refused.text());
    let error = refused.json().unwrap()["error"].clone();
    assert_eq!(error["code"], "rate_limit_exceeded", "{error}");
    for name in ["message", "type"] {
        assert!(error[name].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    }
    for word in ["slowly", "key=alice"] {
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    let detail = detail(refused);
    for (name, expected) in [
        ("source", json!("gateway")),
        ("limit_name", json!("slowly")),
        ("scope", json!("key=alice")),
        ("dimension", json!("requests")),
        ("limit", json!(2)),
        ("used", json!(2)),
        ("reserved", json!(0)),
        ("remaining", json!(0)),
        ("retryable", json!(true)),
    ] {
        assert_eq!(detail[name], expected, "{name}: {detail}");
    }
    let retry = detail["retry_after_ms"].as_u64().expect("retry_after_ms");
    let reset = detail["reset_ms"].as_u64().expect("reset_ms");
    assert!((1..=3_000).contains(&retry) && (retry..=6_000).contains(&reset), "{detail}");

    let after = refused.header("retry-after").expect("retry-after");
    assert!(after.bytes().all(|byte| byte.is_ascii_digit()), "{after:?}");
    assert_eq!(header_number(refused, "retry-after"), Some(retry.div_ceil(1_000)));
    assert_eq!(header_number(refused, "retry-after-ms"), Some(retry));
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    Duration::from_millis(retry)
}

async fn in_record_log_and_metric(world: &World, refused: &Reply, lines: usize) {
    let record = world.record(refused).await;
    let raw: Value = serde_json::from_str(&record.raw).unwrap();
    assert_eq!((&raw["status"], &raw["outcome"]), (&json!(429), &json!("rejected")), "{raw}");
    assert_eq!(raw["error_code"], "rate_limit_exceeded", "{raw}");
    let detail = detail(refused);
    for name in ["scope", "dimension", "window", "reset_ms"] {
        assert_eq!(raw["limit"][name], detail[name], "{name}: {raw}");
    }
    assert_eq!(raw["limit"]["name"], "slowly", "{raw}");
    assert_eq!(raw["limit"]["retry_ms"], detail["retry_after_ms"], "{raw}");
    for name in ["limit", "used", "reserved", "remaining"] {
        assert_eq!(raw["limit"][name], detail[name].to_string(), "{name}: {raw}");
    }
    let id = record.request_id.clone();
    let told = |line: &str| (line.contains(&id) && line.contains("limit")).then(|| line.to_owned());
    let log = world.planes[0].stderr();
    let line = log.find_from(lines, LIMIT, "a log line of the refusal", told).await.unwrap();
    for word in ["slowly", "key=alice", "requests"] {
        assert!(line.contains(word), "{line}");
    }
    let labels = ["limit=\"slowly\"", "dimension=\"requests\"", "shadow=\"false\""];
    assert_eq!(world.metric("sluicegate_limit_refusals_total", &labels).await, 1.0);
}

/// Whoever waits as long as is asked for is let in, also where one request is the whole limit.
#[tokio::test(flavor = "multi_thread")]
async fn a7_waiting_as_long_as_is_asked_for_is_enough() {
    let limit = |key: &str, rate: &str| json!({"name": key, "scope": {"key": key}, "dimension": "requests", "rate": rate});
    let rates = [("alice", "1/2s"), ("bob", "1/3s"), ("carol", "2/3s"), ("team", "3/second")];
    let limits: Vec<_> = rates.iter().map(|(key, rate)| limit(key, rate)).collect();
    let world = World::limited(limits.into()).await;
    for (key, rate) in rates {
        let mut reply = world.ask(&chat(key, "hi")).await;
        while reply.status == Some(200) {
            reply = world.ask(&chat(key, "hi")).await;
        }
        assert_eq!(reply.status, Some(429), "{rate}: {}", reply.text());
        let wait = header_number(&reply, "retry-after-ms").expect("retry-after-ms");
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let reply = world.ask(&chat(key, "hi")).await;
        assert_eq!(reply.status, Some(200), "{rate} after {wait} ms: {}", reply.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_refusal_carries_the_standing_too() {
    let limit =
        json!({"name": "few", "scope": {"key": "*"}, "dimension": "requests", "rate": "1/hour"});
    let world = World::limited(json!([limit])).await;
    assert_eq!(world.ask(&chat("alice", "hi")).await.status, Some(200));
    let refused = world.ask(&chat("alice", "hi")).await;
    assert_eq!(refused.status, Some(429), "{}", refused.text());
    assert_eq!(header_number(&refused, RATELIMIT[0]), Some(1), "{:?}", refused.headers);
    assert_eq!(header_number(&refused, RATELIMIT[1]), Some(0), "{:?}", refused.headers);
    assert!(refused.header(RATELIMIT[2]).is_some_and(is_duration), "{:?}", refused.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_the_tightest_limit_is_shown_and_counts_down() {
    let limits = json!([
        {"name": "wide", "scope": {"tenant": "*"}, "dimension": "requests", "rate": "500/day"},
        {"name": "tight", "scope": {"key": "*"}, "dimension": "requests", "rate": "50/day"},
    ]);
    let world = World::limited(limits).await;
    for left in (45..50).rev() {
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(header_number(&reply, RATELIMIT[0]), Some(50), "{:?}", reply.headers);
        assert_eq!(header_number(&reply, RATELIMIT[1]), Some(left), "{:?}", reply.headers);
        assert_eq!(reply.header("x-ratelimit-limit-tokens"), None, "nothing limits tokens");
    }
}

/// A caller without limits is told of none.
#[tokio::test(flavor = "multi_thread")]
async fn a7_who_has_no_limit_is_shown_none() {
    let limit =
        json!({"name": "bob", "scope": {"key": "bob"}, "dimension": "requests", "rate": "5/day"});
    let world = World::limited(json!([limit])).await;
    let reply = world.ask(&chat("alice", "hi")).await;
    assert_eq!(reply.status, Some(200));
    let told = reply.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("x-ratelimit"));
    assert!(!told, "{:?}", reply.headers);
}

/// As OpenAI writes one: `1s`, `6m0s`, `20ms`, `1.25s`.
fn is_duration(text: &str) -> bool {
    let number = text.trim_end_matches(['m', 's']);
    text.ends_with('s') && number.starts_with(|c: char| c.is_ascii_digit())
}
