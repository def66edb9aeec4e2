//! Overrides that end by themselves.

use std::time::Duration;

use sluicegate_control_core::{History, expiry::Expiry};
use sluicegate_model::Kind;
use sluicegate_telemetry::clock;
use tokio::time::timeout;

use crate::fixture::{Core, faults, limit, over_key, put};

const SOON: Duration = Duration::from_secs(10);

fn rated(name: &str) -> sluicegate_proto::resource::v1::Resource {
    limit(name, |spec| spec.rate = "10/minute".into())
}

async fn gone(core: &Core, name: &str) {
    let mut states = core.desired.subscribe();
    let name = format!("override/{name}");
    let gone = states
        .wait_for(|state| !state.resources.keys().any(|reference| reference.to_string() == name));
    drop(timeout(SOON, gone).await.expect("it should have expired").unwrap());
}

/// Two replicas delete at the same time; one change comes of it, which says why.
#[tokio::test]
async fn a11_an_override_ends_by_itself_once() {
    let core = Core::new().await;
    let other = Core::over(core.store.clone(), core.seal.clone()).await;
    let end = clock::unix_ms() + 700;
    let expiring = |name: &str, key: &str, at: u64| {
        over_key(name, key, |spec| {
            spec.rate = "2/minute".into();
            spec.expires_at = clock::format_unix_ms(at);
        })
    };
    core.put(vec![rated("l"), expiring("stays", "j", end + 3_600_000)]).await;
    let watching = [
        Expiry::new(core.desired.clone(), core.applier.clone()).start(),
        Expiry::new(other.desired.clone(), other.applier.clone()).start(),
    ];
    // It comes while the watch sleeps until the other one's end.
    core.put(vec![expiring("short", "k", end)]).await;
    gone(&core, "short").await;
    let late = clock::unix_ms().saturating_sub(end);
    assert!(clock::unix_ms() >= end && late < 1_000, "{late} ms late");
    gone(&other, "short").await;
    assert!(core.get(Kind::Override, "stays").is_some());
    // Whatever the loser still does comes before this.
    other.put(vec![over_key("last", "z", |spec| spec.rate = "1/minute".into())]).await;
    drop(watching);
    let newest = core.desired.snapshot().sequence.max(other.desired.snapshot().sequence);
    let page = History::new(core.store.clone()).page(newest, 20).await.unwrap();
    let by_itself: Vec<_> = page.iter().filter(|entry| entry.author == "expiry").collect();
    assert_eq!(by_itself.len(), 1, "{page:?}");
    assert_eq!(by_itself[0].comment, "override short expired by itself");
    assert_eq!(by_itself[0].differences[0].reference.to_string(), "override/short");
}

#[tokio::test]
async fn the_next_look_is_at_the_next_end() {
    let core = Core::new().await;
    let expiry = Expiry::new(core.desired.clone(), core.applier.clone());
    let at = 1_790_000_000_000;
    assert_eq!(expiry.look(at).await, Duration::from_secs(60), "nothing ends");
    core.put(vec![
        rated("l"),
        over_key("o", "k", |spec| {
            spec.rate = "2/minute".into();
            spec.expires_at = clock::format_unix_ms(at);
        }),
    ])
    .await;
    assert_eq!(expiry.look(at - 1_234).await, Duration::from_millis(1_234));
    assert!(core.get(Kind::Override, "o").is_some());
    assert_eq!(expiry.look(at).await, Duration::ZERO);
    assert!(core.get(Kind::Override, "o").is_none());
}

#[tokio::test]
async fn limits_hold_what_they_name_in_place() {
    let core = Core::new().await;
    let named = |key: &str| {
        limit("l", |spec| {
            spec.scope.as_mut().unwrap().tenant = key.into();
            spec.rate = "10/minute".into();
        })
    };
    assert_eq!(faults(core.apply(vec![put(named("t"))]).await).len(), 1);
    core.put(vec![
        crate::fixture::tenant("t"),
        named("t"),
        over_key("o", "k", |spec| spec.rate = "2/minute".into()),
    ])
    .await;
    let deleted = async |kind, name| {
        faults(core.apply(vec![crate::fixture::delete(kind, name)]).await).remove(0)
    };
    let said = deleted(Kind::Tenant, "t").await;
    assert!(said.contains("tenant/t: is still used by limit/l (scope.tenant)"), "{said}");
    let said = deleted(Kind::Limit, "l").await;
    assert!(said.contains("limit/l: is still used by override/o (limit)"), "{said}");
}
