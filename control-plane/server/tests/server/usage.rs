//! Reports of usage over the wire: each is counted once.

use sluicegate_proto::{
    admin::v1 as pb,
    usage::v1::{self as usage, Basis},
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::fixture::{NODE, Served, soon};

fn event(model: &str, tokens: u64, basis: Basis) -> usage::UsageEvent {
    usage::UsageEvent {
        request_id: "r".into(),
        attempt: 1,
        tenant: "t".into(),
        key: "k".into(),
        model: model.into(),
        input_tokens: tokens,
        output_tokens: 1,
        cost_nano: tokens * 3,
        basis: basis.into(),
        ..usage::UsageEvent::default()
    }
}

fn batch(first_seq: u64, events: Vec<usage::UsageEvent>) -> usage::UsageBatch {
    usage::UsageBatch {
        node_id: "n".into(),
        source: 7,
        first_seq,
        events,
        ..usage::UsageBatch::default()
    }
}

async fn total(served: &Served) -> (u64, u64, u64, u64) {
    let reply = served.admin().await.query_usage(pb::QueryUsageRequest::default()).await;
    let totals = reply.unwrap().into_inner().totals;
    totals.first().map_or((0, 0, 0, 0), |total| {
        (total.requests, total.estimated, total.input_tokens, total.cost_nano)
    })
}

#[tokio::test]
async fn d4_a_report_is_counted_exactly_once() {
    let served = Served::new().await;
    let mut usage = served.usage(Some(NODE)).await;
    let first = batch(1, vec![event("a", 10, Basis::Reported), event("b", 20, Basis::Estimated)]);
    for _ in 0..3 {
        let ack = soon(usage.report(first.clone())).await.unwrap().into_inner();
        assert_eq!((ack.applied_through, ack.resend_from, ack.durable), (2, 0, true));
        assert!(!ack.store.is_empty());
    }
    assert_eq!(total(&served).await, (2, 1, 30, 90));

    // A batch that comes too early, and one that begins in what was counted: neither is counted.
    let early = usage.report(batch(9, vec![event("a", 1, Basis::Reported)])).await.unwrap();
    assert_eq!(early.into_inner().resend_from, 3);
    assert_eq!(total(&served).await, (2, 1, 30, 90));
    let next = vec![event("a", 100, Basis::Reported)];
    let ack = usage.report(batch(3, next.clone())).await.unwrap().into_inner();
    assert_eq!((ack.applied_through, ack.resend_from), (3, 0));
    assert_eq!(total(&served).await, (3, 1, 130, 390));

    // Another source counts apart.
    let other = usage::UsageBatch { source: 8, ..batch(1, next) };
    assert_eq!(usage.report(other).await.unwrap().into_inner().applied_through, 1);
    assert_eq!(total(&served).await.0, 4);
    served.counts("sluicegate_control_usage_duplicate_batches_total 2").await;
    served.counts("sluicegate_control_usage_events_total 4").await;
    served.counts("sluicegate_control_usage_resends_total 1").await;
    served.counts("sluicegate_control_usage_lost_events_total 0").await;
}

#[tokio::test]
async fn d4_what_is_lost_is_told() {
    let served = Served::new().await;
    let mut usage = served.usage(Some(NODE)).await;
    let lost = usage::UsageBatch {
        nothing_before: true,
        ..batch(5, vec![event("a", 1, Basis::Reported)])
    };
    let ack = usage.report(lost).await.unwrap().into_inner();
    assert_eq!((ack.applied_through, ack.resend_from), (5, 0));
    served.counts("sluicegate_control_usage_lost_events_total 4").await;
    served.counts("sluicegate_control_usage_events_total 1").await;
}

#[tokio::test]
async fn usage_by_name() {
    let served = Served::new().await;
    let mut usage = served.usage(Some(NODE)).await;
    let events = vec![
        event("b", 1, Basis::Reported),
        event("a", 2, Basis::Reported),
        event("b", 4, Basis::Reported),
    ];
    usage.report(batch(1, events)).await.unwrap();
    let mut admin = served.admin().await;
    let by = |names: &[&str]| pb::QueryUsageRequest {
        group_by: names.iter().map(|name| (*name).to_owned()).collect(),
        ..pb::QueryUsageRequest::default()
    };
    let totals = admin.query_usage(by(&["model"])).await.unwrap().into_inner().totals;
    let found: Vec<_> = totals.iter().map(|one| (&*one.model, one.input_tokens)).collect();
    assert_eq!(found, [("a", 2), ("b", 5)]);
    let status = admin.query_usage(by(&["colour"])).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_details_bad_request().unwrap();
    assert_eq!(details.field_violations[0].field, "group_by[0]");
}
