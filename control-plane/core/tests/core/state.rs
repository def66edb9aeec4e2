use sluicegate_control_core::Changes;
use sluicegate_model::Kind;
use sluicegate_protocol::policy::Point;

use crate::fixture::{Core, delete, tenant};

#[tokio::test]
async fn a_restart_finds_the_same_state() {
    let core = Core::seeded().await;
    core.put(vec![tenant("t")]).await;
    core.apply(vec![delete(Kind::Tenant, "t")]).await.unwrap();
    let before = core.desired.snapshot();
    let again = Core::over(core.store.clone(), core.seal.clone()).await;
    let after = again.desired.snapshot();
    assert_eq!(after.point(), before.point());
    assert_eq!((after.head, after.sequence), (before.head, before.sequence));
    assert_eq!(after.resources, before.resources);
}

#[tokio::test]
async fn watchers_continue_or_start_anew() {
    let core = Core::seeded().await;
    let cursor = core.desired.snapshot().point();
    core.put(vec![tenant("t")]).await;
    core.apply(vec![delete(Kind::Tenant, "t")]).await.unwrap();
    let Changes::These(events) = core.desired.changes_after(&cursor) else { panic!() };
    let shape: Vec<_> = events.iter().map(|e| (e.puts.len(), e.deletes.len())).collect();
    assert_eq!(shape, [(1, 0), (0, 1)]);
    let stranger = Point { epoch: "other".into(), ..cursor };
    assert!(matches!(core.desired.changes_after(&stranger), Changes::Reset(_)));
    // A replica that started later does not know how it came to be.
    let other = Core::over(core.store.clone(), core.seal.clone()).await;
    let old = Point { revision: 1, ..core.desired.snapshot().point() };
    assert!(matches!(other.desired.changes_after(&old), Changes::Reset(_)));
}
