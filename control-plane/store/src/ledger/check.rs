//! What a ledger does not take.

use jiff::civil::Date;
use sluicegate_protocol::pool::Change;

use super::{Day, LeaseOp, MAX_AMOUNT, MAX_NOTE_BYTES, MAX_NOTE_MS, Note, TotalsQuery, UsageBatch};
use crate::StoreError;

/// Longest text of a meter, in bytes.
const METER_BYTES: usize = 1024;
/// Longest id of a lease, and of a source of usage.
const ID_BYTES: usize = 256;
/// Longest stretch of time that totals are read for at once.
const TOTALS_DAYS: i32 = 1_200;

/// Refuses operations whose texts are empty or too long. `store` is named in the error.
pub(crate) fn leases(store: &'static str, ops: &[LeaseOp]) -> Result<(), StoreError> {
    for op in ops {
        bounded(store, "the text of a meter", &op.meter, METER_BYTES)?;
        bounded(store, "the id of a lease", &op.lease, ID_BYTES)?;
    }
    Ok(())
}

/// Refuses changes of cells whose names cannot be kept.
pub(crate) fn cells(store: &'static str, changes: &[Change]) -> Result<(), StoreError> {
    changes.iter().try_for_each(|change| {
        let key = match change {
            Change::Merge(cell) => &cell.key,
            Change::Clear(clear) => &clear.key,
        };
        let checked = key.clone().checked();
        checked.map(drop).map_err(|fault| StoreError::Refused {
            store,
            reason: format!("a cell of a provider key {fault}"),
        })
    })
}

/// Refuses a note without a name, one that is too large, and one that ends at once or too late.
pub(crate) fn note(store: &'static str, note: &Note) -> Result<(), StoreError> {
    bounded(store, "the name of a note", &note.name, ID_BYTES)?;
    let refused = |reason| Err(StoreError::Refused { store, reason });
    if note.value.len() > MAX_NOTE_BYTES {
        let actual = note.value.len();
        return refused(format!("a note of {actual} bytes is over the limit of {MAX_NOTE_BYTES}"));
    }
    if !(1..=MAX_NOTE_MS).contains(&note.ttl_ms) {
        let ttl_ms = note.ttl_ms;
        return refused(format!("a note lives 1 to {MAX_NOTE_MS} ms, not {ttl_ms}"));
    }
    Ok(())
}

/// Refuses a batch that names no source, no possible day, or numbers out of order.
pub(crate) fn usage(store: &'static str, batch: &UsageBatch) -> Result<(), StoreError> {
    bounded(store, "the source of usage", &batch.source, ID_BYTES)?;
    let UsageBatch { first_seq, last_seq, .. } = *batch;
    if first_seq == 0 || last_seq > MAX_AMOUNT || last_seq < first_seq - 1 {
        let reason = format!("usage events cannot be numbered {first_seq} to {last_seq}");
        return Err(StoreError::Refused { store, reason });
    }
    if last_seq < first_seq && !batch.rows.is_empty() {
        let reason = "a batch of usage without events has counters".to_owned();
        return Err(StoreError::Refused { store, reason });
    }
    batch.rows.iter().try_for_each(|row| date(store, row.day).map(drop))
}

/// The days or, when whole months are asked for, the first days of the months.
pub(crate) fn days(store: &'static str, query: &TotalsQuery) -> Result<Vec<Day>, StoreError> {
    let (from, to) = (date(store, query.from)?, date(store, query.to)?);
    let span = (to - from).get_days();
    if span > TOTALS_DAYS {
        let reason = format!("totals of {span} days are over the limit of {TOTALS_DAYS}");
        return Err(StoreError::Refused { store, reason });
    }
    let (from, step) = if query.monthly {
        (from.first_of_month(), jiff::Span::new().months(1))
    } else {
        (from, jiff::Span::new().days(1))
    };
    let days = from.series(step).take_while(|day| *day <= to);
    Ok(days.map(|day| Day { year: day.year(), month: day.month(), day: day.day() }).collect())
}

/// The first day of the month of this one.
pub(crate) fn month(day: Day) -> Day {
    Day { day: 1, ..day }
}

fn date(store: &'static str, day: Day) -> Result<Date, StoreError> {
    let date = Date::new(day.year, day.month, day.day).ok().filter(|date| date.year() >= 1970);
    date.ok_or_else(|| StoreError::Refused { store, reason: format!("there is no day {day}") })
}

fn bounded(store: &'static str, what: &str, text: &str, limit: usize) -> Result<(), StoreError> {
    if text.is_empty() || text.len() > limit {
        let reason = format!("{what} has {} bytes; 1 to {limit} are taken", text.len());
        return Err(StoreError::Refused { store, reason });
    }
    Ok(())
}
