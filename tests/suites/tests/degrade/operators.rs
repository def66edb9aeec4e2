//! Levels by hand.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{LIMIT, MEMORY, World, chat};

pub(crate) fn degradations() -> Value {
    json!([
        {
            "name": "memory",
            "sources": [{ "provider": "local", "interval_ms": 500 }],
            "levels": [{
                "level": 2,
                "enter_when": format!("{MEMORY} > 0.85"), "leave_when": format!("{MEMORY} < 0.7"),
            }],
        },
        { "name": "hand", "levels": [{ "level": 3, "by_hand": true }] },
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_what_an_operator_sets_holds_until_its_end() {
    let world = World::start(degradations(), json!({}), json!({})).await;
    let set =
        ["degrade", "set", "hand", "3", "--for", "3s", "--comment", "restart", "--wait", "1.0"];
    let begun = Instant::now();
    let said = world.ok(&set).await;
    println!("{said}");
    let reply = world.ask("team", chat("m1", "hi", &[], false)).await;
    let reply_text = reply.content().unwrap();
    println!("{reply_text}");
    assert_eq!(reply.header("x-sluicegate-degraded"), Some("level=3;by=hand"));
    assert!(reply_text.contains("maintenance"), "the usual words: {reply_text}");
    // Vectors cannot be put into words.
    let body = json!({ "model": "m1", "input": "x" });
    let refused = world.post("team", "/v1/embeddings", body).await;
    assert_eq!((refused.status, refused.header("retry-after")), (Some(503), Some("10")));
    assert_eq!(refused.json().unwrap()["error"]["code"], "maintenance");
    assert_eq!(refused.header("x-sluicegate-degraded"), Some("level=3;by=hand"));
    let table = world.ok(&["degrade", "status"]).await;
    println!("{table}");
    assert!(table.contains("set by hand: restart"), "{table}");
    world.reaches("hand", 3, LIMIT).await;
    world.reaches("hand", 0, LIMIT).await;
    let held = begun.elapsed();
    assert!((2_900..6_000).contains(&held.as_millis()), "{held:?}");
    let reply = world.ask("team", chat("m1", "hi", &[], false)).await;
    assert_eq!(
        (reply.content().as_deref(), reply.header("x-sluicegate-degraded")),
        (Some("well"), None)
    );
    assert_eq!(world.status("hand").await["cause"], "hand_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_an_operator_outranks_conditions_and_gives_way_to_them() {
    let world = World::start(degradations(), json!({}), json!({})).await;
    world.shown.set(0.9);
    world.reaches("memory", 2, LIMIT).await;
    let set =
        ["degrade", "set", "memory", "0", "--for", "10m", "--comment", "it lies", "--wait", "1.0"];
    world.ok(&set).await;
    world.reaches("memory", 0, LIMIT).await;
    let status = world.status("memory").await;
    println!("{status}");
    assert_eq!((&status["cause"], &status["manual"]["level"]), (&json!("by_hand"), &json!(0)));
    world.keeps("memory", 0, Duration::from_secs(2)).await;
    world.ok(&["degrade", "clear", "memory", "--wait", "1.0"]).await;
    world.reaches("memory", 2, LIMIT).await;
    let history = world.ok(&["history", "-o", "json"]).await;
    assert!(history.contains("it lies"), "{history}");
    for (arguments, code, said) in [
        (
            &["degrade", "set", "nothing", "0", "--for", "1m", "--comment", "x"][..],
            1,
            "does not exist",
        ),
        (
            &["degrade", "set", "memory", "3", "--for", "1m", "--comment", "x"],
            1,
            "level 3 is not declared",
        ),
        (&["degrade", "set", "memory", "4", "--for", "1m", "--comment", "x"], 2, "0..=3"),
        (&["degrade", "status", "nothing"], 1, "does not exist"),
        (&["degrade", "clear", "hand"], 0, "is not set by hand"),
    ] {
        let output = world.cli(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", output.said());
        assert!(output.said().contains(said), "{arguments:?}: {}", output.said());
    }
}
