//! What was used: reading it back as asked.

use std::sync::Arc;

use sluicegate_control_core::{CoreError, LedgerClock, usage::query::Totals};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_store::ledger::{Day, TotalsQuery, UsageCounts, UsageNames, UsageRow};

use crate::ledger::Scripted;

/// 2026-09-21, 14:13:20 UTC.
const NOW_MS: u64 = 1_790_000_000_000;

fn day(month: i8, day: i8) -> Day {
    Day { year: 2026, month, day }
}

fn row(day: Day, key: &str, model: &str, tokens: u64) -> UsageRow {
    let names = UsageNames { key: key.into(), model: model.into(), ..UsageNames::default() };
    let counts = UsageCounts {
        requests: 1,
        input_tokens: tokens,
        cost_nano: tokens * 7,
        ..UsageCounts::default()
    };
    UsageRow { day, names, counts }
}

fn world() -> (Arc<Scripted>, Totals) {
    let ledger = Scripted::at(NOW_MS);
    ledger.script().rows = vec![
        row(day(9, 2), "k", "a", 1),
        row(day(9, 1), "k", "b", 2),
        row(day(9, 1), "j", "a", 4),
        row(day(8, 31), "k", "a", 8),
    ];
    let clock = Arc::new(LedgerClock::new(ledger.clone()));
    (ledger.clone(), Totals::new(ledger, clock))
}

fn ask(from: &str, to: &str, group_by: &[&str]) -> pb::QueryUsageRequest {
    pb::QueryUsageRequest {
        from: from.into(),
        to: to.into(),
        group_by: group_by.iter().map(|group| (*group).to_owned()).collect(),
        ..pb::QueryUsageRequest::default()
    }
}

#[tokio::test]
async fn d4_usage_is_added_up_as_asked() {
    let (_, totals) = world();
    let check = async |request: pb::QueryUsageRequest, expected: &[(&str, &str, &str, u64)]| {
        let reply = totals.read(&request).await.unwrap();
        let found: Vec<_> = reply
            .totals
            .iter()
            .map(|one| (&*one.period, &*one.key, &*one.model, one.input_tokens))
            .collect();
        assert_eq!(found, expected, "{request:?}");
        assert!(reply.totals.iter().all(|one| one.cost_nano == one.input_tokens * 7));
    };
    check(ask("", "", &[]), &[("", "", "", 15)]).await;
    check(ask("", "", &["key"]), &[("", "j", "", 4), ("", "k", "", 11)]).await;
    check(
        ask("2026-08-31", "", &["model", "month"]),
        &[("2026-08", "", "a", 8), ("2026-09", "", "a", 5), ("2026-09", "", "b", 2)],
    )
    .await;
    check(
        pb::QueryUsageRequest { key: "k".into(), ..ask("", "", &["day"]) },
        &[("2026-08-31", "", "", 8), ("2026-09-01", "", "", 2), ("2026-09-02", "", "", 1)],
    )
    .await;
    check(pb::QueryUsageRequest { tenant: "t".into(), ..ask("", "", &[]) }, &[]).await;
}

#[tokio::test]
async fn d4_whole_months_are_read_by_month() {
    let (ledger, totals) = world();
    let check = async |request: pb::QueryUsageRequest, from: Day, to: Day, monthly: bool| {
        totals.read(&request).await.unwrap();
        let query = ledger.script().queries.pop().unwrap();
        assert_eq!(query, TotalsQuery { from, to, monthly }, "{request:?}");
    };
    check(ask("", "", &[]), day(9, 21), day(9, 21), false).await;
    check(ask("2026-09-20", "", &[]), day(9, 20), day(9, 21), false).await;
    check(ask("", "2026-02-03", &[]), day(2, 3), day(2, 3), false).await;
    check(ask("2026-07-01", "2026-08-31", &["month"]), day(7, 1), day(8, 31), true).await;
    check(ask("2026-07-01", "2026-08-31", &[]), day(7, 1), day(8, 31), true).await;
    check(ask("2026-07-01", "", &[]), day(7, 1), day(9, 21), true).await;
    check(ask("2026-07-01", "2026-08-30", &["month"]), day(7, 1), day(8, 30), false).await;
    check(ask("2026-07-01", "2026-08-31", &["day", "month"]), day(7, 1), day(8, 31), false).await;
}

#[tokio::test]
async fn bad_questions_name_the_field() {
    let (ledger, totals) = world();
    for (request, expected) in [
        (ask("yesterday", "", &[]), "from: is not a day"),
        (ask("", "2026-02-30", &[]), "to: is not a day"),
        (ask("2026-02-02", "2026-02-01", &[]), "to: comes before from"),
        (ask("2020-02-02", "", &[]), "from: is too long ago"),
        (ask("", "", &["key", "user"]), "group_by[1]: names nothing"),
    ] {
        let Err(CoreError::Invalid(found)) = totals.read(&request).await else {
            panic!("{expected}: taken")
        };
        assert!(found.0[0].to_string().starts_with(expected), "{}", found.0[0]);
    }
    ledger.script().away = true;
    assert!(matches!(totals.read(&ask("", "", &[])).await, Err(CoreError::Store(_))));
}
