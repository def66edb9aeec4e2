//! Changes, and that they take hold.

use serde_json::{Value, json};
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::deadline::within;
use std::time::Duration;
use tokio::time::Instant;

use crate::traffic::{Callers, Streams};
use crate::world::{LIMIT, LONG, World, ask, models};

/// In which time a change must be in force on every data plane.
const IN_FORCE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn d7_changes_under_traffic_fail_no_request_and_cut_no_stream() {
    let world = World::start(false).await;
    let callers = Callers::of(&world.cluster);
    let streams = Streams::start(&world.cluster, 10).await;
    let begun = Instant::now();
    for (number, change) in twenty_changes(&world).iter().enumerate() {
        let output = world.apply(change).await;
        let said = output.said();
        assert!(said.contains("1 created") || said.contains("1 updated"), "{number}: {said}");
    }
    let took = begun.elapsed();
    assert!(took < LONG, "20 changes took {took:?}: the streams ended before");
    world.all_run_the_head().await;
    callers.stop().await.all_well();
    streams.all_whole().await;
}

/// One resource each; those that carry the traffic are among them.
fn twenty_changes(world: &World) -> Vec<Value> {
    let upstream = world.upstream.address();
    let mut changes = Vec::new();
    for i in 0..4 {
        let mut provider = config::provider(upstream);
        provider["keys"] = json!([]);
        provider["timeouts"] = json!({"idle_ms": 30_000 + i});
        let mut model = config::model("m1");
        model["aliases"] = json!([format!("alias-{i}")]);
        let secret = json!({"value": format!("sk-upstream-new-{i}")});
        let credential = json!({"name": "p1/k1", "provider": "p1", "secret": secret});
        let key = config::api_key(&format!("key-{i}"), &format!("sk-caller-{i}"));
        changes.extend([
            json!({"providers": [provider]}),
            json!({"models": [model]}),
            json!({"credentials": [credential]}),
            json!({"api_keys": [key]}),
            json!({"tenants": [config::tenant(&format!("tenant-{i}"))]}),
        ]);
    }
    changes
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_a_revoked_key_is_refused_everywhere_within_a_second() {
    let world = World::start(false).await;
    world.apply(&json!({"api_keys": [config::api_key("gone", "sk-caller-gone")]})).await;
    for plane in &world.cluster.data_planes {
        assert_eq!(ask(plane, "sk-caller-gone", "m1").await.status, Some(200));
    }
    world.cli(&["key", "revoke", "gone"]).await;
    let revoked = Instant::now();
    within_a_second(&world, revoked, "sk-caller-gone", "m1", 401, "invalid_api_key").await;
    world.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_removed_model_is_unknown_everywhere_within_a_second() {
    let world = World::start(false).await;
    world.apply(&json!({"models": [config::model("m1-gone")]})).await;
    for plane in &world.cluster.data_planes {
        assert_eq!(ask(plane, KEY, "m1-gone").await.status, Some(200));
    }
    world.cli(&["delete", "model", "m1-gone"]).await;
    let removed = Instant::now();
    within_a_second(&world, removed, KEY, "m1-gone", 404, "model_not_found").await;
    for plane in &world.cluster.data_planes {
        assert!(!models(plane, KEY).await.iter().any(|(name, _)| name == "m1-gone"));
    }
    world.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_a_new_key_works_at_once_when_it_was_waited_for() {
    let world = World::start(false).await;
    for i in 0..5 {
        let name = format!("fresh-{i}");
        let create = ["key", "create", &name, "--tenant", "default", "--wait", "1.0"];
        let output = world.cli(&create).await;
        let key = output.stdout.trim();
        for plane in &world.cluster.data_planes {
            let reply = ask(plane, key, "m1").await;
            assert_eq!(reply.status, Some(200), "{}: {}", plane.name(), reply.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_of_two_changes_to_one_version_one_is_refused() {
    let world = World::start(false).await;
    let shown = world.cli(&["get", "model", "m1", "-o", "json"]).await.stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let version = find_version(&shown).unwrap_or_else(|| panic!("no version in {shown:#}"));
    let expected = version.to_string();

    let folder = tempfile::tempdir().unwrap();
    let paths = ["left", "right"].map(|owner| {
        let mut model = config::model("m1");
        model["owned_by"] = owner.into();
        let path = folder.path().join(format!("{owner}.yaml"));
        std::fs::write(&path, json!({"models": [model]}).to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let apply = |path| {
        let arguments = ["apply", "-f", path, "--expect-version", &expected, "--wait", "1.0"];
        let cluster = &world.cluster;
        async move { cluster.cli(&arguments).await.unwrap() }
    };
    let (left, right) = tokio::join!(apply(&paths[0]), apply(&paths[1]));
    let (won, lost, owner) =
        if left.status.success() { (left, right, "left") } else { (right, left, "right") };
    assert_eq!(won.status.code(), Some(0), "{}", won.said());
    assert_eq!(lost.status.code(), Some(1), "{}", lost.said());

    let now = world.cli(&["get", "model", "m1", "-o", "json"]).await.stdout;
    let now = find_version(&serde_json::from_str(&now).unwrap()).unwrap();
    assert!(now > version);
    let names = format!("model/m1: expected version {version}, but it has {now}");
    assert!(lost.stderr.contains(&names), "{}\nlacks: {names}", lost.said());
    for plane in &world.cluster.data_planes {
        let models = models(plane, KEY).await;
        assert!(models.contains(&("m1".into(), owner.into())), "{models:?}");
    }
}

/// The version of a resource as `get` shows it.
fn find_version(shown: &Value) -> Option<u64> {
    match shown {
        Value::Object(members) => {
            let here = members.get("version").and_then(Value::as_u64);
            here.or_else(|| members.values().find_map(find_version))
        }
        Value::Array(entries) => entries.iter().find_map(find_version),
        _ => None,
    }
}

/// Waits until every data plane refuses, at most for [`IN_FORCE`] after `from`.
async fn within_a_second(
    world: &World,
    from: Instant,
    key: &str,
    model: &str,
    status: u16,
    code: &str,
) {
    for plane in &world.cluster.data_planes {
        let refused = async {
            loop {
                let reply = ask(plane, key, model).await;
                if reply.status == Some(status) {
                    return (Instant::now(), reply);
                }
                assert_eq!(reply.status, Some(200), "{}", reply.text());
            }
        };
        let (at, reply) = within(LIMIT, &format!("{status}"), refused).await.unwrap();
        let took = at - from;
        assert!(took <= IN_FORCE, "{}: in force after {took:?}", plane.name());
        assert_eq!(reply.json().unwrap()["error"]["code"], code, "{}", reply.text());
    }
}
