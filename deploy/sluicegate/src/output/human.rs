//! Values as people read them.

/// `1 resource`, `12 resources`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A duration in its two largest units: `850ms`, `12s`, `3m20s`, `4d2h`.
pub(crate) fn duration_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Text from elsewhere, fit for a terminal: one line, no control characters.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        check(0, "0ms");
        check(850, "850ms");
        check(12_999, "12s");
        check(200_000, "3m20s");
        check(3_600_000, "1h");
        check(352_800_000, "4d2h");

        #[track_caller]
        fn check(ms: u64, expected: &str) {
            assert_eq!(duration_ms(ms), expected);
        }
    }

    #[test]
    fn counts_and_control_characters() {
        assert_eq!(count(1, "resource"), "1 resource");
        assert_eq!(count(0, "resource"), "0 resources");
        assert_eq!(clean("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
