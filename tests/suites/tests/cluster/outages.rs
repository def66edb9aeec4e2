//! Parts that die, and what goes on without them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::cluster::{Cluster, ControlPlane};
use sluicegate_testkit::process::wait_until_ok;
use tokio::time::Instant;

use crate::traffic::Callers;
use crate::world::{LIMIT, World, ask, models, readyz};

/// In which time a data plane must serve from its disk.
const COLD_START: Duration = Duration::from_secs(5);

/// life-control-plane-down
#[tokio::test(flavor = "multi_thread")]
async fn d5_data_planes_live_and_start_without_a_control_plane() {
    let mut world = World::start(false).await;
    world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    let head = world.admin.wait_for_head(3, LIMIT).await.unwrap();
    let processes: Vec<_> = world.cluster.data_planes.iter().map(|plane| plane.pid()).collect();
    // Nobody calls the one that will be killed.
    let lasting = world.cluster.data_planes[1..].iter().map(|plane| plane.traffic());
    let callers = Callers::start(lasting.collect::<Vec<_>>());

    world.cluster.control_planes[0].kill().unwrap();
    world.cluster.control_planes[0].wait_for_exit(LIMIT).await.unwrap();
    let away = Instant::now();
    world.serves().await;

    let begun = Instant::now();
    world.cluster.data_planes[0].restart().await.unwrap();
    let killed = &world.cluster.data_planes[0];
    killed.wait_ready(COLD_START).await.unwrap();
    let took = begun.elapsed();
    assert!(took < COLD_START, "ready after {took:?}");
    let (status, body) = readyz(killed.ops()).await;
    assert_eq!(status, Some(200));
    assert_eq!(body["policy"]["source"], "cache", "{body}");
    assert_eq!(body["policy"]["revision"], head, "{body}");
    assert_eq!(body["control_plane"]["connected"], false, "{body}");
    world.serves().await;
    // How old their policy may be is told.
    let gone = away.elapsed();
    let (_, body) = readyz(world.cluster.data_planes[1].ops()).await;
    assert!(confirmed_ms_ago(&body).is_some_and(|age| age >= gone.as_millis()), "{body}");

    let back = Instant::now();
    world.cluster.control_planes[0].restart().await.unwrap();
    world.admin.wait_for_head(3, LIMIT).await.unwrap();
    let (_, body) = readyz(world.cluster.data_planes[0].ops()).await;
    assert_eq!(body["control_plane"]["connected"], true, "{body}");
    world.apply(&json!({"models": [config::model("after")]})).await;
    world.all_run_the_head().await;
    for (plane, before) in world.cluster.data_planes.iter().zip(processes).skip(1) {
        assert_eq!(plane.pid(), before, "{} was restarted", plane.name());
        assert_eq!(ask(plane, KEY, "after").await.status, Some(200));
    }
    let (_, body) = readyz(world.cluster.data_planes[0].ops()).await;
    assert_eq!(body["policy"]["source"], "control_plane", "{body}");
    assert!(confirmed_ms_ago(&body).is_some_and(|age| age <= back.elapsed().as_millis()), "{body}");
    callers.stop().await.all_well();
}

/// When a control plane last said that the policy is the newest.
fn confirmed_ms_ago(readyz: &Value) -> Option<u128> {
    readyz["policy"]["confirmed_ms_ago"].as_u64().map(u128::from)
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_traffic_needs_no_etcd_and_changes_say_that_they_do() {
    let mut world = World::start(false).await;
    let callers = Callers::of(&world.cluster);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("change.yaml");
    std::fs::write(&path, json!({"models": [config::model("during")]}).to_string()).unwrap();
    let path = path.to_str().unwrap();

    let etcd = world.cluster.etcd.as_ref().unwrap();
    etcd.kill().unwrap();
    etcd.wait_for_exit(LIMIT).await.unwrap();
    world.serves().await;
    let begun = Instant::now();
    let apply = ["apply", "-f", path, "--timeout-ms", "4000"];
    let refused = world.cluster.cli(&apply).await.unwrap();
    let took = begun.elapsed();
    assert_eq!(refused.status.code(), Some(3), "{}", refused.said());
    let said = "is not available: etcd is unavailable";
    assert!(refused.stderr.contains(said), "{}", refused.said());
    assert!(took < Duration::from_secs(8), "the refusal took {took:?}");
    let away = world.admin.wait_for_fleet(LIMIT, "word that the store is away", |fleet| {
        fleet.store_unavailable.then(|| fleet.data_planes.iter().filter(|p| p.connected).count())
    });
    assert_eq!(away.await.unwrap(), 3, "data planes were dropped with the store");
    world.serves().await;

    world.cluster.etcd.as_mut().unwrap().restart().await.unwrap();
    world.admin.wait_for_head(3, LIMIT).await.unwrap();
    for plane in &world.cluster.data_planes {
        assert_eq!(ask(plane, KEY, "during").await.status, Some(404), "refused, yet done");
    }
    world.cli(&["apply", "-f", path, "--wait", "1.0"]).await;
    world.all_run_the_head().await;
    for plane in &world.cluster.data_planes {
        assert_eq!(ask(plane, KEY, "during").await.status, Some(200));
    }
    callers.stop().await.all_well();
}

/// A saved policy that is damaged is set aside; the one before it serves, or none until the control
/// plane is back.
#[tokio::test(flavor = "multi_thread")]
async fn d5_a_damaged_saved_policy_does_not_keep_a_data_plane_from_starting() {
    let mut world = World::start(false).await;
    world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    world.apply(&json!({"models": [config::model("second")]})).await;
    world.admin.wait_for_disk(3, LIMIT).await.unwrap();
    world.cluster.control_planes[0].kill().unwrap();
    world.cluster.control_planes[0].wait_for_exit(LIMIT).await.unwrap();

    let states: Vec<PathBuf> =
        (0..3).map(|i| world.cluster.folder().join(format!("data-plane-{i}"))).collect();
    for plane in &world.cluster.data_planes {
        plane.kill().unwrap();
        plane.wait_for_exit(LIMIT).await.unwrap();
    }
    let damage = |path: &Path, damage: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = std::fs::read(path).unwrap();
        damage(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    };
    // One is cut short, one has a wrong byte, and of one both generations are gone.
    damage(&states[0].join("policy.lkg"), &|bytes| bytes.truncate(bytes.len() / 2));
    damage(&states[1].join("policy.lkg"), &|bytes| *bytes.last_mut().unwrap() ^= 1);
    damage(&states[2].join("policy.lkg"), &Vec::clear);
    damage(&states[2].join("policy.lkg.1"), &|bytes| bytes.fill(b'x'));

    for (i, state) in states.iter().enumerate() {
        world.cluster.data_planes[i].restart().await.unwrap();
        let plane = &world.cluster.data_planes[i];
        let aside = |line: &str| line.contains("set aside").then(|| line.to_owned());
        let notice = plane.stderr().find(LIMIT, "a notice", aside).await.unwrap();
        assert!(notice.contains("policy.lkg"), "{notice}");
        assert!(state.join("policy.corrupt").exists(), "{notice}");
        if i < 2 {
            plane.wait_ready(COLD_START).await.unwrap();
            assert_eq!(ask(plane, KEY, "m1").await.status, Some(200));
            continue;
        }
        let (status, body) = readyz(plane.ops()).await;
        assert_eq!((status, &body["policy"]["source"]), (Some(503), &json!("none")));
        let reply = ask(plane, KEY, "m1").await;
        assert_eq!(reply.status, Some(503));
        assert_eq!(reply.json().unwrap()["error"]["code"], "not_ready", "{}", reply.text());
    }

    world.cluster.control_planes[0].restart().await.unwrap();
    world.admin.wait_for_head(3, LIMIT).await.unwrap();
    for plane in &world.cluster.data_planes {
        wait_until_ok(plane, plane.ops(), "/readyz", LIMIT).await.unwrap();
        assert!(models(plane, KEY).await.iter().any(|(name, _)| name == "second"));
    }
}

/// An etcd that lost everything is not taken for a wish to have nothing: data planes serve on, and
/// the fleet says so. The first change that is applied ends it.
#[tokio::test(flavor = "multi_thread")]
async fn d5_a_lost_store_takes_nothing_from_data_planes() {
    let mut world = World::start(false).await;
    let callers = Callers::of(&world.cluster);
    let etcd = world.cluster.etcd.as_mut().unwrap();
    etcd.kill().unwrap();
    etcd.wait_for_exit(LIMIT).await.unwrap();
    std::fs::remove_dir_all(world.cluster.folder().join("etcd.data")).unwrap();
    world.cluster.etcd.as_mut().unwrap().restart().await.unwrap();

    let warned = world.admin.wait_for_fleet(LIMIT, "word of the empty store", |fleet| {
        let warned =
            fleet.data_planes.iter().filter(|plane| plane.error.contains("store is empty"));
        (warned.count() == 3).then_some(())
    });
    warned.await.unwrap();
    world.serves().await;
    callers.stop().await.all_well();

    let fresh = json!({"tenants": [config::tenant("after-the-loss")]});
    world.apply(&fresh).await;
    world.all_run_the_head().await;
    let refused = ask(&world.cluster.data_planes[0], KEY, "after-the-loss").await;
    assert_eq!(refused.status, Some(401), "what was applied replaces what was lost");
}

/// A backup that was put back has earlier revisions than data planes have seen: they take it over
/// all the same, and nobody counts as running a change that it does not run.
#[tokio::test(flavor = "multi_thread")]
async fn d5_a_restored_backup_reaches_data_planes_that_had_seen_more() {
    let mut cluster = Cluster::builder().control_planes(1).data_planes(1).start().await.unwrap();
    let store = cluster.folder().join("control-plane-0/state.redb");
    let mut admin = Admin::new(cluster.control_planes[0].grpc()).unwrap();
    cluster.apply(&json!({"tenants": [config::tenant("kept")]}).to_string()).await.unwrap();

    let stop = async |cluster: &Cluster| {
        cluster.control_planes[0].terminate().unwrap();
        cluster.control_planes[0].wait_for_exit(LIMIT).await.unwrap();
    };
    stop(&cluster).await;
    let backup = cluster.folder().join("backup.redb");
    std::fs::copy(&store, &backup).unwrap();
    cluster.control_planes[0].restart().await.unwrap();
    // `apply` refuses to vouch for a change while nobody is connected.
    admin.wait_for_head(1, LIMIT).await.unwrap();
    for number in 0..10 {
        let later = json!({"tenants": [config::tenant(&format!("later-{number}"))]});
        cluster.apply(&later.to_string()).await.unwrap();
    }
    let seen = admin.wait_for_head(1, LIMIT).await.unwrap();

    stop(&cluster).await;
    std::fs::copy(&backup, &store).unwrap();
    cluster.control_planes[0].restart().await.unwrap();
    let restored = admin.wait_for_head(1, LIMIT).await.unwrap();
    assert!(restored < seen, "{restored} is not before {seen}");
    let (_, body) = readyz(cluster.data_planes[0].ops()).await;
    assert_eq!(body["policy"]["revision"], restored, "{body}");
    cluster.apply(&json!({"tenants": [config::tenant("afterwards")]}).to_string()).await.unwrap();
}

/// Another seal key would take every provider key from the data planes: a control plane with one
/// does not start, and says which option is meant.
#[tokio::test(flavor = "multi_thread")]
async fn d5_a_control_plane_with_another_seal_key_does_not_start() {
    let mut world = World::start(false).await;
    let etcd = world.cluster.etcd.as_ref().unwrap().client();
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("other.key");
    std::fs::write(&foreign, "ab".repeat(32)).unwrap();
    let started = ControlPlane::start("foreign", Some(etcd), &foreign, folder.path()).await;
    let said = format!("{:#}", started.expect_err("it started"));
    assert!(said.contains("--seal-key-file"), "{said}");
    world.serves().await;
    world.admin.wait_for_head(3, LIMIT).await.unwrap();
}
