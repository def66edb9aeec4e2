//! What one data plane saw, the others obey, whatever dies.

use serde_json::json;
use sluicegate_testkit::deadline::within;

use crate::script::Treatment;
use crate::world::{LIMIT, TOLD, World, code};

#[tokio::test(flavor = "multi_thread")]
async fn c5_a_second_data_plane_obeys_without_a_call_of_its_own() {
    let world = World::start(2, false, &["k1"], json!({})).await;
    for plane in 0..2 {
        assert_eq!(world.ask(plane, "m1").await.status, Some(200));
    }
    world.script.set("k1", Treatment::failure(401, "invalid_api_key"));
    assert_eq!(world.ask(0, "m1").await.status, Some(502));
    assert_eq!(world.calls("k1"), 3);
    // All is well now, but nobody is to try.
    world.script.mend("k1");
    let told = world.stands("k1", "refused", TOLD).await;
    assert_eq!(told["cells"][0]["by"], "data-plane-0");
    tokio::time::sleep(TOLD).await;
    let reply = world.ask(1, "m1").await;
    assert_eq!((reply.status, code(&reply).as_str()), (Some(502), "upstream_auth_failed"));
    assert_eq!(world.calls("k1"), 3);
}

/// A success that one data plane has brings the key back for all.
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_recovery_is_shared_as_well() {
    let world = World::start(2, false, &["k1"], json!({"refused_ms": 1500})).await;
    world.script.set("k1", Treatment::failure(401, "invalid_api_key").times(1));
    assert_eq!(world.ask(0, "m1").await.status, Some(502));
    world.refuses(1, TOLD).await;
    let back = async {
        while world.ask(1, "m1").await.status != Some(200) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, "the key being tried again", back).await.unwrap();
    world.stands("k1", "up", TOLD).await;
    world.served(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_it_survives_kills_of_everything() {
    let mut world = World::start(2, true, &["k1", "k2"], json!({})).await;
    world.script.set("k1", Treatment::failure(402, "insufficient_quota"));
    world.served(4).await;
    world.ok(&["key-pool", "rest", "p/k2", "--for", "1h", "--comment", "by hand"]).await;
    let calls = world.upstream.count();
    world.stands("k1", "exhausted", TOLD).await;
    let check = async |world: &World, what: &str| {
        world.stands("k1", "exhausted", LIMIT).await;
        world.stands("k2", "resting", LIMIT).await;
        for plane in 0..2 {
            world.planes[plane].wait_ready(LIMIT).await.unwrap();
            let reply = world.ask(plane, "m1").await;
            assert_ne!(reply.status, Some(200), "{what}, data plane {plane}");
        }
        assert_eq!(world.upstream.count(), calls, "{what}");
    };
    check(&world, "before").await;

    world.planes[0].kill().unwrap();
    world.planes[0].wait_for_exit(LIMIT).await.unwrap();
    world.planes[0].restart().await.unwrap();
    told(&world, 0).await;
    check(&world, "a data plane was killed").await;

    world.control.kill().unwrap();
    world.control.wait_for_exit(LIMIT).await.unwrap();
    let reply = world.ask(1, "m1").await;
    assert_ne!(reply.status, Some(200), "without a control plane what is known goes on");
    world.control.restart().await.unwrap();
    check(&world, "the control plane was killed").await;

    world.redis.as_ref().unwrap().kill().unwrap();
    world.redis.as_ref().unwrap().wait_for_exit(LIMIT).await.unwrap();
    check(&world, "Redis is away").await;
    world.redis.as_mut().unwrap().restart().await.unwrap();
    check(&world, "Redis was killed").await;

    // All at once: only what Redis has written is left.
    world.control.kill().unwrap();
    world.planes.iter().for_each(|plane| plane.kill().unwrap());
    world.redis.as_ref().unwrap().kill().unwrap();
    world.redis.as_mut().unwrap().restart().await.unwrap();
    world.control.restart().await.unwrap();
    for number in 0..2 {
        world.planes[number].restart().await.unwrap();
        told(&world, number).await;
    }
    check(&world, "everything was killed").await;
    let status = world.status("k2").await;
    assert_eq!(
        (&status["reason"], &status["cells"][0]["operator"]),
        (&json!("by hand"), &json!(true))
    );
}

/// Waits until a data plane has asked for how keys stand since its start. It may serve its saved policy
/// before: a request that it sends then is no fault, so that none is sent.
async fn told(world: &World, plane: usize) {
    let connected = async {
        while world.metric(plane, "sluicegate_key_pool_connected").await < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, "a data plane that was told", connected).await.unwrap();
}
