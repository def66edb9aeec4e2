use std::sync::Arc;

use sluicegate_control_core::{CoreError, Request};
use sluicegate_model::Kind;
use sluicegate_proto::resource::v1::{self as pb, resource::Spec};
use sluicegate_telemetry::task;

use crate::fixture::{Core, delete, expecting, model, provider, put, request, wrap};

fn counter(value: u32) -> pb::Resource {
    wrap(Spec::ApiKey(pb::ApiKey {
        name: "counter".into(),
        hash: format!("sha256:{value:064x}"),
        ..Default::default()
    }))
}

fn read(core: &Core) -> (u64, u32) {
    let state = core.desired.snapshot();
    let reference = sluicegate_model::ResourceRef::new(Kind::ApiKey, "counter");
    let stored = &state.resources[&reference];
    let Some(Spec::ApiKey(spec)) = &stored.wire.spec else { panic!() };
    let digits = spec.hash.strip_prefix("sha256:").unwrap();
    (stored.version, u32::from_str_radix(digits.trim_start_matches('0'), 16).unwrap_or(0))
}

/// Fifty callers on two replicas add one each, by comparing versions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compare_and_set_loses_no_update() {
    let one = Core::new().await;
    let two = Core::over(one.store.clone(), one.seal.clone()).await;
    one.put(vec![counter(0)]).await;
    assert!(two.desired.reached(one.revision(), std::time::Duration::from_secs(2)).await);
    let replicas = [Arc::new(one), Arc::new(two)];
    let mut callers = Vec::new();
    for n in 0..50 {
        let core = replicas[n % 2].clone();
        callers.push(task::spawn("caller", async move {
            let mut conflicts = 0;
            loop {
                let (version, value) = read(&core);
                let change = expecting(put(counter(value + 1)), version);
                match core.apply(vec![change]).await {
                    Ok(outcome) => return (outcome.at.revision, conflicts),
                    Err(CoreError::Conflict(_) | CoreError::Contended { .. }) => conflicts += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }));
    }
    let mut revisions = Vec::new();
    for caller in callers {
        revisions.push(caller.await.unwrap().0);
    }
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 50, "every success has a revision of its own");
    let newest = *revisions.last().unwrap();
    for core in &replicas {
        assert!(core.desired.reached(newest, std::time::Duration::from_secs(2)).await);
        assert_eq!(read(core).1, 50);
    }
}

/// Two replicas race to break a reference from both ends: one of them must be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_across_resources_are_not_raced() {
    for _ in 0..20 {
        let one = Core::new().await;
        one.put(vec![provider("p"), provider("q"), model("m", "q")]).await;
        let two = Core::over(one.store.clone(), one.seal.clone()).await;
        let (deleted, used) = tokio::join!(
            one.apply(vec![delete(Kind::Provider, "p")]),
            two.apply(vec![put(model("m", "p"))]),
        );
        assert!(deleted.is_ok() != used.is_ok(), "{deleted:?} {used:?}");
    }
}

/// The same call sent to both replicas at once is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_claimed_once_across_replicas() {
    for n in 0..20 {
        let one = Core::new().await;
        let two = Core::over(one.store.clone(), one.seal.clone()).await;
        let request =
            Request { idempotency_key: Some(format!("k{n}")), ..request(vec![put(provider("p"))]) };
        let (a, b) = tokio::join!(one.applier.apply(&request), two.applier.apply(&request));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.repeated != b.repeated, "{a:?} {b:?}");
        assert_eq!((a.at, a.differences), (b.at, b.differences));
    }
}
