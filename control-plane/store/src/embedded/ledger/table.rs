//! The ledger's part of the file. The tables are made when a ledger is opened for the first time.

use std::collections::HashMap;

use redb::{Durability, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::codec;
use crate::{
    embedded::table::COUNTERS,
    ledger::{
        Counted, Day, TotalsQuery, UsageBatch, UsageCounts, UsageRow, check,
        meter::Meter,
        usage::{COUNTERS as NUMBERS, add, join, split},
    },
};

/// The latest state of every meter.
const METERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("ledger_meters");
/// How far the events of a source are counted, and when one was.
const CURSORS: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("ledger_cursors");
/// Counters by day, as `YYYY-MM-DD`, and names.
const DAYS: TableDefinition<'_, UsageKey<'_>, Numbers> = TableDefinition::new("ledger_days");
/// Counters by month, as `YYYY-MM`, and names.
const MONTHS: TableDefinition<'_, UsageKey<'_>, Numbers> = TableDefinition::new("ledger_months");

type UsageKey<'a> = (&'a str, &'a str);
type Numbers = [u64; NUMBERS];

/// 1 while a process has the ledger open.
const OPEN: &str = "ledger_open";
/// The newest time that was seen.
const TIME: &str = "ledger_time_ms";

const DAY_MS: u64 = 86_400_000;
const CURSOR_KEPT_MS: u64 = 30 * DAY_MS;
const DAYS_KEPT: u64 = 400;
const MONTHS_KEPT_DAYS: u64 = 800;

/// What a ledger finds in its file.
#[derive(Default)]
pub(super) struct Found {
    pub(super) meters: HashMap<String, Meter>,
    /// Meters that cannot be read.
    pub(super) unreadable: Vec<String>,
    pub(super) time_ms: u64,
    /// The process before did not close it.
    pub(super) crashed: bool,
}

/// Reads everything, makes the tables, and notes that the ledger is open.
pub(super) fn open(mut txn: WriteTransaction) -> Result<Found, redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    let mut found = Found::default();
    {
        txn.open_table(CURSORS)?;
        txn.open_table(DAYS)?;
        txn.open_table(MONTHS)?;
        for row in txn.open_table(METERS)?.iter()? {
            let (text, bytes) = row?;
            match codec::decode(bytes.value()) {
                Some(meter) => drop(found.meters.insert(text.value().to_owned(), meter)),
                None => found.unreadable.push(text.value().to_owned()),
            }
        }
        let mut counters = txn.open_table(COUNTERS)?;
        found.time_ms = counters.get(TIME)?.map_or(0, |time| time.value());
        found.crashed = counters.insert(OPEN, 1)?.is_some_and(|open| open.value() != 0);
    }
    txn.commit()?;
    Ok(found)
}

/// Writes meters; those without bytes are removed. `close` notes that nothing more is written.
pub(super) fn write_meters(
    mut txn: WriteTransaction,
    meters: &[(String, Option<Vec<u8>>)],
    time_ms: u64,
    close: bool,
) -> Result<(), redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    {
        let mut table = txn.open_table(METERS)?;
        for (text, bytes) in meters {
            match bytes {
                Some(bytes) => drop(table.insert(text.as_str(), bytes.as_slice())?),
                None => drop(table.remove(text.as_str())?),
            }
        }
        let mut counters = txn.open_table(COUNTERS)?;
        counters.insert(TIME, time_ms)?;
        if close {
            counters.insert(OPEN, 0)?;
        }
    }
    txn.commit()?;
    Ok(())
}

/// Counts a batch durably, unless it was counted. `store` is passed on.
pub(super) fn count(
    mut txn: WriteTransaction,
    batch: &UsageBatch,
    now_ms: u64,
    store: String,
) -> Result<Counted, redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    let source = batch.source.as_str();
    let mut counted =
        Counted { applied_through: 0, resend_from: None, durable: true, lost: 0, store };
    {
        let mut cursors = txn.open_table(CURSORS)?;
        let mut cursor = cursors.get(source)?.map_or(0, |row| row.value().0);
        let before = batch.first_seq - 1;
        if before > cursor && batch.nothing_before {
            counted.lost = before - cursor;
            cursor = before;
        }
        if batch.last_seq > cursor {
            if before == cursor {
                add_rows(&txn, batch)?;
                cursor = batch.last_seq;
            } else {
                counted.resend_from = Some(cursor + 1);
            }
        }
        counted.applied_through = cursor;
        if cursor > 0 && counted.resend_from.is_none() {
            cursors.insert(source, (cursor, now_ms))?;
        }
    }
    if counted.resend_from.is_some() {
        txn.abort()?
    } else {
        txn.commit()?
    }
    Ok(counted)
}

fn add_rows(txn: &WriteTransaction, batch: &UsageBatch) -> Result<(), redb::Error> {
    let mut days = txn.open_table(DAYS)?;
    let mut months = txn.open_table(MONTHS)?;
    for row in &batch.rows {
        let (names, counts) = (join(&row.names), row.counts.to_array());
        add_row(&mut days, (&day_key(row.day), &names), counts)?;
        add_row(&mut months, (&month_key(row.day), &names), counts)?;
    }
    Ok(())
}

fn add_row(
    table: &mut Table<'_, UsageKey<'static>, Numbers>,
    key: UsageKey<'_>,
    more: Numbers,
) -> Result<(), redb::Error> {
    let mut sum = table.get(key)?.map_or([0; NUMBERS], |row| row.value());
    add(&mut sum, more);
    table.insert(key, sum)?;
    Ok(())
}

fn day_key(day: Day) -> String {
    day.to_string()
}

fn month_key(day: Day) -> String {
    format!("{:04}-{:02}", day.year, day.month)
}

/// Reads the counters of these days, or of the months that begin with them.
pub(super) fn totals(
    txn: &redb::ReadTransaction,
    query: &TotalsQuery,
    days: &[Day],
) -> Result<Vec<UsageRow>, redb::Error> {
    let table = txn.open_table(if query.monthly { MONTHS } else { DAYS })?;
    let key = if query.monthly { month_key } else { day_key };
    let mut rows = Vec::new();
    for day in days {
        let wanted = key(*day);
        for row in table.range((wanted.as_str(), "")..)? {
            let (at, counts) = row?;
            let (found, joined) = at.value();
            if found != wanted {
                break;
            }
            let Some((names, _)) = split(joined) else { continue };
            let day = if query.monthly { check::month(*day) } else { *day };
            rows.push(UsageRow { day, names, counts: UsageCounts::from_array(counts.value()) });
        }
    }
    Ok(rows)
}

/// Drops counters and cursors that have been kept long enough.
pub(super) fn forget(txn: WriteTransaction, now_ms: u64) -> Result<(), redb::Error> {
    let before = |days: u64| {
        let stamp =
            sluicegate_telemetry::clock::format_unix_ms(now_ms.saturating_sub(days * DAY_MS));
        stamp.chars().take(10).collect::<String>()
    };
    {
        let oldest = before(DAYS_KEPT);
        txn.open_table(DAYS)?.retain_in(..(oldest.as_str(), ""), |_, _| false)?;
        let oldest: String = before(MONTHS_KEPT_DAYS).chars().take(7).collect();
        txn.open_table(MONTHS)?.retain_in(..(oldest.as_str(), ""), |_, _| false)?;
        txn.open_table(CURSORS)?
            .retain(|_, (_, counted_ms)| counted_ms.saturating_add(CURSOR_KEPT_MS) > now_ms)?;
    }
    txn.commit()?;
    Ok(())
}
