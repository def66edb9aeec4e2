//! What operators see and set.

use serde_json::{Value, json};

use crate::script::Treatment;
use crate::world::{LIMIT, TOLD, World, code, retry_after};

#[tokio::test(flavor = "multi_thread")]
async fn c5_operators_let_a_key_rest_and_take_it_back() {
    let world = World::start(2, false, &["k1"], json!({})).await;
    world.served(1).await;
    let said =
        world.ok(&["key-pool", "rest", "p/k1", "--for", "10m", "--comment", "billing"]).await;
    assert_eq!(said, "p/k1 rests for 10m\n");
    for plane in 0..2 {
        let reply = world.refuses(plane, TOLD).await;
        assert_eq!((reply.status, code(&reply).as_str()), (Some(503), "no_target"));
        assert!((590..=600).contains(&retry_after(&reply)), "{:?}", reply.headers);
    }
    let table = world.ok(&["get", "credentials"]).await;
    assert!(table.contains("resting") && table.contains("billing"), "{table}");
    // The newest word holds, also a shorter one.
    world.ok(&["key-pool", "rest", "p/k1", "--for", "1m"]).await;
    let left = world.status("k1").await["left_ms"].as_u64().unwrap();
    assert!(left <= 60_000, "{left}");
    world.ok(&["key-pool", "enable", "p/k1"]).await;
    assert_eq!(world.status("k1").await["state"], "up");
    served_soon(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_operators_disable_and_enable_a_key_and_forget_what_was_held_against_it() {
    let world = World::new(&["k1", "k2"], json!({})).await;
    world.script.set("k1", Treatment::failure(401, "invalid_api_key"));
    world.served(4).await;
    world.stands("k1", "refused", TOLD).await;
    world.ok(&["key-pool", "disable", "p/k1", "--comment", "leaked", "--wait", "1.0"]).await;
    assert_eq!(world.status("k1").await["state"], "disabled");
    let history = world.ok(&["history", "-o", "json"]).await;
    assert!(history.contains("leaked"), "{history}");
    world.script.mend("k1");
    let calls = world.calls("k1");
    world.served(4).await;
    assert_eq!(world.calls("k1"), calls);
    let said = world.ok(&["key-pool", "enable", "p/k1", "--wait", "1.0", "-o", "json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["cleared"], &said["durable"]), (&json!(1), &json!(true)));
    world.stands("k1", "up", TOLD).await;
    let begun = tokio::time::Instant::now();
    while world.calls("k1") == calls {
        world.served(1).await;
        assert!(begun.elapsed() < TOLD, "k1 is not used again");
    }
    for verb in ["enable", "disable"] {
        let output = world.cli(&["key-pool", verb, "p/k3"]).await;
        assert_eq!(output.status.code(), Some(1), "{}", output.said());
        assert!(output.said().contains("did you mean 'p/k"), "{}", output.said());
    }
}

/// A key that is replaced under its name begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn c5_a_replaced_key_is_used_at_once() {
    let world = World::new(&["k1"], json!({})).await;
    world.script.set("k1", Treatment::failure(401, "invalid_api_key"));
    assert_eq!(world.ask(0, "m1").await.status, Some(502));
    world.stands("k1", "refused", TOLD).await;
    let other = json!({"k1": {"secret": {"value": "sk-upstream-secret-other"}}});
    world.apply(&["k1"], json!({}), other).await;
    world.stands("k1", "up", TOLD).await;
    served_soon(&world).await;
    assert_eq!(world.calls("other"), 1);
}

async fn served_soon(world: &World) {
    let served = async {
        while world.ask(0, "m1").await.status != Some(200) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    sluicegate_testkit::deadline::within(LIMIT, "a request that is served", served).await.unwrap();
}
