//! Windows of the calendar in a time zone. Which instant it is, the caller says.

use jiff::{Timestamp, ToSpan, ZonedDateTime, tz::TimeZone};

/// Length of a calendar window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Hour,
    Day,
    /// From Monday on.
    Week,
    Month,
}

impl Period {
    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Hour, Self::Day, Self::Week, Self::Month]
            .into_iter()
            .find(|period| period.name() == text)
    }

    /// The window that holds an instant: its first and the next one's first millisecond since the
    /// Unix epoch. `None` beyond what calendars know.
    pub fn around(self, zone: &TimeZone, unix_ms: u64) -> Option<(u64, u64)> {
        let at = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        let at = at.to_zoned_datetime(zone.clone());
        let start = self.start(&at)?;
        let next = match self {
            // Clocks that jump make hours of other lengths; an hour is 3600 seconds nevertheless.
            Self::Hour => start.checked_add(1.hour()).ok()?,
            Self::Day => start.date().tomorrow().ok()?.to_zoned_datetime(zone.clone()).ok()?,
            Self::Week => {
                start.date().checked_add(1.week()).ok()?.to_zoned_datetime(zone.clone()).ok()?
            }
            Self::Month => {
                start.date().checked_add(1.month()).ok()?.to_zoned_datetime(zone.clone()).ok()?
            }
        };
        Some((ms(&start)?, ms(&next)?))
    }

    fn start(self, at: &ZonedDateTime) -> Option<ZonedDateTime> {
        match self {
            Self::Hour => at.with().minute(0).second(0).subsec_nanosecond(0).build().ok(),
            Self::Day => at.start_of_day().ok(),
            Self::Week => {
                let back = i64::from(at.weekday().to_monday_zero_offset());
                at.date()
                    .checked_sub(back.days())
                    .ok()?
                    .to_zoned_datetime(at.time_zone().clone())
                    .ok()
            }
            Self::Month => at.first_of_month().ok()?.start_of_day().ok(),
        }
    }
}

fn ms(at: &ZonedDateTime) -> Option<u64> {
    u64::try_from(at.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(period: Period, zone: &str, at: &str) -> (String, String) {
        let zone = TimeZone::get(zone).unwrap();
        let at: Timestamp = at.parse().unwrap();
        let (start, end) = period.around(&zone, at.as_millisecond().unsigned_abs()).unwrap();
        let shown = |ms: u64| Timestamp::from_millisecond(ms as i64).unwrap().to_string();
        (shown(start), shown(end))
    }

    #[test]
    fn windows_of_the_calendar() {
        check(
            Period::Day,
            "UTC",
            "2026-11-30T12:00:00Z",
            "2026-11-30T00:00:00Z",
            "2026-12-01T00:00:00Z",
        );
        check(
            Period::Month,
            "UTC",
            "2026-11-30T12:00:00Z",
            "2026-11-01T00:00:00Z",
            "2026-12-01T00:00:00Z",
        );
        check(
            Period::Week,
            "UTC",
            "2026-12-02T12:00:00Z",
            "2026-11-30T00:00:00Z",
            "2026-12-07T00:00:00Z",
        );
        check(
            Period::Hour,
            "UTC",
            "2026-12-02T12:34:00Z",
            "2026-12-02T12:00:00Z",
            "2026-12-02T13:00:00Z",
        );
        // Summer time ends on 2026-10-25 in Berlin: that day has 25 hours.
        check(
            Period::Day,
            "Europe/Berlin",
            "2026-10-25T12:00:00Z",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        );
        check(
            Period::Month,
            "Asia/Shanghai",
            "2026-10-31T17:00:00Z",
            "2026-10-31T16:00:00Z",
            "2026-11-30T16:00:00Z",
        );
        // Midnight that does not exist: the day begins at one.
        check(
            Period::Day,
            "America/Sao_Paulo",
            "2018-11-04T12:00:00Z",
            "2018-11-04T03:00:00Z",
            "2018-11-05T02:00:00Z",
        );

        #[track_caller]
        fn check(period: Period, zone: &str, at: &str, start: &str, end: &str) {
            assert_eq!(window(period, zone, at), (start.to_owned(), end.to_owned()));
        }
    }
}
