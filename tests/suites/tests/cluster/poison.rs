//! A configuration that ends whoever runs it. The test is its effect: it kills the data plane once it has
//! taken it over.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::deadline::within;
use tokio::time::sleep;

use crate::world::{LIMIT, World, ask, readyz};

/// For how long a state is left alone at first, and some time to notice.
const LEFT_ALONE: Duration = Duration::from_secs(80);

/// Waits until a data plane serves this revision.
async fn serves_revision(world: &World, number: usize, revision: u64, limit: Duration) {
    let plane = &world.cluster.data_planes[number];
    let serving = async {
        loop {
            let (status, body) = readyz(plane.ops()).await;
            if status == Some(200) && body["policy"]["revision"] == revision {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    within(limit, &format!("{} at revision {revision}", plane.name()), serving).await.unwrap();
}

/// Kills the first data plane whenever it serves this revision, and starts it again.
async fn kill_three_times(world: &mut World, revision: u64) {
    for _ in 0..3 {
        serves_revision(world, 0, revision, LIMIT).await;
        let victim = &mut world.cluster.data_planes[0];
        victim.kill().unwrap();
        victim.wait_for_exit(LIMIT).await.unwrap();
        victim.restart().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_configuration_that_ends_processes_is_left_alone() {
    let mut world = World::start(false).await;
    let good = world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    // Without one that a process has lived with, what ends processes is better than nothing.
    kill_three_times(&mut world, good).await;
    serves_revision(&world, 0, good, LIMIT).await;
    let proven = world.cluster.folder().join("data-plane-0/policy.lkg.proven");
    let living = async {
        while !proven.exists() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    within(LEFT_ALONE, "a configuration that is proven", living).await.unwrap();

    world.apply(&json!({"models": [config::model("poison")]})).await;
    let bad = world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    assert!(bad > good);

    kill_three_times(&mut world, bad).await;
    // It serves the one before, though a control plane offers the other.
    serves_revision(&world, 0, good, LIMIT).await;
    let told = async {
        loop {
            let nodes = world.nodes().await;
            let error = nodes["nodes"][0]["error"].as_str().unwrap_or_default().to_owned();
            if !error.is_empty() {
                return (error, nodes);
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let (error, nodes) = within(LIMIT, "what nodes say", told).await.unwrap();
    println!("{error}");
    assert!(error.starts_with("3 processes in a row ended within 60 s"), "{nodes:#}");
    assert_eq!(nodes["nodes"][0]["acknowledged_revision"], good, "{nodes:#}");
    world.serves().await;
    assert_eq!(ask(&world.cluster.data_planes[0], KEY, "poison").await.status, Some(404));
    // Who only ever had the others does not know.
    let errors: Vec<&Value> =
        nodes["nodes"].as_array().unwrap().iter().map(|node| &node["error"]).skip(1).collect();
    assert_eq!(errors, ["", ""]);

    // Who kills need not be the configuration: it is tried again by itself.
    serves_revision(&world, 0, bad, LEFT_ALONE).await;
    assert_eq!(ask(&world.cluster.data_planes[0], KEY, "poison").await.status, Some(200));

    // The next one is tried, too, and a stop in order is no death.
    world.apply(&json!({"models": [config::model("cure")]})).await;
    world.all_run_the_head().await;
    let victim = &mut world.cluster.data_planes[0];
    victim.terminate().unwrap();
    victim.wait_for_exit(LIMIT).await.unwrap();
    let starts = fs::read_to_string(world.cluster.folder().join("data-plane-0/starts"));
    println!("{starts:?}");
    assert!(!starts.unwrap().contains("trial"));
}
