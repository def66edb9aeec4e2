//! Metrics that are away, and control planes that are.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::operators::degradations;
use crate::world::{LIMIT, MEMORY, World, chat};

#[tokio::test(flavor = "multi_thread")]
async fn b4_metrics_that_are_away_neither_begin_nor_end_a_level() {
    let world = World::start(degradations(), json!({}), json!({})).await;
    for (reading, level) in [(0.5, 0), (0.9, 2)] {
        world.shown.set(reading);
        world.note(&format!("the server says {reading}"));
        world.reaches("memory", level, LIMIT).await;
        // It has been read, and what was read gets too old.
        sleep(Duration::from_millis(1_200)).await;
        world.shown.play(vec![None]);
        world.note("the server answers 503");
        world.keeps("memory", level, Duration::from_secs(4)).await;
        let status = world.status("memory").await;
        println!("{status}");
        assert_eq!(status["unknown"], json!([MEMORY]));
        let table = world.ok(&["degrade", "status"]).await;
        println!("{table}");
        assert!(table.contains(MEMORY), "{table}");
    }
    world.shown.set(0.5);
    world.note("the server says 0.5");
    world.reaches("memory", 0, LIMIT).await;
    assert_eq!(world.status("memory").await["unknown"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_without_a_control_plane_levels_let_go_and_an_operators_word_holds() {
    let mut world = World::start(degradations(), json!({}), json!({})).await;
    world.shown.set(0.9);
    world.reaches("memory", 2, LIMIT).await;
    let begun = Instant::now();
    let set = ["degrade", "set", "hand", "3", "--for", "40s", "--comment", "x", "--wait", "1.0"];
    world.ok(&set).await;
    world.reaches("hand", 3, LIMIT).await;
    // Long enough for what was told to be repeated.
    sleep(Duration::from_secs(5)).await;
    world.control.kill().unwrap();
    world.control.wait_for_exit(LIMIT).await.unwrap();
    let killed = Instant::now();
    world.note("the control plane is killed");
    assert_eq!(world.level("memory").await, 2);
    world.reaches("memory", 0, LIMIT).await;
    let took = killed.elapsed();
    assert!((15_000..22_000).contains(&took.as_millis()), "it is believed for 20 s: {took:?}");
    assert_eq!(world.level("hand").await, 3);
    let reply = world.ask("team", chat("m1", "hi", &["calc"], false)).await;
    assert_eq!(reply.header("x-sluicegate-degraded"), Some("level=3;by=hand"));
    world.reaches("hand", 0, LIMIT).await;
    let held = begun.elapsed();
    assert!((39_000..43_000).contains(&held.as_millis()), "{held:?}");
    let reply = world.ask("team", chat("m1", "hi", &["calc"], false)).await;
    assert_eq!((reply.status, reply.header("x-sluicegate-degraded")), (Some(200), None));
    // A control plane that comes back reads anew.
    world.control.restart().await.unwrap();
    world.note("the control plane is back");
    world.reaches("memory", 2, LIMIT).await;
}
