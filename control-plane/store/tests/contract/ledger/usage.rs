//! Usage is counted once: one function per promise, the same for every ledger.

use sluicegate_store::{
    StoreError,
    ledger::{Counted, Ledger, TotalsQuery, UsageBatch, UsageCounts, UsageNames, UsageRow},
};

use super::fixture::*;

/// What was counted on the day that [`batch`] speaks of.
pub async fn requests(ledger: &dyn Ledger) -> u64 {
    let query = TotalsQuery { from: day(2026, 2, 28), to: day(2026, 2, 28), monthly: false };
    ledger.totals(&query).await.unwrap().iter().map(|row| row.counts.requests).sum()
}

pub async fn batches_are_counted_once_and_in_order<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let jump = |first, last| UsageBatch { nothing_before: true, ..batch("s", first, last) };
    // The batch; counted up to where, to be sent from where, lost, requests counted in all.
    for (step, (batch, expected)) in [
        (batch("s", 1, 0), (0, None, 0, 0)),
        (batch("s", 2, 3), (0, Some(1), 0, 0)),
        (batch("s", 2, 1), (0, Some(1), 0, 0)),
        (batch("s", 1, 3), (3, None, 0, 3)),
        (batch("s", 1, 3), (3, None, 0, 3)),
        (batch("s", 2, 3), (3, None, 0, 3)),
        (batch("s", 4, 3), (3, None, 0, 3)),
        (batch("s", 3, 5), (3, Some(4), 0, 3)),
        (batch("s", 6, 7), (3, Some(4), 0, 3)),
        (batch("s", 6, 5), (3, Some(4), 0, 3)),
        (jump(4, 4), (4, None, 0, 4)),
        (jump(8, 9), (9, None, 3, 6)),
        (jump(8, 9), (9, None, 0, 6)),
        (jump(5, 9), (9, None, 0, 6)),
        (jump(12, 11), (11, None, 2, 6)),
        (jump(12, 11), (11, None, 0, 6)),
        (batch("s", 12, 12), (12, None, 0, 7)),
        (batch("other", 1, 2), (2, None, 0, 9)),
    ]
    .into_iter()
    .enumerate()
    {
        let Counted { applied_through, resend_from, durable, lost, store } =
            l.count(&batch).await.unwrap();
        let counted = requests(l).await;
        assert_eq!((applied_through, resend_from, lost, counted), expected, "step {step}");
        assert!(durable == f.is_durable() && !store.is_empty());
    }
}

pub async fn counters_add_up_by_day_and_month<F: LedgerFixture>() {
    let mut f = F::start().await;
    let odd = UsageNames {
        tenant: "a\u{1f}b\\".into(),
        key: "\\s".into(),
        model: String::new(),
        provider: "\u{e9}|".into(),
        credential: "n".into(),
    };
    let all = UsageCounts {
        requests: 1,
        estimated: 2,
        input_tokens: 3,
        output_tokens: 4,
        cached_tokens: 5,
        reasoning_tokens: 6,
        micro_units: 7,
        cost_nano: 8,
    };
    let jan = UsageRow { day: day(2026, 1, 31), names: odd.clone(), counts: all };
    let rows = |source: &str, first, rows: Vec<UsageRow>| UsageBatch {
        rows,
        ..batch(source, first, first)
    };
    let feb = |requests| row(day(2026, 2, 1), names("t", "m"), requests);
    let batches = [
        rows("s", 1, vec![jan.clone(), feb(1), row(day(2026, 2, 2), names("t", "m"), 5)]),
        rows("s", 2, vec![jan.clone(), feb(2), feb(3)]),
        rows("another", 1, vec![feb(4), row(day(2026, 2, 1), names("t", "n"), 1)]),
    ];
    for batch in &batches {
        f.ledger().count(batch).await.unwrap();
    }
    f.reopen().await;
    let l = f.ledger();
    let twice = UsageCounts {
        requests: 2,
        estimated: 4,
        input_tokens: 6,
        output_tokens: 8,
        cached_tokens: 10,
        reasoning_tokens: 12,
        micro_units: 14,
        cost_nano: 16,
    };
    let january = |day| UsageRow { day, names: odd.clone(), counts: twice };
    let expected = vec![
        january(day(2026, 1, 31)),
        feb(10),
        row(day(2026, 2, 1), names("t", "n"), 1),
        row(day(2026, 2, 2), names("t", "m"), 5),
    ];
    assert_eq!(totals(l, (2026, 1, 31), (2026, 2, 2), false).await, expected);
    assert_eq!(totals(l, (2026, 2, 1), (2026, 2, 1), false).await, expected[1..3]);
    assert_eq!(totals(l, (2026, 2, 2), (2026, 2, 1), false).await, []);
    let expected = vec![
        january(day(2026, 1, 1)),
        row(day(2026, 2, 1), names("t", "m"), 15),
        row(day(2026, 2, 1), names("t", "n"), 1),
    ];
    assert_eq!(totals(l, (2026, 1, 15), (2026, 2, 1), true).await, expected);
    assert_eq!(totals(l, (2026, 2, 28), (2026, 2, 28), true).await, expected[1..]);

    async fn totals(
        l: &dyn Ledger,
        from: (i16, i8, i8),
        to: (i16, i8, i8),
        monthly: bool,
    ) -> Vec<UsageRow> {
        let (from, to) = (day(from.0, from.1, from.2), day(to.0, to.1, to.2));
        let mut rows = l.totals(&TotalsQuery { from, to, monthly }).await.unwrap();
        rows.sort_by(|a, b| (a.day, &a.names).cmp(&(b.day, &b.names)));
        rows
    }
}

pub async fn counters_stay_at_the_end_of_their_range<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    for seq in 1..=3 {
        let mut batch = batch("s", seq, seq);
        batch.rows[0].counts.requests = if seq == 1 { 5 } else { u64::MAX };
        let counted = l.count(&batch).await.unwrap();
        assert_eq!((counted.applied_through, counted.resend_from), (seq, None));
    }
    assert_eq!(requests(l).await, i64::MAX as u64);
}

pub async fn impossible_batches_are_refused<F: LedgerFixture>() {
    let f = F::start().await;
    let l = f.ledger();
    let with = |row: UsageRow| UsageBatch { rows: vec![row], ..batch("s", 1, 1) };
    for wrong in [
        batch("", 1, 1),
        batch(&"s".repeat(257), 1, 1),
        UsageBatch { first_seq: 0, ..batch("s", 1, 1) },
        UsageBatch { last_seq: 3, ..batch("s", 5, 6) },
        UsageBatch { last_seq: u64::MAX, ..batch("s", 5, 6) },
        UsageBatch { last_seq: 0, ..batch("s", 1, 1) },
        with(row(day(2026, 2, 29), names("t", "m"), 1)),
        with(row(day(1969, 1, 1), names("t", "m"), 1)),
    ] {
        let error = l.count(&wrong).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    }
    let query = TotalsQuery { from: day(1990, 1, 1), to: day(2026, 1, 1), monthly: false };
    assert!(matches!(l.totals(&query).await.unwrap_err(), StoreError::Refused { .. }));
    assert_eq!(requests(l).await, 0);
}
