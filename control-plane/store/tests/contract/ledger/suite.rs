//! Leases: one function per promise, the same for every ledger.

use sluicegate_store::{
    StoreError,
    ledger::{CalendarWindow, LeaseOp, LeaseStatus::*, MAX_AMOUNT, MeterKind, MeterSpec, OnExpiry},
};

use super::fixture::*;

pub async fn grants_partly_and_denies<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(MeterKind::Sliding { window_ms: HOUR }, 100);
    let a = expect(apply(l, op("m", s, "a", 1, 60)).await, Granted, 60);
    assert_eq!((a.used, a.reserved, a.holders, a.retry_ms), (0, 60, 1, 0));
    let b = expect(apply(l, op("m", s, "b", 1, 60)).await, Partial, 40);
    assert_eq!((b.reserved, b.holders, b.only_reserved), (100, 2, true));
    let c = expect(apply(l, op("m", s, "c", 1, 1)).await, Denied, 0);
    assert!(c.only_reserved && c.retry_ms > 0, "{c:?}");
    // Another meter has nothing to do with it.
    expect(apply(l, op("m2", s, "a", 1, 60)).await, Granted, 60);

    // All of a batch, in turn.
    let give_back = LeaseOp { granted: 60, ..op("m", s, "a", 2, 20) };
    let states = l.lease(&[give_back, op("m", s, "c", 2, 50)]).await.unwrap();
    expect(states[0], Granted, 20);
    expect(states[1], Partial, 40);
    assert_eq!(l.lease(&[]).await.unwrap(), []);
}

pub async fn a_minimum_is_all_or_nothing<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(MeterKind::Sliding { window_ms: HOUR }, 100);
    let with = |lease, seq, wanted, minimum| LeaseOp { minimum, ..op("m", s, lease, seq, wanted) };
    expect(apply(l, with("a", 1, 70, 70)).await, Granted, 70);
    let denied = expect(apply(l, with("b", 1, 50, 31)).await, Denied, 0);
    assert!(denied.only_reserved && denied.retry_ms > 0);
    expect(apply(l, with("b", 2, 50, 30)).await, Partial, 30);
    // A capacity that is lowered below what is out gives nothing, and takes nothing.
    let lower = spec(MeterKind::Sliding { window_ms: HOUR }, 50);
    let state = expect(apply(l, op("m", lower, "c", 1, 1)).await, Denied, 0);
    assert_eq!((state.reserved, state.only_reserved), (100, true));
}

pub async fn charges_move_from_reserved_to_used<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(around(l.now_ms().await.unwrap(), 7), 100);
    let say = |seq, charged, granted, wanted| LeaseOp {
        charged,
        granted,
        ..op("m", s, "a", seq, wanted)
    };
    let opened = expect(apply(l, op("m", s, "a", 1, 50)).await, Granted, 50);
    assert_eq!(opened.window, 7);
    assert!(opened.window_left_ms <= HOUR && opened.window_left_ms > HOUR - 60_000);
    let state = apply(l, say(2, 30, 50, 50)).await;
    assert_eq!((state.used, state.reserved), (30, 20));
    // It cannot give back what it has charged.
    let state = expect(apply(l, say(3, 30, 50, 10)).await, Granted, 30);
    assert_eq!((state.used, state.reserved), (30, 0));
    // Charged beyond the grant counts all the same.
    let state = expect(apply(l, say(4, 45, 30, 30)).await, Granted, 45);
    assert_eq!((state.used, state.reserved), (45, 0));
    // Taken back, in all 20.
    let refund = |seq, refunded| LeaseOp { refunded, ..say(seq, 45, 45, 45) };
    assert_eq!(apply(l, refund(5, 15)).await.used, 30);
    assert_eq!(apply(l, refund(6, 20)).await.used, 25);
    let state = expect(apply(l, LeaseOp { close: true, ..refund(7, 20) }).await, Granted, 45);
    assert_eq!((state.used, state.reserved, state.holders), (25, 0, 0));
    // Late words count, and the lease stays closed.
    let late = |seq, charged| LeaseOp { refunded: 21, charged, ..op("m", s, "a", seq, 99) };
    let state = expect(apply(l, late(8, 50)).await, Expired, 50);
    assert_eq!((state.used, state.reserved, state.holders), (29, 0, 0));
}

pub async fn repeating_and_reordering_change_nothing<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(around(l.now_ms().await.unwrap(), 7), 100);
    let steps = [
        op("m", s, "a", 1, 60),
        op("m", s, "b", 1, 60),
        LeaseOp { charged: 25, granted: 60, ..op("m", s, "a", 2, 80) },
        LeaseOp { charged: 30, granted: 60, refunded: 5, ..op("m", s, "a", 3, 35) },
        LeaseOp { charged: 11, granted: 40, ..op("m", s, "b", 2, 60) },
        LeaseOp { charged: 33, granted: 35, refunded: 5, close: true, ..op("m", s, "a", 4, 0) },
        LeaseOp { charged: 40, granted: 35, refunded: 9, ..op("m", s, "a", 5, 0) },
    ];
    let same = |a: sluicegate_store::ledger::LeaseState| {
        (a.status, a.granted, a.used, a.reserved, a.holders, a.only_reserved)
    };
    for (n, step) in steps.iter().enumerate() {
        let first = same(apply(l, step.clone()).await);
        assert_eq!(same(apply(l, step.clone()).await), first, "step {n} twice");
        // Copies of everything before, newest first and oldest first.
        for stale in steps[..n].iter().rev().chain(&steps[..n]) {
            if stale.lease == step.lease {
                let state = apply(l, stale.clone()).await;
                let status = if n == 6 && stale.seq == 4 { Granted } else { Overtaken };
                assert_eq!(state.status, status, "step {n}, stale {stale:?}");
            }
            assert_eq!(same(apply(l, step.clone()).await), first, "step {n} after a stale copy");
        }
    }
}

pub async fn a_lease_that_the_store_lost_is_believed<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let now_ms = l.now_ms().await.unwrap();
    // What a rate let through earlier has drained in part; what a budget spent is spent.
    check(l, spec(MeterKind::Sliding { window_ms: HOUR }, 100), 100).await;
    check(l, spec(bucket(1, HOUR), 100), 100).await;
    check(l, spec(around(now_ms, 3), 100), 155).await;

    async fn check(l: &dyn sluicegate_store::ledger::Ledger, s: MeterSpec, used: u64) {
        let meter = format!("{:?}", s.kind);
        let lost = |lease, granted, charged, refunded| LeaseOp {
            granted,
            charged,
            refunded,
            ..op(&meter, s, lease, 9, granted)
        };
        let state = expect(apply(l, lost("a", 50, 20, 5)).await, Granted, 50);
        assert_eq!((state.used, state.reserved, state.holders), (15, 30, 1));
        // Never opened as far as the store knows, and over the capacity.
        let state = expect(apply(l, lost("b", 150, 140, 0)).await, Granted, 150);
        assert_eq!((state.used, state.reserved), (used, 40));
        let close = LeaseOp { close: true, ..lost("c", 30, 0, 0) };
        let state = expect(apply(l, close).await, Granted, 30);
        assert_eq!((state.used, state.reserved, state.holders), (used, 40, 2));
        // A grant of which only the store has not heard.
        let state =
            expect(apply(l, LeaseOp { seq: 10, ..lost("a", 70, 20, 5) }).await, Granted, 70);
        assert_eq!(state.reserved, 60);
    }
}

pub async fn a_bucket_drains<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    // One every 5 ms, 20 at once.
    let s = spec(bucket(200, 1_000), 20);
    let full = LeaseOp { charged: 20, granted: 20, ..op("m", s, "a", 1, 20) };
    let state = apply(l, full).await;
    assert!((19..=20).contains(&state.used), "{state:?}");
    assert!(state.reset_ms <= 100 && state.reset_ms > 90);
    let wants = |seq, minimum| LeaseOp { minimum, ..op("m", s, "b", seq, minimum) };
    let denied = apply(l, wants(1, 10)).await;
    expect(denied, Denied, 0);
    assert!(denied.retry_ms > 0 && denied.retry_ms <= 50 && !denied.only_reserved, "{denied:?}");
    // It says truly when.
    past(l, denied.now_ms + denied.retry_ms - 1).await;
    expect(apply(l, wants(2, 10)).await, Granted, 10);
    past(l, state.now_ms + state.reset_ms).await;
    let state = apply(l, op("m", s, "b", 3, 0)).await;
    assert_eq!((state.used, state.reset_ms, state.reserved), (0, 0, 0));
}

pub async fn a_sliding_window_slides<F: LedgerFixture>() {
    const W: u64 = 400;
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(MeterKind::Sliding { window_ms: W }, 100);
    // In the first half of a window, so that the test is in one window for a while.
    let now = l.now_ms().await.unwrap();
    past(l, now - now % W + W).await;
    let used = |charged| LeaseOp { charged, granted: 100, ..op("m", s, "a", 1, 100) };
    let state = apply(l, used(100)).await;
    assert_eq!(state.used, 100);
    let start = state.now_ms - state.now_ms % W;
    assert_eq!(state.reset_ms, start + 2 * W - state.now_ms);
    let wants = |seq| LeaseOp { minimum: 50, ..op("m", s, "b", seq, 50) };
    let denied = expect(apply(l, wants(1)).await, Denied, 0);
    let free_at = start + W + W / 2;
    assert_eq!(denied.now_ms + denied.retry_ms, free_at, "{denied:?}");
    past(l, start + W).await;
    let state = apply(l, LeaseOp { charged: 100, granted: 100, ..op("m", s, "a", 2, 100) }).await;
    assert!(state.used > 50 && state.used <= 100, "{state:?}");
    past(l, free_at - 1).await;
    expect(apply(l, wants(2)).await, Granted, 50);
    past(l, start + 2 * W).await;
    let state = apply(l, LeaseOp { granted: 50, ..op("m", s, "b", 3, 0) }).await;
    assert_eq!((state.used, state.reset_ms), (0, 0));
}

pub async fn calendar_windows_only_go_forward<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let now = l.now_ms().await.unwrap();
    let windows = |id, at_ms: u64, length: u64| MeterKind::Calendar {
        windows: [
            CalendarWindow { id, start_ms: at_ms, end_ms: at_ms + length },
            CalendarWindow { id: id + 1, start_ms: at_ms + length, end_ms: at_ms + HOUR },
        ],
    };
    let hold = |kind| MeterSpec { on_expiry: OnExpiry::Hold, ..spec(kind, 100) };
    // The times given are both wrong.
    let ahead = hold(windows(5, now + HOUR, 1_000));
    let state = expect(apply(l, op("m", ahead, "a", 1, 50)).await, OtherWindow, 0);
    assert!(state.now_ms >= now && l.meters("", 9).await.unwrap().is_empty());

    let turn = now + 300;
    let s = hold(windows(5, turn - 1_000, 1_000));
    let state = expect(apply(l, op("m", s, "a", 1, 50)).await, Granted, 50);
    assert_eq!(state.window, 5);
    let in_window =
        |seq, window| LeaseOp { window, granted: 50, charged: 10, ..op("m", s, "a", seq, 60) };
    expect(apply(l, in_window(2, 5)).await, Granted, 60);
    expect(apply(l, in_window(3, 4)).await, WindowOver, 0);
    past(l, turn).await;
    // Neither its charge nor its reservation reaches the new one.
    let state = expect(apply(l, in_window(4, 5)).await, WindowOver, 0);
    assert_eq!((state.window, state.used, state.reserved, state.holders), (6, 0, 0, 0));
    let state = expect(apply(l, op("m", s, "b", 1, 100)).await, Granted, 100);
    assert_eq!((state.window, state.reserved), (6, 100));
    // A replica that thinks it is still the window before does not reopen it.
    let behind = hold(windows(5, now - 1_000, HOUR));
    let state = expect(apply(l, op("m", behind, "c", 1, 1)).await, Denied, 0);
    assert_eq!((state.window, state.reserved), (6, 100));
    expect(apply(l, LeaseOp { window: 5, ..op("m", behind, "d", 1, 1) }).await, WindowOver, 0);
}

pub async fn slots_come_back_by_themselves<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = MeterSpec { ttl_ms: 150, ..spec(MeterKind::Slots, 2) };
    let opened = expect(apply(l, op("m", s, "a", 1, 2)).await, Granted, 2);
    let denied = expect(apply(l, op("m", s, "b", 1, 1)).await, Denied, 0);
    assert_eq!((denied.retry_ms, denied.reset_ms, denied.only_reserved), (1_000, 0, true));
    // Nothing is ever charged.
    let state = apply(l, LeaseOp { charged: 2, granted: 2, ..op("m", s, "a", 2, 2) }).await;
    assert_eq!((state.used, state.reserved), (0, 2));
    past(l, state.now_ms + 150).await;
    assert!(state.now_ms >= opened.now_ms);
    let state = expect(apply(l, op("m", s, "c", 1, 2)).await, Granted, 2);
    assert_eq!((state.reserved, state.holders), (2, 1));
    expect(apply(l, LeaseOp { granted: 2, ..op("m", s, "a", 3, 2) }).await, Expired, 2);
}

pub async fn what_expires_is_returned_or_held<F: LedgerFixture>() {
    const TTL: u64 = 150;
    let f = F::start().await;
    let l = f.ledger();
    check(l, OnExpiry::Return, 0).await;
    check(l, OnExpiry::Hold, 40).await;

    async fn check(l: &dyn sluicegate_store::ledger::Ledger, on_expiry: OnExpiry, held: u64) {
        let now = l.now_ms().await.unwrap();
        let s = MeterSpec { on_expiry, ttl_ms: TTL, ..spec(around(now, 1), 100) };
        let meter = format!("{on_expiry:?}");
        let a = |seq, charged| LeaseOp { charged, granted: 50, ..op(&meter, s, "a", seq, 50) };
        let live = |seq| LeaseOp { granted: 10, ..op(&meter, s, "b", seq, 10) };
        expect(apply(l, op(&meter, s, "a", 1, 50)).await, Granted, 50);
        let mut seq = 1;
        let opened = apply(l, a(2, 10)).await;
        // Refreshed, a lease lives on beyond its time.
        while l.now_ms().await.unwrap() <= opened.now_ms + TTL {
            seq += 1;
            expect(apply(l, live(seq)).await, Granted, 10);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let state = expect(apply(l, live(seq + 1)).await, Granted, 10);
        assert_eq!((state.used, state.reserved, state.holders), (10, held + 10, 1));
        // What was charged counts when it is told, and the lease is over for good.
        let state = expect(apply(l, a(3, 25)).await, Expired, 50);
        assert_eq!((state.used, state.reserved), (25, held.saturating_sub(15) + 10));
        let state = apply(l, LeaseOp { close: true, ..a(4, 30) }).await;
        assert_eq!(state.status, if held > 0 { Granted } else { Expired });
        assert_eq!((state.used, state.reserved, state.holders), (30, 10, 1));
    }
}

pub async fn meters_are_there_to_be_looked_at<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(MeterKind::Sliding { window_ms: HOUR }, 100);
    for (meter, charged) in [("a/1", 5), ("a/2", 0), ("b*", 7)] {
        let used = LeaseOp { charged, granted: 20, ..op(meter, s, "x", 1, 30) };
        apply(l, used).await;
    }
    let views = l.meters("a/", 10).await.unwrap();
    let texts: Vec<&str> = views.iter().map(|view| view.meter.as_str()).collect();
    assert_eq!(texts, ["a/1", "a/2"]);
    let view = &views[0];
    assert_eq!((view.capacity, view.used, view.reserved, view.holders), (100, 5, 25, 1));
    assert!(view.reset_ms > HOUR - 1_000 && view.reset_ms <= 2 * HOUR);
    assert_eq!(l.meters("", 2).await.unwrap().len(), 2);
    assert_eq!(l.meters("c", 2).await.unwrap(), []);

    // One that has drained since.
    let quick = spec(bucket(1_000, 100), 10);
    let state = apply(l, LeaseOp { charged: 10, granted: 10, ..op("q", quick, "x", 1, 10) }).await;
    past(l, state.now_ms + 2).await;
    assert_eq!(l.meters("q", 1).await.unwrap()[0].used, 0);
}

pub async fn a_meter_may_change_its_kind<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let now = l.now_ms().await.unwrap();
    let kinds = [
        MeterKind::Sliding { window_ms: HOUR },
        MeterKind::Sliding { window_ms: 10 * HOUR },
        around(now, 2),
        bucket(1, HOUR),
        MeterKind::Slots,
        around(now, 1),
        MeterKind::Sliding { window_ms: 1_000 },
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        // What was used under other rules is not carried over.
        let lease = n.to_string();
        let state = apply(l, op("m", spec(kind, 100), &lease, 1, 0)).await;
        assert_eq!((state.status, state.used), (Granted, 0), "{kind:?}");
        let charge =
            LeaseOp { charged: 50, granted: 50, ..op("m", spec(kind, 100), &lease, 2, 50) };
        let used = if kind == MeterKind::Slots { 0 } else { 50 };
        assert_eq!(apply(l, charge).await.used, used, "{kind:?}");
    }
}

pub async fn amounts_are_exact_and_bounded<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let s = spec(around(l.now_ms().await.unwrap(), 1), MAX_AMOUNT);
    let state = apply(l, op("m", s, "a", 1, MAX_AMOUNT - 1)).await;
    assert_eq!((state.granted, state.reserved), (MAX_AMOUNT - 1, MAX_AMOUNT - 1));
    let charged = MAX_AMOUNT - 3;
    let report = LeaseOp { charged, granted: MAX_AMOUNT - 1, ..op("m", s, "a", 2, MAX_AMOUNT) };
    let state = expect(apply(l, report).await, Granted, MAX_AMOUNT);
    assert_eq!((state.used, state.reserved), (MAX_AMOUNT - 3, 3));
    let refund = LeaseOp {
        charged,
        refunded: charged - 1,
        granted: MAX_AMOUNT,
        ..op("m", s, "a", 3, MAX_AMOUNT)
    };
    assert_eq!(apply(l, refund).await.used, 1);
    // More than there is counts as the most there is.
    let all = LeaseOp { charged: u64::MAX, granted: u64::MAX, ..op("m", s, "b", u64::MAX, 0) };
    let state = apply(l, all).await;
    assert_eq!((state.granted, state.used), (MAX_AMOUNT, MAX_AMOUNT + 1));

    for wrong in [
        op("", s, "a", 1, 1),
        op(&"m".repeat(1_025), s, "a", 1, 1),
        op("m", s, "", 1, 1),
        op("m", s, &"l".repeat(257), 1, 1),
    ] {
        let error = l.lease(&[wrong]).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    }
    apply(l, op(&"m".repeat(1_024), s, &"l".repeat(256), 1, 1)).await;
}

pub async fn meters_outlive_the_process<F: LedgerFixture>() {
    let mut f = F::start().await;
    let s = spec(around(f.ledger().now_ms().await.unwrap(), 1), 100);
    apply(f.ledger(), op("m", s, "a", 1, 60)).await;
    let report = LeaseOp { charged: 20, refunded: 5, granted: 60, ..op("m", s, "a", 2, 60) };
    let before = apply(f.ledger(), report.clone()).await;
    f.reopen().await;
    let l = f.ledger();
    let after = expect(apply(l, LeaseOp { seq: 3, ..report.clone() }).await, Granted, 60);
    assert_eq!((after.used, after.reserved, after.holders), (15, 40, 1));
    assert!(after.now_ms >= before.now_ms);
    expect(apply(l, report).await, Overtaken, 60);
    expect(apply(l, op("m", s, "b", 1, 60)).await, Partial, 45);
}
