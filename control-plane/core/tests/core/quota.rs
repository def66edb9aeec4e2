//! Which limit, override and window an operation is about, and what the ledger is asked.

use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{CoreError, LedgerClock, Limits, Quota};
use sluicegate_proto::{
    quota::v1::{self as pb, LeaseStatus},
    resource::v1::LimitScope,
};
use sluicegate_store::ledger::{LeaseOp, MAX_AMOUNT, MeterKind, OnExpiry};
use sluicegate_telemetry::{clock, task::AbortOnDrop};
use tokio::time::Instant;

use crate::{
    fixture::{Core, api_key, limit, over_key, secret, tenant},
    ledger::Scripted,
};

/// 2026-09-21, 14:13:20 UTC.
const NOW_MS: u64 = 1_790_000_000_000;

struct World {
    core: Core,
    ledger: Arc<Scripted>,
    limits: Arc<Limits>,
    quota: Quota,
    _limits: AbortOnDrop<()>,
}

impl World {
    async fn new(resources: Vec<sluicegate_proto::resource::v1::Resource>) -> Self {
        let core = Core::new().await;
        if !resources.is_empty() {
            core.put(resources).await;
        }
        let (limits, task) = Limits::start(&core.desired);
        let ledger = Scripted::at(NOW_MS);
        let clock = Arc::new(LedgerClock::new(ledger.clone()));
        let quota = Quota::new(limits.clone(), ledger.clone(), clock);
        Self { core, ledger, limits, quota, _limits: task }
    }

    async fn ask(&self, ops: Vec<pb::LeaseOp>) -> Vec<pb::LeaseState> {
        let policy_revision = self.core.revision();
        self.quota
            .lease(&pb::LeaseRequest { policy_revision, ..request(ops) })
            .await
            .unwrap()
            .states
    }

    /// What the ledger was asked last.
    fn asked(&self) -> Vec<LeaseOp> {
        self.ledger.script().leases.last().cloned().unwrap()
    }

    /// The capacity that one key has.
    async fn capacity(&self, key: &str) -> u64 {
        self.ask(vec![op("l", 60, key)]).await[0].capacity
    }
}

fn request(ops: Vec<pb::LeaseOp>) -> pb::LeaseRequest {
    pb::LeaseRequest { node_id: "n".into(), incarnation: 0xab, policy_revision: 0, ops }
}

fn op(limit: &str, window_s: u32, key: &str) -> pb::LeaseOp {
    let subject = LimitScope { key: key.into(), ..LimitScope::default() };
    pb::LeaseOp {
        meter: Some(pb::Meter {
            limit: limit.into(),
            window_s,
            subject: Some(subject),
            tag: String::new(),
        }),
        lease: 3,
        seq: 1,
        wanted: 5,
        minimum: 1,
        ..pb::LeaseOp::default()
    }
}

#[tokio::test]
async fn b3_each_window_is_a_meter_of_its_own() {
    let world = World::new(vec![
        limit("l", |spec| spec.rate = "3/second;100/minute".into()),
        limit("slide", |spec| {
            spec.rate = "9/30s".into();
            spec.algorithm = "sliding".into();
            spec.strict = true;
        }),
        limit("slots", |spec| {
            spec.dimension = "concurrency".into();
            spec.amount = Some(4.0);
        }),
    ])
    .await;
    let ops = vec![op("l", 1, "a"), op("l", 60, "a"), op("slide", 30, "a"), op("slots", 0, "a")];
    let states = world.ask(ops).await;
    assert!(states.iter().all(|state| state.status() == LeaseStatus::Granted), "{states:?}");
    assert_eq!(states[0].granted, 5);
    assert_eq!(states[0].ttl_ms, 15_000);
    assert_eq!(states.iter().map(|state| state.capacity).collect::<Vec<_>>(), [3, 100, 9, 4]);
    let asked = world.asked();
    let meters: Vec<_> = asked.iter().map(|op| op.meter.as_str()).collect();
    assert_eq!(
        meters,
        [
            "l|requests:b1|key=a",
            "l|requests:b60|key=a",
            "slide|requests:s30|key=a",
            "slots|concurrency:n|key=a"
        ]
    );
    assert_eq!(asked[0].lease, "00000000000000ab-0000000000000003");
    let kinds: Vec<_> = asked.iter().map(|op| (op.spec.kind, op.spec.on_expiry)).collect();
    assert_eq!(
        kinds,
        [
            (MeterKind::Bucket { amount: 3, window_ms: 1_000 }, OnExpiry::Return),
            (MeterKind::Bucket { amount: 100, window_ms: 60_000 }, OnExpiry::Return),
            (MeterKind::Sliding { window_ms: 30_000 }, OnExpiry::Hold),
            (MeterKind::Slots, OnExpiry::Return),
        ]
    );
    assert_eq!(world.ledger.script().leases.len(), 1, "one call for all");
}

#[tokio::test]
async fn a11_the_override_with_most_parts_holds_and_expires_on_time() {
    let later = clock::format_unix_ms(clock::unix_ms() + 3_600_000);
    let both = |key: &str, tenant: &str| LimitScope {
        key: key.into(),
        tenant: tenant.into(),
        ..LimitScope::default()
    };
    let scope = Some(both("*", "*"));
    let world = World::new(vec![
        tenant("t"),
        api_key(
            "k",
            Some(secret(sluicegate_proto::resource::v1::secret_source::Source::Value(
                "sk-client-of-tests".into(),
            ))),
        ),
        limit("l", |spec| {
            spec.scope = scope;
            spec.rate = "10/minute".into();
        }),
        // By name the first, but it says less than the third.
        over_key("a", "k", |spec| spec.rate = "20/minute".into()),
        over_key("b", "", |spec| {
            spec.subject = Some(both("", "t"));
            spec.rate = "30/minute".into();
        }),
        over_key("c", "k", |spec| {
            spec.subject = Some(both("k", "u"));
            spec.rate = "40/minute".into();
            spec.expires_at = later;
        }),
        over_key("d", "gone", |spec| {
            spec.rate = "50/minute".into();
            spec.expires_at = "2020-01-01T00:00:00Z".into();
        }),
    ])
    .await;
    let capacity = async |key: &str, tenant: &str| {
        let mut op = op("l", 60, key);
        op.meter.as_mut().unwrap().subject = Some(both(key, tenant));
        world.ask(vec![op]).await[0].capacity
    };
    assert_eq!(capacity("x", "x").await, 10, "none covers it");
    assert_eq!(capacity("k", "x").await, 20);
    assert_eq!(capacity("x", "t").await, 30);
    assert_eq!(capacity("k", "t").await, 20, "both name one part: the first by name");
    assert_eq!(capacity("k", "u").await, 40, "more parts");
    assert_eq!(capacity("gone", "x").await, 10, "it has expired");
}

#[tokio::test]
async fn a11_a_change_holds_from_the_revision_on_that_asks() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    assert_eq!(world.capacity("k").await, 10);
    world.core.put(vec![over_key("o", "k", |spec| spec.rate = "2/minute".into())]).await;
    assert_eq!(world.capacity("k").await, 2);
    assert_eq!(world.capacity("other").await, 10, "nothing else is touched");
    world.core.put(vec![limit("l", |spec| spec.rate = "7/minute".into())]).await;
    assert_eq!(world.capacity("other").await, 7);
    // Other changes compile nothing, but move the revision.
    world.core.put(vec![tenant("t")]).await;
    world.capacity("k").await;
    assert_eq!(world.limits.table().revision, world.core.revision());
}

/// A revision that never comes is waited for once, not with every call.
#[tokio::test]
async fn a_revision_that_is_to_come_is_waited_for_a_moment() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    let ask = async || {
        let ahead = world.core.revision() + 50;
        let request =
            pb::LeaseRequest { policy_revision: ahead, ..request(vec![op("l", 60, "k")]) };
        let began = Instant::now();
        let reply = world.quota.lease(&request).await.unwrap();
        assert_eq!(reply.states[0].status(), LeaseStatus::Granted);
        began.elapsed()
    };
    assert!(ask().await >= Duration::from_millis(200));
    assert!(ask().await < Duration::from_millis(200));
}

#[tokio::test]
async fn a_revision_that_comes_is_answered_with_it() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    let wanted = world.core.revision() + 1;
    let waiting = world.limits.at_least(wanted, Duration::from_secs(10));
    let lowered = world.core.put(vec![limit("l", |spec| spec.rate = "4/minute".into())]);
    let (table, outcome) = tokio::join!(biased; waiting, lowered);
    assert!(outcome.at.revision >= wanted && table.revision >= wanted);
    assert_eq!(table.get("l").unwrap().limit.windows[0].capacity(), 4);
}

#[tokio::test]
async fn a13_windows_are_those_of_the_ledgers_time() {
    let world = World::new(vec![limit("l", |spec| {
        spec.amount = Some(50.0);
        spec.window = "day".into();
        spec.time_zone = "Europe/Berlin".into();
    })])
    .await;
    let windows = |world: &World| match world.asked()[0].spec.kind {
        MeterKind::Calendar { windows } => windows,
        other => panic!("{other:?}"),
    };
    let state = world.ask(vec![op("l", 0, "k")]).await.remove(0);
    assert_eq!(state.status(), LeaseStatus::Granted);
    let [present, next] = windows(&world);
    assert_eq!((present.id, present.end_ms), (state.window, next.start_ms));
    assert!((present.start_ms..present.end_ms).contains(&NOW_MS));
    assert_eq!(world.asked()[0].spec.on_expiry, OnExpiry::Hold);
    assert_eq!(world.ledger.script().asked_time, 1);

    // Into the next one: nothing has to be asked again.
    world.ledger.script().now_ms = next.start_ms + 1;
    let state = world.ask(vec![op("l", 0, "k")]).await.remove(0);
    assert_eq!((state.status(), state.window), (LeaseStatus::Granted, next.id));
    assert_eq!(world.ledger.script().leases.len(), 2);

    // Far away, in both directions: once more, with the windows of that time. Only those again.
    for days in [40, 2, 90] {
        let now_ms = NOW_MS + days * 86_400_000;
        world.ledger.script().now_ms = now_ms;
        world.ledger.script().leases.clear();
        let states = world.ask(vec![op("none", 0, "k"), op("l", 0, "k")]).await;
        assert_eq!(states[0].status(), LeaseStatus::UnknownLimit);
        assert_eq!(states[1].status(), LeaseStatus::Granted, "{days}");
        let [present, _] = windows(&world);
        assert!((present.start_ms..present.end_ms).contains(&now_ms));
        assert_eq!(world.ledger.script().leases.len(), 2);
    }
    assert_eq!(world.ledger.script().asked_time, 1, "every answer tells the time");
}

#[tokio::test]
async fn a_window_that_a_lease_names_is_passed_on() {
    let world = World::new(vec![limit("l", |spec| {
        spec.amount = Some(50.0);
        spec.window = "month".into();
    })])
    .await;
    let late = pb::LeaseOp { window: 77, charged: 4, refunded: 1, granted: 9, ..op("l", 0, "k") };
    world.ask(vec![late]).await;
    let asked = &world.asked()[0];
    assert_eq!((asked.window, asked.charged, asked.refunded, asked.granted), (77, 4, 1, 9));
}

#[tokio::test]
async fn what_is_not_there_is_told_beside_what_is() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    let states = world.ask(vec![op("x", 60, "k"), op("l", 60, "k"), op("l", 1, "k")]).await;
    let statuses: Vec<_> = states.iter().map(pb::LeaseState::status).collect();
    assert_eq!(
        statuses,
        [LeaseStatus::UnknownLimit, LeaseStatus::Granted, LeaseStatus::UnknownLimit]
    );
    world.ledger.script().leases.clear();
    world.ask(vec![op("x", 60, "k")]).await;
    assert!(world.ledger.script().leases.is_empty(), "nothing to ask");
}

#[tokio::test]
async fn a_ledger_that_is_away_is_told_at_once() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    world.ledger.script().away = true;
    let states = world.ask(vec![op("l", 60, "k"), op("l", 60, "j")]).await;
    assert!(states.iter().all(|state| state.status() == LeaseStatus::Unavailable), "{states:?}");
    world.ledger.script().away = false;
    assert_eq!(world.ask(vec![op("l", 60, "k")]).await[0].status(), LeaseStatus::Granted);
    world.ledger.script().away = true;
    assert_eq!(world.ask(vec![op("l", 60, "k")]).await[0].status(), LeaseStatus::Unavailable);
}

#[tokio::test]
async fn bad_requests_name_the_field() {
    let world = World::new(vec![limit("l", |spec| spec.rate = "10/minute".into())]).await;
    let good = || op("l", 60, "k");
    let check = async |request: pb::LeaseRequest, expected: &str| {
        let Err(CoreError::Invalid(found)) = world.quota.lease(&request).await else {
            panic!("{expected}: taken")
        };
        assert!(found.0[0].to_string().starts_with(expected), "{}", found.0[0]);
    };
    check(pb::LeaseRequest { node_id: String::new(), ..request(vec![good()]) }, "node_id:").await;
    check(request(vec![good(); 513]), "ops: holds 513").await;
    check(request(vec![pb::LeaseOp { meter: None, ..good() }]), "ops[0].meter: is missing").await;
    check(request(vec![good(), op("", 60, "k")]), "ops[1].meter.limit:").await;
    check(request(vec![op("l", 60, "")]), "ops[0].meter.subject: names nobody").await;
    check(request(vec![op("l", 60, &"x".repeat(9_000))]), "ops[0].meter.subject: is too long")
        .await;
    assert!(world.ledger.script().leases.is_empty());
    // Callers may want more than there is, and nonsense in one meter is no fault of the others.
    let greedy = pb::LeaseOp {
        charged: u64::MAX,
        refunded: u64::MAX,
        granted: u64::MAX,
        wanted: u64::MAX,
        minimum: u64::MAX,
        ..good()
    };
    assert_eq!(world.ask(vec![greedy, good()]).await.len(), 2);
    let asked = world.asked();
    assert_eq!((asked[0].wanted, asked[0].minimum), (MAX_AMOUNT, MAX_AMOUNT));
    assert_eq!((asked[0].charged, asked[0].granted), (MAX_AMOUNT, MAX_AMOUNT));
}
