//! Levels by what data planes see.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{LIMIT, MEMORY, World, chat, extension};

fn quick() -> Value {
    json!({ "timeouts": {
        "first_event_ms": 300, "first_event_per_1k_tokens_ms": 0, "answer_ms": 300, "idle_ms": 300,
    } })
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_two_timeouts_of_tool_calls_take_the_tools_away() {
    let degradations = json!([{
        "name": "tools", "tool_timeout_window_ms": 4_000,
        "levels": [{ "level": 2, "enter_when": "tool_timeouts >= 2" }],
    }]);
    let world = World::start(degradations, quick(), json!({})).await;
    let ask = async |what: &str, tools: &[&str], stream: bool, headers: &[(&str, &str)]| {
        let body = chat("m1", what, tools, stream);
        let reply = world.post_with("team", "/v1/chat/completions", body, headers).await;
        let outcome = world.record(&reply).await["outcome"].as_str().unwrap().to_owned();
        world.note(&format!("{what}, {} tools: {outcome}", tools.len()));
        outcome
    };
    // Without tools it says nothing of them; nor does a caller who does not wait.
    for _ in 0..3 {
        assert_eq!(ask("nothing comes", &[], true, &[]).await, "timeout");
        let deadline = [("x-request-timeout-ms", "100")];
        assert_eq!(ask("nothing comes", &["calc"], true, &deadline).await, "rejected");
    }
    assert_eq!(ask("nothing comes", &["calc"], false, &[]).await, "timeout");
    world.keeps("tools", 0, Duration::from_secs(2)).await;
    assert_eq!(ask("it stalls", &["calc"], true, &[]).await, "timeout");
    world.reaches("tools", 2, LIMIT).await;
    let status = world.status("tools").await;
    println!("{status}");
    assert_eq!(status["readings"], json!([{ "name": "tool_timeouts", "value": 2.0 }]));
    let reply = world.ask("team", chat("m1", "hi", &["calc"], true)).await;
    assert_eq!(extension(&reply)["degraded"]["removed"], json!(["calc"]));
    assert_eq!(world.tools_upstream(), Vec::<String>::new());
    // They count for four seconds.
    world.reaches("tools", 0, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_open_breaker_together_with_memory() {
    let degradations = json!([{
        "name": "both",
        "sources": [{ "provider": "local", "interval_ms": 500 }],
        "levels": [{
            "level": 2,
            "enter_when": format!("breaker_open > 0 && {MEMORY} > 0.95"),
            "leave_when": format!("{MEMORY} < 0.8"),
        }],
    }]);
    let provider = json!({ "breaker": { "open_ms": 60_000, "consecutive_failures": 3 } });
    let world = World::start(degradations, provider, json!({})).await;
    world.shown.set(0.97);
    world.note("the server says 0.97");
    world.keeps("both", 0, Duration::from_secs(3)).await;
    for _ in 0..3 {
        world.ask("team", chat("m1", "fail", &[], false)).await;
    }
    world.note("the breaker of m1 is open");
    world.reaches("both", 2, LIMIT).await;
    println!("{}", world.status("both").await);
    let reply = world.ask("team", chat("m2", "hi", &["calc"], false)).await;
    assert_eq!(reply.header("x-sluicegate-degraded"), Some("level=2;by=both;removed=calc"));
    world.shown.set(0.5);
    world.reaches("both", 0, LIMIT).await;
}
