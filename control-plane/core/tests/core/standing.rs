//! Where limits stand.

use std::sync::Arc;

use sluicegate_control_core::{CoreError, Limits, quota::standing::Standing};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_store::ledger::MeterView;

use crate::{
    fixture::{Core, limit, over_key},
    ledger::Scripted,
};

fn view(meter: &str, used: u64, reserved: u64) -> MeterView {
    MeterView { meter: meter.into(), capacity: 1, used, reserved, holders: 0, reset_ms: 9 }
}

async fn world() -> (Core, Arc<Scripted>, Standing) {
    let core = Core::new().await;
    core.put(vec![
        limit("l", |spec| {
            spec.dimension = "cost".into();
            spec.amount = Some(12.5);
            spec.window = "month".into();
        }),
        limit("other", |spec| spec.rate = "3/second;9/30s".into()),
        over_key("big", "a,b", |spec| spec.amount = Some(100.0)),
    ])
    .await;
    let ledger = Scripted::at(1);
    let (limits, _task) = Limits::start(&core.desired);
    (core, ledger.clone(), Standing::new(limits, ledger))
}

fn ask(limit: &str) -> pb::LimitStatusRequest {
    pb::LimitStatusRequest { limit: limit.into(), most: 0 }
}

#[tokio::test]
async fn a6_leases_that_nobody_refreshed_are_not_shown_as_held() {
    let (_core, ledger, standing) = world().await;
    let held = MeterView { holders: 2, ..view("other|requests:b30|key=z", 4, 9) };
    ledger.script().meters = vec![held, view("other|requests:b1|key=z", 1, 0)];
    let reply = standing.read(&ask("other")).await.unwrap();
    // The meter with holders was looked at, by an operation that draws nothing.
    let looked: Vec<_> = ledger.script().leases.drain(..).flatten().collect();
    let [op] = looked.as_slice() else { panic!("{looked:?}") };
    assert_eq!((op.meter.as_str(), op.close, op.wanted), ("other|requests:b30|key=z", true, 0));
    let reserved: Vec<_> = reply.meters.iter().map(|meter| meter.reserved).collect();
    assert_eq!(reserved, [0.0, 0.0]);
}

#[tokio::test]
async fn a6_every_counter_is_shown_in_what_people_write() {
    let (_core, ledger, standing) = world().await;
    ledger.script().meters = vec![
        view("other|requests:b30|key=z", 4, 1),
        view("l|cost:cmonth:UTC|key=k", 2_500_000_000, 0),
        view("l|cost:cmonth:UTC|key=a%2Cb", 0, 1),
        view(&format!("l|cost:cmonth:UTC|#{}", "0".repeat(64)), 0, 0),
        // What is left of what the limits were before.
        view("l|cost:cday:UTC|key=k", 1, 0),
        view("gone|b1|key=k", 1, 0),
    ];
    let reply = standing.read(&ask("l")).await.unwrap();
    let shown: Vec<_> = reply
        .meters
        .iter()
        .map(|meter| {
            (meter.subject.as_str(), meter.capacity, meter.used, meter.override_name.as_str())
        })
        .collect();
    let digest = format!("#{}", "0".repeat(64));
    assert_eq!(
        shown,
        [
            (digest.as_str(), 1e-9, 0.0, ""),
            ("key=a%2Cb", 100.0, 0.0, "big"),
            ("key=k", 12.5, 2.5, ""),
        ]
    );
    assert_eq!((reply.ledger.as_str(), reply.health.as_str()), ("scripted at here", "ready"));
    assert_eq!((reply.meters[1].window.as_str(), reply.meters[1].reserved), ("month", 1e-9));

    let all = standing.read(&ask("")).await.unwrap().meters;
    let other = all.last().unwrap();
    assert_eq!((all.len(), other.limit.as_str(), other.window.as_str()), (4, "other", "30s"));
    let few = pb::LimitStatusRequest { most: 2, ..ask("") };
    let health = standing.read(&few).await.unwrap().health;
    assert!(health.contains("only 2"), "{health}");
}

#[tokio::test]
async fn what_cannot_be_shown_is_told() {
    let (_core, ledger, standing) = world().await;
    ledger.script().away = true;
    let reply = standing.read(&ask("l")).await.unwrap();
    assert_eq!(reply.health, "away: scripted is unavailable: told so");
    let Err(CoreError::NotFound { near, .. }) = standing.read(&ask("othr")).await else { panic!() };
    assert_eq!(near.as_deref(), Some("other"));
    let much = pb::LimitStatusRequest { most: 5_001, ..ask("l") };
    assert!(matches!(standing.read(&much).await, Err(CoreError::Invalid(_))));
}
