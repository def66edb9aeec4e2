//! Leases over the wire, on the embedded ledger.

use sluicegate_proto::{
    admin::v1 as pb,
    quota::v1::{self as quota, LeaseStatus},
    resource::v1::{self as resource, LimitScope, resource::Spec},
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::fixture::{NODE, Quota, Served, apply, limit, soon, wrap};

fn op(lease: u64, seq: u64, charged: u64, wanted: u64) -> quota::LeaseOp {
    let subject = LimitScope { key: "k".into(), ..LimitScope::default() };
    quota::LeaseOp {
        meter: Some(quota::Meter {
            limit: "l".into(),
            window_s: 86_400,
            subject: Some(subject),
            tag: String::new(),
        }),
        lease,
        seq,
        charged,
        wanted,
        minimum: 1,
        ..quota::LeaseOp::default()
    }
}

async fn lease(quota: &mut Quota, node: u64, op: quota::LeaseOp) -> quota::LeaseState {
    let request = quota::LeaseRequest {
        node_id: format!("n{node}"),
        incarnation: node,
        policy_revision: 1,
        ops: vec![op],
    };
    soon(quota.lease(request)).await.unwrap().into_inner().states.remove(0)
}

/// Two data planes cannot draw more than there is, whatever is repeated.
#[tokio::test]
async fn b3_a_fleet_draws_on_one_limit() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![limit("l", "100/day")]).await;
    let mut quota = served.quota(Some(NODE)).await;
    for _ in 0..3 {
        let state = lease(&mut quota, 1, op(1, 1, 0, 70)).await;
        assert_eq!((state.status(), state.granted), (LeaseStatus::Granted, 70));
    }
    let state = lease(&mut quota, 2, op(1, 1, 0, 70)).await;
    assert_eq!((state.status(), state.granted), (LeaseStatus::Partial, 30));
    assert_eq!((state.capacity, state.reserved, state.holders), (100, 100, 2));
    let state = lease(&mut quota, 1, op(1, 2, 10, 10)).await;
    assert_eq!((state.status(), state.used, state.reserved), (LeaseStatus::Granted, 10, 30));

    let request = pb::LimitStatusRequest { limit: "l".into(), most: 0 };
    let shown = admin.limit_status(request).await.unwrap().into_inner();
    let [meter] = shown.meters.as_slice() else { panic!("{shown:?}") };
    assert_eq!((meter.subject.as_str(), meter.window.as_str()), ("key=k", "day"));
    assert_eq!((meter.capacity, meter.used.round(), meter.reserved), (100.0, 10.0, 30.0));
    assert!(shown.ledger.starts_with("embedded at "), "{}", shown.ledger);
    assert_eq!(shown.health, "ready");
    served.counts("sluicegate_control_lease_ops_total{status=\"granted\"} 4").await;
    served.counts("sluicegate_control_lease_ops_total{status=\"partial\"} 1").await;
    let (_, metrics) = served.page("/metrics").await;
    // Five of data planes, and one that looked for leases that nobody refreshes.
    let calls = "sluicegate_control_ledger_call_seconds_count{call=\"lease\"} 6";
    assert!(metrics.lines().any(|line| line == calls), "{metrics}");
}

#[tokio::test]
async fn a11_a_lowered_limit_and_its_override_hold_at_once() {
    let served = Served::new().await;
    let mut admin = served.admin().await;
    apply(&mut admin, vec![limit("l", "100/day")]).await;
    let mut quota = served.quota(Some(NODE)).await;
    assert_eq!(lease(&mut quota, 1, op(1, 1, 0, 50)).await.granted, 50);
    let subject = LimitScope { key: "k".into(), ..LimitScope::default() };
    let lowered = wrap(Spec::Override(resource::Override {
        name: "o".into(),
        limit: "l".into(),
        subject: Some(subject),
        rate: "20/day".into(),
        ..Default::default()
    }));
    let revision = apply(&mut admin, vec![lowered]).await.at.unwrap().revision;
    let request = quota::LeaseRequest {
        node_id: "n2".into(),
        incarnation: 2,
        policy_revision: revision,
        ops: vec![op(1, 1, 0, 10)],
    };
    let state = quota.lease(request).await.unwrap().into_inner().states.remove(0);
    assert_eq!((state.status(), state.capacity, state.granted), (LeaseStatus::Denied, 20, 0));
    assert!(state.only_reserved, "{state:?}");
    let request = pb::LimitStatusRequest::default();
    let shown = admin.limit_status(request).await.unwrap().into_inner();
    assert_eq!((shown.meters[0].capacity, &*shown.meters[0].override_name), (20.0, "o"));
}

#[tokio::test]
async fn faults_name_the_field() {
    let served = Served::new().await;
    let mut quota = served.quota(Some(NODE)).await;
    let request = quota::LeaseRequest {
        node_id: "n".into(),
        ops: vec![quota::LeaseOp::default()],
        ..quota::LeaseRequest::default()
    };
    let status = quota.lease(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_details_bad_request().unwrap();
    assert_eq!(details.field_violations[0].field, "ops[0].meter");
    let request = pb::LimitStatusRequest { limit: "none".into(), most: 0 };
    let status = served.admin().await.limit_status(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
