//! Well-known forms of text. Each check returns what is wrong and what to do.

use std::net::IpAddr;

use http::Uri;

/// What is wrong, and a hint.
pub type Fault = (String, String);

/// Parses a base URL: absolute, http or https, with a host, without user info or fragment.
///
/// # Errors
/// What makes it unusable.
pub fn base_url(text: &str) -> Result<Uri, Fault> {
    let hint = || "use a form such as https://api.example.com/v1".to_owned();
    if text.contains('#') {
        return Err(("a base URL has no fragment".into(), "remove everything from '#' on".into()));
    }
    let uri: Uri = text.parse().map_err(|_| ("not a URL".to_owned(), hint()))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => {
            return Err((format!("scheme '{other}' is not supported"), "use http or https".into()));
        }
        None => return Err(("the URL has no scheme".into(), hint())),
    }
    let authority = uri.authority().ok_or_else(|| ("the URL has no host".to_owned(), hint()))?;
    if authority.as_str().contains('@') {
        return Err((
            "a base URL must not hold credentials".into(),
            "put the key into a credential".into(),
        ));
    }
    if authority.host().is_empty() {
        return Err(("the URL has no host".into(), hint()));
    }
    if authority.as_str().rsplit_once(':').is_some_and(|(host, port)| {
        !host.ends_with(':') && !port.ends_with(']') && port.parse::<u16>().is_err()
    }) {
        return Err(("the port is not a number up to 65535".into(), hint()));
    }
    Ok(uri)
}

/// Parses an RFC 3339 time in UTC or with an offset, to milliseconds since the Unix epoch.
///
/// # Errors
/// When it is none.
pub fn time(text: &str) -> Result<u64, Fault> {
    let stamp: jiff::Timestamp = text.parse().map_err(|_| {
        (format!("'{text}' is not a time"), "use RFC 3339, such as 2027-01-31T00:00:00Z".to_owned())
    })?;
    u64::try_from(stamp.as_millisecond())
        .map_err(|_| ("the time is before 1970".to_owned(), "use a later one".to_owned()))
}

/// Checks an address or CIDR block.
///
/// # Errors
/// When it is none.
pub fn address_block(text: &str) -> Result<(), Fault> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let widest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => {
            return Err((
                format!("'{text}' is not an address"),
                "use forms such as 10.0.0.0/8 or 2001:db8::/32".into(),
            ));
        }
    };
    match bits.map(str::parse::<u8>) {
        None => Ok(()),
        Some(Ok(bits)) if bits <= widest => Ok(()),
        Some(_) => Err((
            format!("'{text}' has a bad prefix length"),
            format!("use a number from 0 to {widest} after the slash"),
        )),
    }
}

/// A rate: so many in so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In thousand-millionths, so that fractions of units and dollars are exact.
    pub amount_nano: u128,
    /// Length of the window in seconds.
    pub window_s: u32,
}

/// Parses composite rates, `3/second;1000/minute`; also `5/30s`.
///
/// # Errors
/// Which part is wrong.
pub fn rates(text: &str) -> Result<Vec<Rate>, Fault> {
    let hint = || "use parts such as 3/second;1000/minute".to_owned();
    let mut rates: Vec<Rate> = Vec::new();
    for part in text.split(';').map(str::trim) {
        let (amount, window) = part
            .split_once('/')
            .ok_or_else(|| (format!("'{part}' has no '/' between amount and window"), hint()))?;
        let amount_nano = decimal_nano(amount.trim())
            .ok_or_else(|| (format!("'{}' is not a number", amount.trim()), hint()))?;
        if amount_nano == 0 {
            return Err((format!("'{part}' admits nothing, ever"), "use more than 0".into()));
        }
        let window_s = window_s(window.trim())?;
        if rates.iter().any(|rate| rate.window_s == window_s) {
            return Err((format!("window '{}' is given twice", window.trim()), "keep one".into()));
        }
        rates.push(Rate { amount_nano, window_s });
    }
    Ok(rates)
}

/// Reads `minute` or `30s`.
fn window_s(text: &str) -> Result<u32, Fault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits).unwrap_or(("", text));
    let each: u32 = match unit.trim() {
        "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        other => {
            return Err((
                format!("unknown window '{other}'"),
                "use second, minute, hour or day, or such as 30s".into(),
            ));
        }
    };
    let count = if count.is_empty() { Some(1) } else { count.parse::<u32>().ok() };
    count
        .and_then(|count| count.checked_mul(each))
        .filter(|window| (1..=31 * 86_400).contains(window))
        .ok_or_else(|| {
            (format!("the window '{text}' is out of range"), "use 1 second to 31 days".into())
        })
}

/// Reads a decimal number into thousand-millionths; `None` when it is none, or finer than that.
fn decimal_nano(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 9 || !digits(whole) {
        return None;
    }
    if !digits(fraction) || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let nano: u128 = format!("{fraction:0<9}").parse().ok()?;
    Some(whole.parse::<u128>().ok()? * 1_000_000_000 + nano)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        for good in [
            "http://u/v1",
            "http://u/v1//",
            "https://u:8443/prefix/v1/?api-version=1",
            "http://[::1]:9000/v1",
            "http://127.0.0.1:9000",
        ] {
            assert!(base_url(good).is_ok(), "{good}");
        }
        for bad in [
            "u/v1",
            "ftp://u/",
            "http://",
            "http://user:pw@u/v1",
            "http://u/v1#x",
            "http://u:99999/",
            "http://u:x/",
            "",
            "http://a b/",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn composite_rates() {
        assert_eq!(
            rates("3/second; 1000/minute"),
            Ok(vec![
                Rate { amount_nano: 3_000_000_000, window_s: 1 },
                Rate { amount_nano: 1_000_000_000_000, window_s: 60 }
            ])
        );
        assert_eq!(rates("0.25/30s"), Ok(vec![Rate { amount_nano: 250_000_000, window_s: 30 }]));
        for bad in [
            "",
            "3",
            "0/second",
            "3/fortnight",
            "1/s;2/second",
            "-1/s",
            "1/s;",
            "1./s",
            ".5/s",
            "1e3/s",
            "1/0s",
            "1/99d",
        ] {
            assert!(rates(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn address_blocks() {
        for good in ["10.0.0.0/8", "::1", "2001:db8::/32", "1.2.3.4"] {
            assert!(address_block(good).is_ok(), "{good}");
        }
        for bad in ["10.0.0.0/33", "10.0.0", "x", "::/129", "1.2.3.4/"] {
            assert!(address_block(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(time("1970-01-01T00:00:01Z"), Ok(1000));
        assert!(time("tomorrow").is_err());
    }
}
