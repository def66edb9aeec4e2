//! One data plane and what its keys' upstream says of them.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::script::Treatment;
use crate::world::{LIMIT, TOLD, World, code, retry_after};

/// pool-one-key-429-benches-only-itself
#[tokio::test(flavor = "multi_thread")]
async fn c5_one_limited_key_of_four_rests_alone() {
    let world = World::new(&["k1", "k2", "k3", "k4"], json!({})).await;
    world.script.set("k1", Treatment::limited().retry_after("30"));
    world.served(40).await;
    let others = ["k2", "k3", "k4"].map(|key| world.calls(key));
    assert_eq!(world.calls("k1"), 1);
    assert_eq!(others.iter().sum::<usize>(), 40);
    assert!(others.iter().max().unwrap() - others.iter().min().unwrap() <= 1, "{others:?}");
    // Under load, too.
    let load = (0..8).map(|_| world.served(25));
    futures_util::future::join_all(load).await;
    let others = ["k2", "k3", "k4"].map(|key| world.calls(key));
    assert_eq!(world.calls("k1"), 1);
    assert!(others.iter().max().unwrap() - others.iter().min().unwrap() <= 1, "{others:?}");
    let status = world.stands("k1", "resting", TOLD).await;
    assert_eq!(status["model"], "m1");
    for key in ["k2", "k3", "k4"] {
        assert_eq!(world.status(key).await["state"], "up");
    }
    let changes =
        "sluicegate_credential_state_changes_total{credential=\"p/k1\",state=\"resting\"}";
    assert_eq!(world.metric(0, changes).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_keys_share_traffic_by_weight() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    world.apply(&["k1", "k2"], json!({}), json!({"k1": {"weight": 3}})).await;
    world.served(40).await;
    assert_eq!((world.calls("k1"), world.calls("k2")), (30, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_what_an_account_is_refused_rests_every_key_of_it() {
    let keys = ["k1", "k2", "k3"];
    let world = World::new(&keys, json!({})).await;
    let account = |name: &str| json!({"account": name});
    let members = json!({
        "variant": "openai", "k1": account("a"), "k2": account("a"), "k3": account("b"),
    });
    world.apply(&keys, json!({}), members).await;
    world.script.set("k1", Treatment::failure(429, "insufficient_quota"));
    world.script.set("k2", Treatment::failure(429, "insufficient_quota"));
    world.served(30).await;
    // Whichever was tried first told of the other.
    assert_eq!(world.calls("k1") + world.calls("k2"), 1);
    assert_eq!(world.calls("k3"), 30);
    for key in ["k1", "k2"] {
        world.stands(key, "exhausted", TOLD).await;
    }
    assert_eq!(world.status("k3").await["state"], "up");
}

/// pool-invalid-key-401
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_revoked_key_is_benched_and_reported() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    let mut revoked = Treatment::failure(401, "invalid_api_key");
    revoked = revoked.retry_after("0");
    world.script.set("k1", revoked);
    world.served(20).await;
    assert_eq!((world.calls("k1"), world.calls("k2")), (1, 20));
    let status = world.stands("k1", "refused", TOLD).await;
    assert!(status["reason"].as_str().unwrap().contains("401"), "{status}");
    for (process, lines) in
        [("data plane", world.planes[0].stderr()), ("control plane", world.control.stderr())]
    {
        let warned = |line: &str| line.contains("WARN") && line.contains("p/k1");
        let line = lines.find(LIMIT, "a warning", |line| warned(line).then(|| line.to_owned()));
        let line = line.await.unwrap();
        assert!(line.contains("invalid_api_key it is"), "{process}: {line}");
        let secrets = lines.all().iter().filter(|line| line.contains("sk-upstream")).count();
        assert_eq!(secrets, 0, "{process} tells the key");
        let warnings = lines.all().iter().filter(|line| warned(line)).count();
        assert_eq!(warnings, 1, "{process}: {:?}", lines.all());
    }
    // Alone it is not the caller's fault, and is not asked again.
    world.apply(&["k1"], json!({}), json!({})).await;
    world.ok(&["delete", "credential", "p/k2", "--wait", "1.0"]).await;
    let reply = world.refuses(0, LIMIT).await;
    assert!([Some(502), Some(503)].contains(&reply.status), "{}", reply.text());
    assert_eq!((code(&reply).as_str(), world.calls("k1")), ("upstream_auth_failed", 1));
}

/// pool-quota-429-versus-rate-429
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_spent_key_is_not_asked_every_second() {
    let world = World::new(&["k1", "k2"], json!({"resting_ms": 50})).await;
    world.script.set("k1", Treatment::failure(429, "insufficient_quota"));
    for _ in 0..20 {
        world.served(1).await;
        sleep(Duration::from_millis(60)).await;
    }
    assert_eq!((world.calls("k1"), world.calls("k2")), (1, 20));
    let status = world.stands("k1", "exhausted", TOLD).await;
    assert!(status["left_ms"].as_u64().unwrap() > 200_000, "{status}");
    assert_eq!(status["model"], json!(null), "the key, whatever the model");
}

/// pool-cooldown-scope-per-model
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_limit_on_one_model_leaves_the_others_alone() {
    let world = World::new(&["k1"], json!({})).await;
    world.script.set_with("k1", "m1", Treatment::limited().retry_after("20"));
    let reply = world.ask(0, "m1").await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(429), "upstream_rate_limited"));
    assert_eq!(world.ask(0, "m2").await.status, Some(200));
    let reply = world.ask(0, "m1").await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(429), "upstream_rate_limited"));
    assert!((15..=20).contains(&retry_after(&reply)), "{:?}", reply.headers);
    assert_eq!((world.calls_with("k1", "m1"), world.calls_with("k1", "m2")), (1, 1));
}

/// pool-retry-after-http-date
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_date_is_waited_for() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(8);
    let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    world.script.set("k1", Treatment::limited().retry_after(date));
    world.served(4).await;
    assert_eq!(world.calls("k1"), 1);
    let left = world.stands("k1", "resting", TOLD).await["left_ms"].as_u64().unwrap();
    assert!((3_000..=8_000).contains(&left), "{left}");
    // What is over already means the shortest wait.
    world.script.set("k2", Treatment::limited().retry_after("Sun, 06 Nov 1994 08:49:37 GMT"));
    let reply = world.ask(0, "m1").await;
    assert_eq!(reply.status, Some(429), "{}", reply.text());
    world.script.mend("k2");
    let reply = world.ask(0, "m1").await;
    assert_eq!((reply.status, retry_after(&reply)), (Some(429), 1), "{:?}", reply.headers);
    sleep(Duration::from_millis(1_050)).await;
    world.served(1).await;
}

/// pool-disabled-key-never-comes-back
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_spent_key_comes_back_by_itself() {
    let world = World::new(&["k1", "k2"], json!({"exhausted_ms": 300})).await;
    world.script.set("k1", Treatment::failure(402, "insufficient_quota").times(3));
    let begun = Instant::now();
    while world.calls("k1") < 5 {
        world.served(1).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "k1 is not asked any more");
        sleep(Duration::from_millis(10)).await;
    }
    // Three failures, the waits between them doubling: 300 and 600 and 1200 ms.
    assert!(begun.elapsed() > Duration::from_millis(2_000), "{:?}", begun.elapsed());
    world.stands("k1", "up", TOLD).await;
}

/// pool-recovered-first-choice-is-used-again
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_rested_key_is_used_again_at_once() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    world.script.set("k1", Treatment::limited().retry_after("1").times(1));
    world.served(6).await;
    assert_eq!(world.calls("k1"), 1);
    sleep(Duration::from_millis(1_050)).await;
    world.served(4).await;
    assert!((2..=4).contains(&world.calls("k1")), "{}", world.calls("k1"));
}

/// pool-rate-or-model-error-must-not-disable
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_missing_model_or_permission_suspends_the_pair_for_a_while() {
    for (status, code_sent, refused, code_told) in [
        (404, "model_not_found", 404, "model_not_found"),
        (403, "permission_denied", 502, "upstream_permission_denied"),
    ] {
        let world = World::new(&["k1"], json!({"suspended_ms": 400})).await;
        world.script.set_with("k1", "m1", Treatment::failure(status, code_sent).times(1));
        for _ in 0..3 {
            let reply = world.ask(0, "m1").await;
            assert_eq!((reply.status, code(&reply).as_str()), (Some(refused), code_told));
        }
        assert_eq!(world.calls("k1"), 1);
        assert_eq!(world.ask(0, "m2").await.status, Some(200));
        world.stands("k1", "suspended", TOLD).await;
        sleep(Duration::from_millis(450)).await;
        world.served(2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_what_is_no_fault_of_the_key_is_not_held_against_it() {
    let world = World::new(&["k1"], json!({})).await;
    // What passes by itself is tried four times.
    for (status, code_sent, times) in
        [(400, "invalid_request", 1), (503, "overloaded", 4), (500, "server_error", 1)]
    {
        world.script.set("k1", Treatment::failure(status, code_sent).times(times));
        assert_ne!(world.ask(0, "m1").await.status, Some(200));
        world.served(1).await;
    }
    assert_eq!(world.status("k1").await["state"], "up");
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_the_later_end_wins() {
    let world = World::new(&["k1"], json!({})).await;
    world.script.set("k1", Treatment::limited().retry_after("30"));
    let first = async {
        // The slow one is under way by now, and comes back with a shorter wait.
        world.upstream.wait_for_calls(1, LIMIT).await.unwrap();
        world.script.set("k1", Treatment::limited().retry_after("30"));
        world.ask(0, "m1").await
    };
    world.script.set("k1", Treatment::limited().retry_after("1").slow_ms(800));
    let (slow, first) = tokio::join!(world.ask(0, "m1"), first);
    assert_eq!((slow.status, first.status), (Some(429), Some(429)));
    assert_eq!(world.calls("k1"), 2);
    let reply = world.ask(0, "m1").await;
    assert!((25..=30).contains(&retry_after(&reply)), "{:?}", reply.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_the_last_resort_is_explicit() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    world.script.set("k1", Treatment::limited().retry_after("60").times(1));
    world.script.set("k2", Treatment::limited().retry_after("20").times(1));
    assert_eq!(world.ask(0, "m1").await.status, Some(429));
    let reply = world.ask(0, "m1").await;
    assert_eq!((reply.status, world.upstream.count()), (Some(429), 2));
    assert!((15..=20).contains(&retry_after(&reply)), "{:?}", reply.headers);
    // Wanted otherwise: the key whose rest ends first, though it rests.
    world.apply(&["k1", "k2"], json!({"last_resort": "soonest"}), json!({})).await;
    world.served(1).await;
    assert_eq!((world.calls("k1"), world.calls("k2")), (1, 2));
    // A key that is refused is never sent.
    world.script.set("k2", Treatment::failure(401, "invalid_api_key"));
    world.script.set("k1", Treatment::failure(401, "invalid_api_key"));
    let mut refused = world.ask(0, "m1").await;
    for _ in 0..3 {
        refused = world.ask(0, "m1").await;
    }
    assert_eq!(code(&refused), "upstream_auth_failed");
    assert_eq!((world.calls("k1"), world.calls("k2")), (2, 3));
}
