//! Limits while nobody can be asked, and afterwards.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::Reply;
use sluicegate_testkit::deadline::within;
use tokio::time::Instant;

use crate::world::{IDLE, LIMIT, Ledger, World, chat, detail};

/// The longest that a request may take while nobody answers.
const QUICK: Duration = Duration::from_secs(2);

fn limits() -> Value {
    json!([
        {"name": "shared", "scope": {"key": "alice"}, "dimension": "requests", "rate": "1000/minute"},
        {"name": "slots", "scope": {"key": "alice"}, "dimension": "concurrency", "amount": 5},
        {"name": "denied", "scope": {"key": "bob"}, "dimension": "requests", "rate": "10/day",
         "on_outage": "deny"},
        {"name": "few", "scope": {"key": "carol"}, "dimension": "requests", "rate": "6/day"},
        {"name": "budget", "scope": {"key": "org"}, "dimension": "cost", "amount": 100, "window": "month"},
        {"name": "allowed", "scope": {"key": "other"}, "dimension": "requests", "amount": 20,
         "window": "month", "on_outage": "allow"},
    ])
}

/// Asks; the answer must be there soon.
async fn quickly(world: &World, key: &str) -> Reply {
    let begun = Instant::now();
    let reply = world.ask(&chat(key, "hi")).await;
    assert!(begun.elapsed() < QUICK, "{key} waited {:?}: {}", begun.elapsed(), reply.text());
    reply
}

async fn served(world: &World, key: &str, n: usize) {
    for number in 0..n {
        let reply = quickly(world, key).await;
        assert_eq!(reply.status, Some(200), "{key} {number}: {}", reply.text());
    }
}

/// Asks until it is refused for being used up; gives how many were served.
async fn until_refused(world: &World, key: &str) -> usize {
    for served in 0..100 {
        let reply = quickly(world, key).await;
        if reply.status != Some(200) {
            assert_eq!(reply.status, Some(429), "{key} {served}: {}", reply.text());
            return served;
        }
    }
    panic!("{key} is never refused");
}

/// What is left is less than what was asked for, and it takes time until it is there.
fn adds_up(reply: &Reply) {
    let detail = detail(reply);
    let number = |name: &str| detail[name].as_u64().unwrap_or_else(|| panic!("{name}: {detail}"));
    let add_up = number("remaining") < number("requested")
        && number("used") + number("reserved") + number("remaining") == number("limit")
        && number("retry_after_ms") > 1;
    assert!(add_up, "{detail}");
}

async fn unavailable(world: &World, key: &str, limit: &str) {
    for _ in 0..5 {
        let reply = quickly(world, key).await;
        assert_eq!(reply.status, Some(503), "{key}: {}", reply.text());
        assert_eq!(reply.json().unwrap()["error"]["code"], "limit_unavailable", "{}", reply.text());
        let detail = detail(&reply);
        assert_eq!((&detail["source"], &detail["limit_name"]), (&json!("gateway"), &json!(limit)));
        assert_eq!(reply.header("x-should-retry"), Some("true"));
        let after = reply.header("retry-after").expect("retry-after");
        assert!(after.parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{after}");
    }
}

/// Waits until limits can be asked for again.
async fn asked_again(world: &World) {
    let there = async {
        while world.metric("sluicegate_quota_available", &[]).await < 1.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, "limits that can be asked for", there).await.unwrap();
}

/// Before, during and after an outage that `begin` and `end` make.
async fn through_an_outage(
    world: &mut World,
    begin: impl AsyncFnOnce(&mut World),
    end: impl AsyncFnOnce(&mut World),
) {
    for key in ["alice", "bob", "org", "other"] {
        served(world, key, 1).await;
    }
    served(world, "carol", 2).await;
    begin(world).await;
    served(world, "alice", 10).await;
    served(world, "other", 30).await;
    unavailable(world, "bob", "denied").await;
    unavailable(world, "org", "budget").await;
    let carols = until_refused(world, "carol").await;
    assert!(carols <= 1, "a share of 6 a day is not {carols} at once");
    assert!(world.metric("sluicegate_limit_unasked_total", &["limit=\"other\""]).await == 0.0);
    assert!(world.metric("sluicegate_limit_unasked_total", &["limit=\"allowed\""]).await >= 20.0);

    end(world).await;
    asked_again(world).await;
    // One that was killed waits for what data planes say of its latest grants.
    world.book.wait_for_ledger(LIMIT).await.unwrap();
    served(world, "alice", 5).await;
    for key in ["bob", "org"] {
        served(world, key, 1).await;
    }
    assert_eq!(until_refused(world, "carol").await, 4 - carols, "the limit is exact again");
    // What was let through unasked has been counted: 31 of 20.
    assert_eq!(until_refused(world, "other").await, 0);
    world.book.wait_for_used("allowed", IDLE, 31.0).await.unwrap();
    world.book.wait_for_used("slots", IDLE, 0.0).await.unwrap();
    let all = world.book.wait_for_usage(LIMIT, "everything counted", |all| {
        all.requests == u64::try_from(world.upstream.count()).unwrap()
    });
    all.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_limits_without_a_control_plane() {
    let mut world = World::limited(limits()).await;
    let begin = async |world: &mut World| {
        world.control.kill().unwrap();
        world.control.wait_for_exit(LIMIT).await.unwrap();
    };
    let end = async |world: &mut World| world.control.restart().await.unwrap();
    through_an_outage(&mut world, begin, end).await;
}

/// A share that is used up is no limit with room left, and trying again at once is no use.
#[tokio::test(flavor = "multi_thread")]
async fn a7_what_is_said_of_a_share_that_is_used_up_adds_up() {
    let world = World::limited(limits()).await;
    served(&world, "carol", 2).await;
    world.control.kill().unwrap();
    world.control.wait_for_exit(LIMIT).await.unwrap();
    until_refused(&world, "carol").await;
    let refused = quickly(&world, "carol").await;
    assert_eq!(refused.status, Some(429), "{}", refused.text());
    adds_up(&refused);
}

/// It neither answers nor is it gone.
#[tokio::test(flavor = "multi_thread")]
async fn d5_limits_with_a_frozen_control_plane() {
    let mut world = World::limited(limits()).await;
    let begin = async |world: &mut World| world.control.freeze().unwrap();
    let end = async |world: &mut World| world.control.thaw().unwrap();
    through_an_outage(&mut world, begin, end).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_limits_with_a_frozen_redis() {
    let mut world = World::start(Ledger::Redis, 1, json!({"limits": limits()})).await;
    let begin = async |world: &mut World| world.redis.as_ref().unwrap().freeze().unwrap();
    let end = async |world: &mut World| world.redis.as_ref().unwrap().thaw().unwrap();
    through_an_outage(&mut world, begin, end).await;
}

/// Every counter in the store has an expiry, and none outlives its window for long.
#[tokio::test(flavor = "multi_thread")]
async fn a13_every_counter_expires() {
    let limits = json!([
        {"name": "rpm", "scope": {"key": "*"}, "dimension": "requests", "rate": "10/minute;100/hour"},
        {"name": "slide", "scope": {"key": "*"}, "dimension": "requests", "rate": "9/s", "algorithm": "sliding"},
        {"name": "hourly", "scope": {"tenant": "*"}, "dimension": "tokens", "amount": 90_000, "window": "hour"},
        {"name": "slots", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 5},
    ]);
    let world = World::start(Ledger::Redis, 1, json!({"limits": limits})).await;
    served(&world, "alice", 3).await;
    world.book.wait_for_usage(LIMIT, "three requests", |all| all.requests == 3).await.unwrap();
    let address = world.redis.as_ref().unwrap().client();
    let keys = redis(address, "KEYS *").await;
    let counters: Vec<_> = keys.iter().filter(|key| key.starts_with("sluicegate:q:")).collect();
    assert!(counters.len() >= 5, "{keys:?}");
    assert!(keys.len() > counters.len(), "usage is counted as well: {keys:?}");
    for key in &keys {
        let ttl = redis(address, &format!("TTL {key}")).await;
        let seconds: i64 = ttl[0].trim_start_matches(':').parse().unwrap();
        assert!(seconds > 0, "{key} never expires");
        // Two of the longest window, which is an hour, and a day for who has not reported yet.
        let most = 26 * 3_600 + 60;
        assert!(seconds <= most || !counters.contains(&key), "{key} lives for {seconds} s");
    }
}

/// One command in the inline form; gives the lines of the answer that are no lengths.
async fn redis(address: std::net::SocketAddr, command: &str) -> Vec<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(LIMIT, "an answer of Redis", stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let kept = |line: &&str| !line.starts_with(['*', '$', '+']) && !line.is_empty();
    answer.split("\r\n").filter(kept).map(str::to_owned).collect()
}
