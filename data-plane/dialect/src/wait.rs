//! How long an upstream asks us to wait, from its headers and words.
//!
//! Order of trust: `retry-after-ms`; `retry-after` in seconds or as an HTTP date; reset headers of
//! what is used up (`…-remaining` is 0), in the provider's own form; a member of the body; what the
//! message says ("try again in 6m0s", "after 37 seconds", "resets at 2026-09-01 18:00:00").

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use jiff::{Span, Timestamp, civil};
use serde_json::Value;

use crate::errors::{Resets, Stated};

/// Shortest and longest wait that is believed.
const FLOOR: Duration = Duration::from_millis(500);
const CEILING: Duration = Duration::from_secs(32 * 24 * 3600);
/// A wait as long as this is not one for a request to sit out.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A point of the calendar at which a quota begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Midnight in this IANA time zone.
    Midnight(&'static str),
    /// The first day of the next month, in UTC.
    NextMonth,
}

impl Until {
    /// How long it is until then.
    pub(crate) fn left(self, now: SystemTime) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let zone = match self {
            Self::Midnight(zone) => zone,
            Self::NextMonth => "UTC",
        };
        let left = || {
            let now = Timestamp::try_from(now).ok()?.in_tz(zone).ok()?;
            let day = match self {
                Self::Midnight(_) => now.date().checked_add(Span::new().days(1)).ok()?,
                Self::NextMonth => {
                    now.date().first_of_month().checked_add(Span::new().months(1)).ok()?
                }
            };
            let then = day.to_datetime(civil::Time::midnight()).in_tz(zone).ok()?;
            Duration::try_from(then.timestamp().duration_since(now.timestamp())).ok()
        };
        left().unwrap_or(DAY)
    }
}

/// What the upstream says of trying again, whatever the status.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}

/// The wait that the upstream asks for. `now` is the wall clock, for dates alone.
pub(crate) fn asked(
    headers: &HeaderMap,
    stated: &Stated,
    resets: Resets,
    now: SystemTime,
) -> Option<Duration> {
    let from_ms = text(headers, "retry-after-ms").and_then(|text| seconds(text, 0.001));
    let from_header = || text(headers, "retry-after").and_then(|text| retry_after(text, now));
    let from_words = || stated.message.as_deref().and_then(|message| in_words(message, now));
    from_ms
        .or_else(from_header)
        .or_else(|| from_resets(headers, resets, now))
        .or(stated.wait)
        .or_else(from_words)
        .map(|wait| wait.clamp(FLOOR, CEILING))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    seconds(text, 1.0).or_else(|| httpdate::parse_http_date(text).ok()?.duration_since(now).ok())
}

/// The latest reset among the limits of which nothing remains. One that is merely not full tells
/// nothing about the next request.
fn from_resets(headers: &HeaderMap, resets: Resets, now: SystemTime) -> Option<Duration> {
    const OPENAI: [&str; 2] = ["requests", "tokens"];
    const ANTHROPIC: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];
    let spent = |remaining: &str| text(headers, remaining) == Some("0");
    let openai = |read: fn(&str) -> Option<Duration>| {
        let kinds = OPENAI.iter().filter(|kind| spent(&format!("x-ratelimit-remaining-{kind}")));
        kinds.filter_map(|kind| read(text(headers, &format!("x-ratelimit-reset-{kind}"))?)).max()
    };
    match resets {
        Resets::None => None,
        Resets::GoDuration => openai(compound),
        Resets::Seconds => openai(|text| seconds(text, 1.0)),
        Resets::Anthropic => {
            let kinds = ANTHROPIC
                .iter()
                .filter(|kind| spent(&format!("anthropic-ratelimit-{kind}-remaining")));
            let resets = kinds.filter_map(|kind| {
                let reset = text(headers, &format!("anthropic-ratelimit-{kind}-reset"))?;
                left(reset.parse().ok()?, now)
            });
            let unified = text(headers, "anthropic-ratelimit-unified-reset")
                .and_then(|text| left(Timestamp::from_second(text.parse().ok()?).ok()?, now));
            resets.max().or(unified)
        }
    }
}

fn left(then: Timestamp, now: SystemTime) -> Option<Duration> {
    let left = then.duration_since(Timestamp::try_from(now).ok()?);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// A number of seconds, or of something else of which `unit` is one in seconds.
fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    // What no duration can hold is the longest.
    (number > 0.0).then(|| Duration::try_from_secs_f64(number * unit).unwrap_or(CEILING))
}

/// A member that holds seconds, as a number or as text.
pub(crate) fn seconds_of(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => seconds(&number.to_string(), 1.0),
        Value::String(text) => seconds(text, 1.0).or_else(|| compound(text)),
        _ => None,
    }
}

/// A member that holds a time: RFC 3339, or as `2026-09-01 18:00:00` in China's time.
pub(crate) fn until_text(text: &str) -> Option<Duration> {
    left(time_in(text)?, crate::errors::wall_clock())
}

fn time_in(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let local = civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", text).ok()?;
    Some(local.in_tz("Asia/Shanghai").ok()?.timestamp())
}

/// A duration or a time that a message names.
fn in_words(message: &str, now: SystemTime) -> Option<Duration> {
    let words: Vec<_> = message.split_whitespace().collect();
    // Other durations of a message are those of limits.
    let is_wait = |index: usize| {
        let before = words.get(index.saturating_sub(3)..index).unwrap_or_default();
        before.iter().any(|word| {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
            WAITING.contains(&word.as_str())
        })
    };
    let duration = words.windows(2).enumerate().find_map(|(index, pair)| match pair {
        ["in" | "after", amount] if is_wait(index) => {
            let amount = amount.trim_end_matches(END);
            let unit = words.get(index + 2).map(|word| word.trim_end_matches(END));
            compound(amount).or_else(|| clock(amount)).or_else(|| spelt(amount, unit?))
        }
        _ => None,
    });
    duration.or_else(|| left(date_in_words(&words)?, now))
}

/// Words that a wait follows, within three words.
const WAITING: [&str; 11] = [
    "retry",
    "again",
    "wait",
    "try",
    "retrying",
    "reset",
    "resets",
    "available",
    "later",
    "back",
    "replenished",
];

/// What may stand behind an amount at the end of a clause.
const END: [char; 5] = [',', '.', ';', ')', '!'];

/// `2026-09-01 18:00:00`, in China's time, where the providers are that write so; or
/// `2026-11-01 at 00:00 UTC`.
fn date_in_words(words: &[&str]) -> Option<Timestamp> {
    words.iter().enumerate().find_map(|(index, word)| {
        let date = civil::Date::strptime("%Y-%m-%d", word.trim_end_matches(END)).ok()?;
        let next = |more: usize| words.get(index + more).map(|word| word.trim_end_matches(END));
        match (next(1), next(2), next(3)) {
            (Some("at"), Some(clock), Some("UTC")) => {
                let time = civil::Time::strptime("%H:%M", clock).ok()?;
                Some(date.to_datetime(time).in_tz("UTC").ok()?.timestamp())
            }
            (Some(clock), ..) => {
                let time = civil::Time::strptime("%H:%M:%S", clock).ok()?;
                Some(date.to_datetime(time).in_tz("Asia/Shanghai").ok()?.timestamp())
            }
            _ => None,
        }
    })
}

/// `02:11:55`: hours, minutes and seconds.
fn clock(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, last) = rest.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok();
    let hours = Duration::from_secs(u64::from(number(hours)?) * 3600);
    let total =
        hours + Duration::from_secs(u64::from(number(minutes)?) * 60 + u64::from(number(last)?));
    (total > Duration::ZERO).then_some(total)
}

/// "37" "seconds".
fn spelt(amount: &str, unit: &str) -> Option<Duration> {
    let unit = match unit {
        "s" | "sec" | "second" | "seconds" => 1.0,
        "ms" | "milliseconds" => 0.001,
        "minute" | "minutes" => 60.0,
        "hour" | "hours" => 3600.0,
        _ => return None,
    };
    seconds(amount, unit)
}

/// Go's duration text: `125ms`, `2.2s`, `6m0s`, `1h12m`.
pub(crate) fn compound(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(letters);
        let scale = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (total > Duration::ZERO).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-09-01T10:00:00Z.
    const NOW: u64 = 1_788_256_800;

    #[track_caller]
    fn check(
        resets: Resets,
        headers: &[(&'static str, &str)],
        message: Option<&str>,
        expected_ms: Option<u64>,
    ) {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let stated = Stated { message: message.map(str::to_owned), ..Stated::default() };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let found = asked(&headers, &stated, resets, now);
        assert_eq!(found.map(|wait| wait.as_millis()), expected_ms.map(u128::from));
    }

    #[test]
    fn c5_every_form_of_wait() {
        let none = Resets::None;
        check(none, &[("retry-after-ms", "1180")], None, Some(1180));
        check(none, &[("retry-after", "7")], None, Some(7000));
        check(none, &[("retry-after", "1.5")], None, Some(1500));
        check(none, &[("retry-after", "9"), ("retry-after-ms", "600")], None, Some(600));
        check(none, &[("retry-after", "Tue, 01 Sep 2026 10:01:00 GMT")], None, Some(60_000));
        check(none, &[("retry-after", "Tuesday, 01-Sep-26 10:01:00 GMT")], None, Some(60_000));
        check(none, &[("retry-after", "Tue Sep  1 10:01:00 2026")], None, Some(60_000));
        check(none, &[("retry-after", "Tue, 01 Sep 2026 09:00:00 GMT")], None, None);
        check(none, &[("retry-after", "-3")], None, None);
        check(none, &[("retry-after", "0")], None, None);
        check(none, &[("retry-after", "99999999999")], None, Some(32 * 86_400_000));
        check(none, &[("retry-after", "soon")], Some("try again in 2.2s"), Some(2200));
        check(none, &[], Some("Please try again in 6m0s."), Some(360_000));
        check(none, &[], Some("Please retry in 11.665902715s."), Some(11_665));
        check(none, &[], Some("retry after 37 seconds"), Some(37_000));
        check(none, &[], Some("please try again after 1 seconds"), Some(1_000));
        check(none, &[], Some("try again in 125ms"), Some(500));
        check(
            none,
            &[],
            Some("5-hour limit reached, resets at 2026-09-01 19:00:00"),
            Some(3_600_000),
        );
        check(none, &[], Some("Access returns on 2026-09-02 at 00:00 UTC."), Some(50_400_000));
        check(none, &[], Some("Access returned on 2026-08-02 at 00:00 UTC."), None);
        check(none, &[], Some("Calls are free again in 02:11:55."), Some(7_915_000));
        check(none, &[], Some("no calls in 00:00:00"), None);
        check(
            none,
            &[],
            Some("Limit of 100 requests in 1h. Please retry after 5 seconds"),
            Some(5_000),
        );
        check(none, &[], Some("61 requests in 60s. Retry after 2s"), Some(2_000));
        check(none, &[], Some("tokens in 1 minute, try again in 3s"), Some(3_000));
        check(none, &[], Some("keys expire in 720h after creation"), None);
        check(none, &[], Some("try again in 18000000000000000000s18000000000000000000s"), None);
        check(none, &[], Some("error in line 3"), None);
        check(none, &[], None, None);
    }

    #[test]
    fn c5_reset_headers_count_for_what_is_used_up() {
        let spent = ("x-ratelimit-remaining-tokens", "0");
        let reset = ("x-ratelimit-reset-tokens", "6m0s");
        check(Resets::GoDuration, &[spent, reset], None, Some(360_000));
        check(Resets::GoDuration, &[reset], None, None);
        check(Resets::GoDuration, &[spent, reset, ("retry-after", "2")], None, Some(2000));
        check(Resets::Seconds, &[spent, ("x-ratelimit-reset-tokens", "37")], None, Some(37_000));
        check(Resets::Seconds, &[spent, ("x-ratelimit-reset-tokens", "0")], None, None);
        check(Resets::None, &[spent, reset], None, None);
        check(
            Resets::Anthropic,
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-09-01T10:00:14Z"),
                ("anthropic-ratelimit-tokens-remaining", "9"),
                ("anthropic-ratelimit-tokens-reset", "2026-09-01T11:00:00Z"),
            ],
            None,
            Some(14_000),
        );
        let unified = ("anthropic-ratelimit-unified-reset", "1788260400");
        check(Resets::Anthropic, &[unified], None, Some(3_600_000));
    }

    #[test]
    fn quotas_begin_anew_at_points_of_the_calendar() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let hours = |until: Until| until.left(now).as_secs() / 3600;
        assert_eq!(hours(Until::Midnight("UTC")), 14);
        assert_eq!(hours(Until::Midnight("America/Los_Angeles")), 21);
        assert_eq!(hours(Until::Midnight("Asia/Shanghai")), 6);
        assert_eq!(hours(Until::NextMonth), 29 * 24 + 14);
    }
}
