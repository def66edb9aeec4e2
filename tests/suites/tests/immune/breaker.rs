//! Targets that are left alone, and how they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::Reply;
use sluicegate_testkit::upstream::Step;
use tokio::time::{Instant, sleep};

use crate::world::{CALLER, World, asked, good, refused};

/// Quick ones, so that a test sees the whole circle.
fn breaker() -> Value {
    json!({ "open_ms": 300, "ramp_step_ms": 200 })
}

/// One provider that is ill as long as the switch says, and one that is well.
async fn world(breaker: Value, ill: Arc<AtomicBool>) -> World {
    World::start(
        json!([{ "name": "ill", "breaker": breaker }, { "name": "well" }]),
        json!([
            {
                "name": "alone", "targets": [{ "provider": "ill", "model": "x" }],
                "retry": { "max_attempts": 1 },
            },
            {
                "name": "both",
                "targets": [{ "provider": "ill", "model": "x" }, { "provider": "well", "priority": 1 }],
            },
            {
                "name": "patient", "targets": [{ "provider": "ill", "model": "x" }],
                "retry": { "max_attempts": 1 },
                "when_unavailable": { "answer": "wait", "wait_ms": 5000 },
            },
        ]),
        move |call| match (call.cell(), asked(call).as_str()) {
            ("ill", "caller's fault") => refused(400, "messages: no", "invalid_value"),
            ("ill", "limit") => refused(429, "slow down", "rate_limit_exceeded"),
            ("ill", "slow") => {
                let mut steps = vec![Step::sleep_ms(400)];
                steps.extend(good(call, "late"));
                steps
            }
            ("ill", "hang") => vec![Step::sleep_ms(20_000)],
            ("ill", "memory") => refused(500, "CUDA out of memory. Tried to allocate", "x"),
            ("ill", "dead") => refused(500, "EngineCore encountered an issue.", "x"),
            ("ill", _) if ill.load(Ordering::Relaxed) => refused(500, "no", "server_error"),
            (provider, _) => good(call, provider),
        },
    )
    .await
}

fn code(reply: &Reply) -> String {
    let body = reply.json().unwrap_or_default();
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_target_that_fails_is_left_alone_and_comes_back_in_steps() {
    let ill = Arc::new(AtomicBool::new(true));
    let world = world(breaker(), ill.clone()).await;
    for _ in 0..5 {
        assert_eq!(world.ask("alone", "hi", false).await.0.status, Some(502));
    }
    let before = world.upstream.count();
    let (reply, took) = world.ask("alone", "hi", false).await;
    println!("{} {} in {took:?}", reply.status.unwrap_or(0), reply.text());
    assert_eq!((reply.status, code(&reply).as_str()), (Some(503), "target_unavailable"));
    let detail = &reply.json().unwrap()["error"]["sluicegate"];
    assert_eq!((&detail["source"], &detail["breaker"]), (&json!("gateway"), &json!("open")));
    assert_eq!((&detail["provider"], &detail["retryable"]), (&json!("ill"), &json!(true)));
    assert!((1..=360).contains(&detail["retry_after_ms"].as_u64().unwrap()), "{detail}");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(world.upstream.count(), before, "nothing was sent");
    // Others are served without an attempt there.
    let (reply, _) = world.ask("both", "hi", false).await;
    assert_eq!(reply.content().as_deref(), Some("well"));
    assert_eq!(reply.header("x-sluicegate-attempts"), Some("1"));
    // One request at a time finds out that it is still ill, ever more rarely.
    sleep(Duration::from_millis(400)).await;
    let before = world.upstream.count();
    for _ in 0..10 {
        world.ask("alone", "hi", false).await;
    }
    assert_eq!(world.upstream.count() - before, 1, "one probe");
    // And that it is well.
    ill.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    let mut served = Vec::new();
    while begun.elapsed() < Duration::from_secs(4) {
        let (reply, _) = world.ask("alone", "hi", false).await;
        served.push(reply.status == Some(200));
        sleep(Duration::from_millis(5)).await;
    }
    let first = served.iter().position(|served| *served).unwrap();
    let ramp = &served[first..(first + 40).min(served.len())];
    let early = ramp.iter().filter(|served| **served).count();
    println!("{} refused first, then {early} of {} served, at the end all", first, ramp.len());
    assert!(early < ramp.len(), "traffic comes back in steps");
    assert!(served.iter().rev().take(50).all(|served| *served), "and then whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_what_callers_do_never_opens_it() {
    let world = world(breaker(), Arc::default()).await;
    for _ in 0..30 {
        assert_eq!(world.ask("alone", "caller's fault", false).await.0.status, Some(400));
        assert_eq!(world.ask("alone", "limit", false).await.0.status, Some(429));
    }
    assert_eq!(world.ask("alone", "hi", false).await.0.status, Some(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_slow_ones_in_a_row_open_it() {
    let mut rules = breaker();
    rules["slow"] = json!({ "first_event_ms": 50, "consecutive": 3, "window_ms": 15000 });
    rules["open_ms"] = json!(2_000);
    let world = world(rules, Arc::default()).await;
    for stream in [true, false, true] {
        assert_eq!(world.ask("alone", "slow", stream).await.0.status, Some(200));
    }
    let (reply, _) = world.ask("alone", "hi", true).await;
    assert_eq!(code(&reply), "target_unavailable");
    assert!(reply.text().contains("3 calls in a row were slow"), "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_engines_that_die_open_it_at_once() {
    for (what, times) in [("memory", 2), ("dead", 1)] {
        let world = world(breaker(), Arc::default()).await;
        for _ in 0..times {
            assert_eq!(world.ask("alone", what, false).await.0.status, Some(502));
        }
        let (reply, _) = world.ask("alone", "hi", false).await;
        assert_eq!((reply.status, code(&reply).as_str()), (Some(503), "target_unavailable"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_request_waits_for_a_target_that_comes_back() {
    let ill = Arc::new(AtomicBool::new(true));
    let world = world(breaker(), ill.clone()).await;
    for _ in 0..5 {
        world.ask("alone", "hi", false).await;
    }
    ill.store(false, Ordering::Relaxed);
    let (reply, took) = world.ask("patient", "hi", true).await;
    println!("{} after {took:?}", reply.status.unwrap_or(0));
    assert_eq!((reply.status, reply.content().as_deref()), (Some(200), Some("ill")));
    assert!((Duration::from_millis(100)..Duration::from_secs(2)).contains(&took), "{took:?}");
}

/// A server that hangs, and callers that would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn b1_a_target_that_hangs_is_left_alone_while_its_callers_still_wait() {
    let mut rules = breaker();
    rules["slow"] = json!({ "first_event_ms": 100, "consecutive": 3, "window_ms": 15000 });
    rules["open_ms"] = json!(2_000);
    let world = world(rules, Arc::default()).await;
    for stream in [true, false] {
        let body = |what: &str| {
            json!({
                "model": "alone", "stream": stream, "max_tokens": 2,
                "messages": [{ "role": "user", "content": what }],
            })
        };
        let begun = Instant::now();
        let (hang, well) = (body("hang"), body("well"));
        let hanging = async {
            let (one, two, three) = (&world, &world, &world);
            tokio::join!(
                one.post(CALLER, &hang, &[]),
                two.post(CALLER, &hang, &[]),
                three.post(CALLER, &hang, &[]),
            )
        };
        let noticed = async {
            loop {
                let reply = world.post(CALLER, &well, &[]).await;
                if reply.status == Some(503) {
                    break (reply, begun.elapsed());
                }
                assert!(begun.elapsed() < Duration::from_secs(5), "{}", reply.text());
                sleep(Duration::from_millis(600)).await;
            }
        };
        tokio::select! {
            _ = hanging => panic!("it hangs"),
            (reply, after) = noticed => {
                println!("stream {stream}: noticed after {after:?}: {}", reply.text());
                assert_eq!(code(&reply), "target_unavailable");
                assert!(reply.text().contains("slow"), "{}", reply.text());
            }
        }
        // What was left is gone, and it is well again before the other mode.
        wait_until_well(&world).await;
    }
}

async fn wait_until_well(world: &World) {
    let begun = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 20 {
        let well = world.ask("alone", "well", false).await.0.status == Some(200);
        in_a_row = if well { in_a_row + 1 } else { 0 };
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come back");
        sleep(Duration::from_millis(50)).await;
    }
}
