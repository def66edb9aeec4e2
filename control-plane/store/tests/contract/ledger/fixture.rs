//! What the suite needs to know about a ledger that it tests.

use std::time::Duration;

use async_trait::async_trait;
use sluicegate_store::ledger::{
    CalendarWindow, Day, LeaseOp, LeaseState, LeaseStatus, Ledger, LedgerHealth, MeterKind,
    MeterSpec, OnExpiry, UsageBatch, UsageCounts, UsageNames, UsageRow,
};
use tokio::time::{sleep, timeout};

/// Nothing that is going to happen takes longer.
pub const SOON: Duration = Duration::from_secs(15);
/// A time to live that does not end during a test.
pub const LONG: u64 = 600_000;
pub const HOUR: u64 = 3_600_000;

/// A ledger and the power over what it stands on.
#[async_trait]
pub trait LedgerFixture: Send + Sync {
    /// A fresh ledger.
    async fn start() -> Self
    where
        Self: Sized;

    fn ledger(&self) -> &dyn Ledger;

    /// As after a restart of our process.
    async fn reopen(&mut self);

    /// Puts a value among the cells of provider keys, behind the ledger's back, and opens it again.
    async fn plant(&mut self, field: &str, value: &str);

    /// What is counted survives a crash of the store.
    fn is_durable(&self) -> bool;
}

pub fn spec(kind: MeterKind, capacity: u64) -> MeterSpec {
    MeterSpec { kind, capacity, on_expiry: OnExpiry::Return, ttl_ms: LONG }
}

pub fn bucket(amount: u64, window_ms: u64) -> MeterKind {
    MeterKind::Bucket { amount, window_ms }
}

/// The calendar window that began an hour before `now_ms` and ends in an hour, and the next one.
pub fn around(now_ms: u64, id: u64) -> MeterKind {
    let middle = now_ms + HOUR;
    MeterKind::Calendar {
        windows: [
            CalendarWindow { id, start_ms: now_ms - HOUR, end_ms: middle },
            CalendarWindow { id: id + 1, start_ms: middle, end_ms: middle + HOUR },
        ],
    }
}

/// An operation of a lease that holds nothing.
pub fn op(meter: &str, spec: MeterSpec, lease: &str, seq: u64, wanted: u64) -> LeaseOp {
    LeaseOp {
        meter: meter.to_owned(),
        spec,
        lease: lease.to_owned(),
        seq,
        charged: 0,
        refunded: 0,
        granted: 0,
        wanted,
        minimum: 0,
        close: false,
        window: 0,
    }
}

pub async fn apply(ledger: &dyn Ledger, op: LeaseOp) -> LeaseState {
    let mut states = ledger.lease(&[op]).await.unwrap();
    assert_eq!(states.len(), 1);
    states.remove(0)
}

/// Does the operation and expects this status and this grant.
#[track_caller]
pub fn expect(state: LeaseState, status: LeaseStatus, granted: u64) -> LeaseState {
    assert_eq!((state.status, state.granted), (status, granted), "{state:?}");
    state
}

/// Waits until the store's time is past this one.
pub async fn past(ledger: &dyn Ledger, ms: u64) {
    let waiting = async {
        while ledger.now_ms().await.unwrap() <= ms {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, waiting).await.expect("time passes");
}

/// Waits until the ledger says this of itself.
pub async fn becomes(ledger: &dyn Ledger, wanted: impl Fn(&LedgerHealth) -> bool) {
    let mut health = ledger.health();
    let waited = timeout(SOON, health.wait_for(wanted)).await;
    drop(waited.expect("in time").expect("the ledger is there"));
}

pub fn day(year: i16, month: i8, day: i8) -> Day {
    Day { year, month, day }
}

pub fn names(tenant: &str, model: &str) -> UsageNames {
    UsageNames { tenant: tenant.into(), model: model.into(), ..UsageNames::default() }
}

pub fn row(day: Day, names: UsageNames, requests: u64) -> UsageRow {
    let counts = UsageCounts {
        requests,
        input_tokens: 10 * requests,
        cost_nano: 7 * requests,
        ..UsageCounts::default()
    };
    UsageRow { day, names, counts }
}

/// Events `first..=last`, each of one request on one day.
pub fn batch(source: &str, first: u64, last: u64) -> UsageBatch {
    let events = (last + 1).saturating_sub(first);
    let rows = [row(day(2026, 2, 28), names("t", "m"), events)];
    UsageBatch {
        source: source.to_owned(),
        first_seq: first,
        last_seq: last,
        nothing_before: false,
        rows: rows.into_iter().filter(|_| events > 0).collect(),
    }
}
