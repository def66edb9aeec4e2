//! How long an upstream asks us to wait, from its headers and words.
//!
//! Order of trust: `retry-after-ms`, `retry-after` in seconds or as an HTTP date, then what the
//! message says ("try again in 6m0s", "after 37 seconds"). Reset headers are not used: they tell
//! when a bucket is full again, not when the next request fits.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// Shortest and longest wait that is believed.
const FLOOR: Duration = Duration::from_millis(500);
const CEILING: Duration = Duration::from_secs(24 * 3600);

/// The wait that the upstream asks for. `now` is the wall clock, for HTTP dates alone.
pub fn wait(headers: &HeaderMap, message: Option<&str>, now: SystemTime) -> Option<Duration> {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let from_ms = header("retry-after-ms").and_then(|text| seconds(text, 0.001));
    let from_header = || header("retry-after").and_then(|text| retry_after(text, now));
    let from_message = || message.and_then(in_words);
    from_ms.or_else(from_header).or_else(from_message).map(|wait| wait.clamp(FLOOR, CEILING))
}

fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    seconds(text, 1.0).or_else(|| httpdate::parse_http_date(text).ok()?.duration_since(now).ok())
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    (number > 0.0).then(|| Duration::try_from_secs_f64(number * unit).ok()).flatten()
}

/// A duration that follows "in" or "after" in a message.
fn in_words(message: &str) -> Option<Duration> {
    let words: Vec<_> = message.split_whitespace().collect();
    words.windows(2).enumerate().find_map(|(index, pair)| match pair {
        ["in" | "after", amount] => {
            let amount = amount.trim_end_matches([',', '.', ';', ')']);
            let unit = words.get(index + 2).map(|word| word.trim_end_matches([',', '.', ';', ')']));
            compound(amount).or_else(|| spelt(amount, unit?))
        }
        _ => None,
    })
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
fn compound(text: &str) -> Option<Duration> {
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
        total += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()?;
        rest = tail;
    }
    (total > Duration::ZERO).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        check(&[("retry-after-ms", "1180")], None, Some(1180));
        check(&[("retry-after", "7")], None, Some(7000));
        check(&[("retry-after", "1.5")], None, Some(1500));
        check(&[("retry-after", "9"), ("retry-after-ms", "600")], None, Some(600));
        check(&[("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT")], None, Some(60_000));
        check(&[("retry-after", "-3")], None, None);
        check(&[("retry-after", "99999999999")], None, Some(86_400_000));
        check(&[("retry-after", "soon")], Some("try again in 2.2s"), Some(2200));
        check(&[], Some("Please try again in 6m0s."), Some(360_000));
        check(&[], Some("retry after 37 seconds"), Some(37_000));
        check(&[], Some("try again in 125ms"), Some(500));
        check(&[], Some("error in line 3"), None);
        check(&[], None, None);

        #[track_caller]
        fn check(
            headers: &[(&'static str, &str)],
            message: Option<&str>,
            expected_ms: Option<u64>,
        ) {
            let headers: HeaderMap = headers
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            let found = wait(&headers, message, SystemTime::UNIX_EPOCH);
            assert_eq!(found, expected_ms.map(Duration::from_millis));
        }
    }
}
