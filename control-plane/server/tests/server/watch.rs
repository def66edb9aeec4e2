use sluicegate_proto::{admin::v1 as pb, resource::v1::ResourceRef};
use tonic::Streaming;

use crate::fixture::{Served, apply, name, provider, reference, soon, tenant};

async fn next(events: &mut Streaming<pb::WatchEvent>) -> (Vec<String>, Vec<ResourceRef>, bool) {
    let event = soon(events.message()).await.unwrap().unwrap();
    assert!(event.at.is_some());
    (event.puts.iter().map(name).collect(), event.deletes, event.reset)
}

fn watch(after_revision: u64, kinds: &[&str]) -> pb::WatchRequest {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    pb::WatchRequest { kinds, after_revision }
}

#[tokio::test]
async fn state_first_then_changes() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let first = apply(&mut admin, vec![tenant("a"), tenant("b")]).await.at.unwrap().revision;
    let mut all = admin.watch(watch(0, &[])).await.unwrap().into_inner();
    assert_eq!(next(&mut all).await, (vec!["tenant/a".into(), "tenant/b".into()], vec![], true));

    let mut tenants = admin.watch(watch(first, &["tenant"])).await.unwrap().into_inner();
    apply(&mut admin, vec![provider("p", "http://h/v1")]).await;
    apply(&mut admin, vec![tenant("c")]).await;
    let refs = vec![reference("tenant", "a")];
    admin.delete(pb::DeleteRequest { refs: refs.clone(), ..Default::default() }).await.unwrap();

    assert_eq!(next(&mut all).await, (vec!["provider/p".into()], vec![], false));
    for events in [&mut all, &mut tenants] {
        assert_eq!(next(events).await, (vec!["tenant/c".into()], vec![], false));
        assert_eq!(next(events).await, (vec![], refs.clone(), false));
    }
    // From the middle on, also what happened before the call.
    let mut late = admin.watch(watch(first, &["provider"])).await.unwrap().into_inner();
    assert_eq!(next(&mut late).await, (vec!["provider/p".into()], vec![], false));
}

#[tokio::test]
async fn an_empty_state_is_told_too() {
    let served = Served::new().await;
    let mut events = served.admin().await.watch(watch(0, &[])).await.unwrap().into_inner();
    assert_eq!(next(&mut events).await, (vec![], vec![], true));
}

#[tokio::test]
async fn a_revision_that_is_not_in_memory_begins_anew() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![tenant("a")]).await;
    // Ahead of everything: another history.
    let mut events = admin.watch(watch(1_000_000, &[])).await.unwrap().into_inner();
    assert_eq!(next(&mut events).await, (vec!["tenant/a".into()], vec![], true));
}

/// A watcher that does not read for more changes than are kept gets the state, not a gap.
#[tokio::test]
async fn a_slow_watcher_misses_nothing_silently() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    let mut events = admin.watch(watch(0, &[])).await.unwrap().into_inner();
    let mut known = std::collections::BTreeSet::new();
    for n in 0..200 {
        apply(&mut admin, vec![tenant(&format!("t{n:03}"))]).await;
    }
    let mut last = 0;
    while known.len() < 200 {
        let event = soon(events.message()).await.unwrap().unwrap();
        let revision = event.at.unwrap().revision;
        assert!(revision >= last);
        last = revision;
        if event.reset {
            known.clear();
        }
        known.extend(event.puts.iter().map(name));
    }
}
