//! Days of the calendar in UTC.

use jiff::{Timestamp, civil::Date, tz::Offset};
use sluicegate_store::ledger::Day;

/// The day of a time in milliseconds since the Unix epoch; a time beyond all calendars is 1970.
pub(super) fn of(unix_ms: u64) -> Day {
    let at = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    day(Offset::UTC.to_datetime(at.unwrap_or(Timestamp::UNIX_EPOCH)).date())
}

/// Reads `2026-11-30`.
pub(super) fn parse(text: &str) -> Option<Day> {
    // Calendars of other forms parse too; only this one is meant.
    let plain = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    text.parse::<Date>().ok().filter(|_| plain).map(day)
}

/// The last day of a day's month.
pub(super) fn end_of_month(of: Day) -> Day {
    date(of).map_or(of, |date| day(date.last_of_month()))
}

/// Days from one to another, both included; `None` when the second comes first.
pub(super) fn between(from: Day, to: Day) -> Option<u64> {
    let span = date(from)?.until(date(to)?).ok()?;
    u64::try_from(span.get_days()).ok().map(|days| days + 1)
}

fn date(day: Day) -> Option<Date> {
    Date::new(day.year, day.month, day.day).ok()
}

fn day(date: Date) -> Day {
    Day { year: date.year(), month: date.month(), day: date.day() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        let day = |text: &str| parse(text).unwrap();
        assert_eq!(of(1_790_035_200_000), day("2026-09-22"));
        assert_eq!(of(1_790_035_199_999), day("2026-09-21"));
        assert_eq!(of(u64::MAX), day("1970-01-01"));
        assert_eq!(end_of_month(day("2028-02-03")), day("2028-02-29"));
        assert_eq!(between(day("2026-12-31"), day("2027-01-01")), Some(2));
        assert_eq!(between(day("2027-01-01"), day("2026-12-31")), None);
        assert_eq!(between(day("2026-01-01"), day("2027-01-01")), Some(366));
        for bad in ["", "2026-13-01", "2026-02-30", "20260101", "2026-1-1", "-00001-1-1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
