use proptest::prelude::*;

use super::*;

/// Of a thousand requests of each class, how many come in.
fn admitted(standing: &Standing) -> [usize; 4] {
    Class::ALL.map(|class| {
        let step = u64::MAX / 1_000;
        (0..1_000).filter(|n| standing.admit(class, n * step + step / 2).is_ok()).count()
    })
}

#[test]
fn each_level_sheds_what_it_says() {
    check(0.0, true, [1_000, 1_000, 1_000, 1_000]);
    check(0.69, true, [1_000, 1_000, 1_000, 1_000]);
    check(0.70, false, [1_000, 1_000, 1_000, 1_000]);
    check(0.80, false, [1_000, 1_000, 1_000, 0]);
    check(0.90, false, [1_000, 1_000, 1_000, 0]);
    check(0.925, false, [1_000, 1_000, 500, 0]);
    check(0.95, false, [1_000, 0, 0, 0]);
    check(7.0, false, [1_000, 0, 0, 0]);
    check(f64::NAN, true, [1_000, 1_000, 1_000, 1_000]);

    #[track_caller]
    fn check(pressure: f64, may_retry: bool, expected: [usize; 4]) {
        let standing =
            Pressure::default().sample(&[(Gauge::Lag, 0.1), (Gauge::Bodies, pressure)], 0);
        assert_eq!(admitted(&standing), expected, "{pressure}");
        assert_eq!(standing.may_retry(), may_retry);
    }
}

#[test]
fn what_is_short_is_named() {
    let standing = Pressure::default().sample(&[(Gauge::Lag, 0.2), (Gauge::OpenFiles, 0.97)], 0);
    let shed = standing.admit(Class::Default, 0).unwrap_err();
    assert_eq!(shed, Shed { gauge: Gauge::OpenFiles, pressure: 0.97 });
    assert_eq!(shed.to_string(), "the gateway is short of open_files, at 97 % of what it stands");
}

#[test]
fn levels_rise_at_once_and_fall_one_by_one() {
    let mut pressure = Pressure::default();
    let mut at = |value, now_ms| pressure.sample(&[(Gauge::Memory, value)], now_ms).level;
    assert_eq!(at(0.96, 0), Level::CriticalOnly);
    assert_eq!(at(0.91, 100), Level::CriticalOnly, "not clearly below");
    assert_eq!(at(0.10, 200), Level::CriticalOnly, "not for long");
    assert_eq!(at(0.10, 1_100), Level::CriticalOnly);
    assert_eq!(at(0.10, 1_200), Level::Thinned);
    assert_eq!(at(0.10, 2_100), Level::Thinned);
    assert_eq!(at(0.10, 2_200), Level::NoBatch);
    assert_eq!(at(0.10, 3_200), Level::NoRetries);
    assert_eq!(at(0.10, 4_200), Level::Calm);
}

#[test]
fn noise_about_a_threshold_does_not_flap() {
    let mut pressure = Pressure::default();
    let mut random = fastrand::Rng::with_seed(1);
    let mut changes = 0;
    let mut before = Level::Calm;
    for n in 0..6_000_u64 {
        let value = 0.80 + (random.f64() - 0.5) * 0.08;
        let level = pressure.sample(&[(Gauge::Memory, value)], n * 100).level;
        changes += usize::from(level != before);
        before = level;
    }
    assert!(changes <= 2, "{changes} changes in ten minutes");
}

proptest! {
    #[test]
    fn any_reading_is_only_a_reading(values in prop::collection::vec(any::<f64>(), 0..6), now_ms: u64, random: u64) {
        let gauges: Vec<_> = values.into_iter().map(|value| (Gauge::Journal, value)).collect();
        let mut pressure = Pressure::default();
        let standing = pressure.sample(&gauges, now_ms);
        prop_assert!((0.0..=1.0).contains(&standing.pressure));
        prop_assert!(standing.admit(Class::Critical, random).is_ok());
        prop_assert_eq!(pressure.sample(&gauges, 0).level, standing.level);
    }
}
