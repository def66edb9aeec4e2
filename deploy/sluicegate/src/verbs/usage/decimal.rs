//! Counts of small parts as decimal numbers, without rounding.

/// A count of the `digits`-th decimal place: `decimal(1_500_000_000, 9)` is `1.50`. At least two
/// places are shown, and no more than say something.
pub(super) fn decimal(count: u64, digits: usize) -> String {
    let text = format!("{count:0>width$}", width = digits + 1);
    let (whole, places) = text.split_at(text.len() - digits);
    let places = places.trim_end_matches('0');
    format!("{whole}.{places:0<2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_cost_is_shown_exactly() {
        check(0, "0.00");
        check(1, "0.000000001");
        check(10_000_000, "0.01");
        check(1_500_000_000, "1.50");
        check(12_345_678_901, "12.345678901");
        check(u64::MAX, "18446744073.709551615");

        #[track_caller]
        fn check(nano: u64, expected: &str) {
            assert_eq!(decimal(nano, 9), expected);
        }
        assert_eq!(decimal(2_500_000, 6), "2.50");
    }
}
