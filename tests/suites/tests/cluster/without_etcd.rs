//! A control plane that starts while etcd is away.

use std::time::SystemTime;

use serde_json::json;
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::cluster::DataPlane;
use sluicegate_testkit::deadline::within;
use tokio::time::{Duration, sleep};

use crate::world::{LIMIT, World, ask, readyz};

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_control_plane_starts_without_etcd_and_serves_what_it_remembers() {
    let mut world = World::start(false).await;
    let remembered = world.cluster.folder().join("control-plane-0/config.remembered");
    let begun = SystemTime::now();
    world.apply(&json!({"models": [config::model("remembered")]})).await;
    let head = world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    let written = async {
        let newest = || std::fs::metadata(&remembered).and_then(|file| file.modified());
        while newest().map_or(true, |at| at <= begun) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    within(LIMIT, "what is remembered", written).await.unwrap();
    let kept = std::fs::read(&remembered).unwrap();
    assert!(!kept.windows(5).any(|part| part == b"model"), "it is sealed");

    let etcd = world.cluster.etcd.as_ref().unwrap();
    etcd.kill().unwrap();
    etcd.wait_for_exit(LIMIT).await.unwrap();
    world.cluster.control_planes[0].kill().unwrap();
    world.cluster.control_planes[0].wait_for_exit(LIMIT).await.unwrap();
    world.cluster.control_planes[0].restart().await.unwrap();

    // A data plane that has never been there gets it all.
    let addresses = [world.cluster.control_planes[0].grpc()];
    let folder = world.cluster.folder().to_owned();
    let new = DataPlane::start("new", &addresses, &[], &folder).await.unwrap();
    new.wait_ready(LIMIT).await.unwrap();
    let (_, body) = readyz(new.ops()).await;
    assert_eq!(body["policy"]["source"], "control_plane", "{body}");
    assert_eq!(body["policy"]["revision"], head, "{body}");
    assert_eq!(ask(&new, KEY, "remembered").await.status, Some(200));
    assert_eq!(world.admin.wait_for_disk(4, LIMIT).await.unwrap(), head);
    assert_eq!(world.nodes().await["store_unavailable"], true);
    world.serves().await;

    // Nothing can be changed, and that is said.
    let change = json!({"models": [config::model("later")]}).to_string();
    let path = folder.join("change.yaml");
    std::fs::write(&path, &change).unwrap();
    let apply = ["apply", "-f", path.to_str().unwrap(), "--timeout-ms", "4000"];
    let refused = world.cluster.cli(&apply).await.unwrap();
    println!("{}", refused.said());
    assert!(!refused.status.success() && refused.said().contains("etcd"), "{}", refused.said());

    world.cluster.etcd.as_mut().unwrap().restart().await.unwrap();
    let applied = async {
        while !world.cluster.cli(&apply).await.unwrap().status.success() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    within(LIMIT, "a change", applied).await.unwrap();
    world.admin.wait_for_head(4, LIMIT).await.unwrap();
    assert_eq!(ask(&new, KEY, "later").await.status, Some(200));
}
