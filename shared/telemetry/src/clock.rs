//! The one place that reads the wall clock. Durations never come from here: they are measured with
//! `tokio::time::Instant`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the Unix epoch; zero when the host's clock stands before it.
#[expect(clippy::disallowed_methods, reason = "this is the one wall-clock read")]
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Now, for signatures and dates.
pub fn now() -> SystemTime {
    UNIX_EPOCH + since_epoch()
}

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Now as RFC 3339 in UTC with milliseconds, for logs and records.
pub fn rfc3339() -> String {
    format_unix_ms(unix_ms())
}

/// A Unix time in milliseconds as RFC 3339 in UTC; times that no calendar holds come out as 1970.
pub fn format_unix_ms(unix_ms: u64) -> String {
    let stamp = i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{stamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_with_milliseconds() {
        assert_eq!(format_unix_ms(1_790_000_000_123), "2026-09-21T14:13:20.123Z");
        assert_eq!(format_unix_ms(0), "1970-01-01T00:00:00.000Z");
    }
}
