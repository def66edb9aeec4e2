use proptest::prelude::*;

use super::*;

fn fixed(requests: u64, tokens: u64) -> Settings {
    Settings {
        max_requests: NonZeroU64::new(requests),
        max_tokens: NonZeroU64::new(tokens),
        small_percent: 25,
        adaptive: None,
    }
}

fn fill(capacity: &mut Capacity, cost: u64, now_ms: u64) -> Vec<Slot> {
    std::iter::from_fn(|| capacity.try_take(cost, now_ms)).take(100_000).collect()
}

#[test]
fn c10_maxima_hold_in_requests_and_in_tokens() {
    check(fixed(10, 0), 1_000_000, 10);
    check(fixed(0, 1_000), 100, 10);
    check(fixed(5, 1_000), 100, 5);
    check(fixed(50, 1_000), 250, 4);

    #[track_caller]
    fn check(settings: Settings, cost: u64, fit: usize) {
        let mut capacity = Capacity::new(settings);
        let mut slots = fill(&mut capacity, cost, 0);
        assert_eq!(slots.len(), fit);
        capacity.give_back(slots.pop().unwrap());
        assert_eq!(fill(&mut capacity, cost, 0).len(), 1);
        capacity.refused(0);
        assert_eq!(
            Limits {
                requests: settings.max_requests.map(NonZeroU64::get),
                tokens: settings.max_tokens.map(NonZeroU64::get)
            },
            capacity.limits()
        );
    }
}

#[test]
fn nothing_is_limited_until_the_upstream_refuses() {
    let mut capacity = Capacity::new(Settings::default());
    let slots = fill(&mut capacity, 1_000, 0);
    assert_eq!(slots.len(), 100_000);
    for n in 0..1_000 {
        capacity.first_event(if n < 500 { 100 } else { 10_000 }, 10, n * 100);
    }
    assert_eq!(capacity.limits(), Limits::default(), "slow is not refused");
    slots.into_iter().skip(100).for_each(|slot| capacity.give_back(slot));
    capacity.refused(200_000);
    assert_eq!(capacity.limits(), Limits { requests: Some(70), tokens: Some(70_000) });
}

#[test]
fn c10_refusals_cut_once_in_a_window_and_quiet_windows_grow() {
    let settings = Settings { max_requests: NonZeroU64::new(100), ..Settings::default() };
    let mut capacity = Capacity::new(settings);
    let slots = fill(&mut capacity, 100, 0);
    for ms in 0..900 {
        capacity.refused(ms);
    }
    assert_eq!(capacity.limits().requests, Some(70));
    capacity.refused(1_100);
    assert_eq!(capacity.limits().requests, Some(49));
    // A window in which it refused does not grow; each after it does, as more want in.
    let mut seen = Vec::new();
    for second in 2..7_u64 {
        assert!(capacity.try_take(100, second * 1_000 + 500).is_none());
        seen.push(capacity.limits().requests.unwrap());
    }
    assert_eq!(seen, [49, 50, 51, 52, 53]);
    slots.into_iter().for_each(|slot| capacity.give_back(slot));
    assert_eq!(capacity.used(), Load::default());
}

#[test]
fn slow_first_events_cut_a_limit_that_is_there() {
    let settings = Settings { max_requests: NonZeroU64::new(100), ..Settings::default() };
    let mut capacity = Capacity::new(settings);
    (0..160).for_each(|n| capacity.first_event(200, 100, n));
    assert_eq!(capacity.limits().requests, Some(100));
    (0..16).for_each(|_| capacity.first_event(500, 100, 5_000));
    assert_eq!(capacity.limits().requests, Some(70));
}

#[test]
fn b3_a_large_one_leaves_room_for_small_ones_and_is_not_kept_out_by_them() {
    let mut capacity = Capacity::new(fixed(0, 100_000));
    // Ten times the limit runs, and only one.
    let large = capacity.try_take(1_000_000, 0).unwrap();
    assert_eq!(large.tokens(), 75_000);
    assert_eq!(capacity.try_take(1_000_000, 0), None);
    assert_eq!(capacity.try_take(30_000, 0), None, "large is what exceeds a quarter");
    let small = fill(&mut capacity, 1_000, 0);
    assert_eq!(small.len(), 25, "a quarter is left");
    capacity.give_back(large);
    let more = fill(&mut capacity, 1_000, 0);
    assert_eq!(more.len(), 75);
    let mut idle = Capacity::new(fixed(0, 100_000));
    assert_eq!(idle.try_take_beside(60_000, 0), None, "a large one does not overtake a large one");
    // All is taken by small ones. While a large one waits they come in only below a quarter.
    let mut all: Vec<_> = small.into_iter().chain(more).collect();
    assert_eq!(capacity.try_take(1_000_000, 0), None);
    while all.len() > 25 {
        assert_eq!(capacity.try_take_beside(1_000, 0), None);
        capacity.give_back(all.pop().unwrap());
    }
    let large = capacity.try_take(1_000_000, 0).unwrap();
    capacity.give_back(all.pop().unwrap());
    all.push(capacity.try_take_beside(1_000, 0).unwrap());
    all.into_iter().chain([large]).for_each(|slot| capacity.give_back(slot));
    assert_eq!(capacity.used(), Load::default());
}

#[test]
fn absurd_numbers_are_only_numbers() {
    for (requests, tokens) in [(0, 0), (1, 1), (u64::MAX, u64::MAX)] {
        let mut capacity = Capacity::new(Settings {
            adaptive: Some(Adaptive { window_ms: 0, ..Adaptive::default() }),
            ..fixed(requests, tokens)
        });
        let first = capacity.try_take(u64::MAX, u64::MAX).expect("into an idle target all comes");
        for cost in [0, 1, u64::MAX] {
            if let Some(slot) = capacity.try_take(cost, 0) {
                capacity.give_back(slot);
            }
            capacity.first_event(u64::MAX, cost, 0);
            capacity.refused(cost);
        }
        capacity.give_back(first);
        assert_eq!(capacity.used(), Load::default());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Take(u64),
    Beside(u64),
    Back(usize),
    Refused,
    First(u64, u64),
    Set(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let cost = prop_oneof![1..2_000_u64, Just(1_000_000)];
    let step = prop_oneof![
        6 => cost.clone().prop_map(Step::Take),
        2 => cost.prop_map(Step::Beside),
        6 => any::<usize>().prop_map(Step::Back),
        1 => Just(Step::Refused),
        3 => (0..5_000_u64, 0..300_000_u64).prop_map(|(ms, prompt)| Step::First(ms, prompt)),
        1 => (0..50_u64, 0..20_000_u64).prop_map(|(requests, tokens)| Step::Set(requests, tokens)),
    ];
    prop::collection::vec((0..700_u64, step), 0..200)
}

proptest! {
    /// Whatever happens, the accounts are those of the slots that are out, no take exceeds the limits, and
    /// an idle target lets anything in.
    #[test]
    fn c10_accounts_always_add_up(steps in steps(), requests in 0..50_u64, tokens in 0..20_000_u64) {
        let mut capacity = Capacity::new(Settings { adaptive: Some(Adaptive::default()), ..fixed(requests, tokens) });
        let (mut out, mut now_ms) = (Vec::<Slot>::new(), 0);
        for (after_ms, step) in steps {
            now_ms += after_ms;
            let taken = match step {
                Step::Take(cost) => capacity.try_take(cost, now_ms),
                Step::Beside(cost) => capacity.try_take_beside(cost, now_ms),
                Step::Back(_) if out.is_empty() => {
                    let slot = capacity.try_take(u64::MAX, now_ms);
                    prop_assert!(slot.is_some());
                    slot
                }
                Step::Back(which) => {
                    capacity.give_back(out.swap_remove(which % out.len()));
                    None
                }
                Step::Refused => {
                    capacity.refused(now_ms);
                    None
                }
                Step::First(ms, prompt) => {
                    capacity.first_event(ms, prompt, now_ms);
                    None
                }
                Step::Set(requests, tokens) => {
                    capacity.set(Settings { adaptive: Some(Adaptive::default()), ..fixed(requests, tokens) });
                    None
                }
            };
            let came = taken.is_some();
            out.extend(taken);
            let used = Load { requests: out.len() as u64, tokens: out.iter().map(Slot::tokens).sum() };
            prop_assert_eq!(capacity.used(), used);
            let limits = capacity.limits();
            if came {
                prop_assert!(limits.requests.is_none_or(|most| used.requests <= most));
                prop_assert!(limits.tokens.is_none_or(|most| used.tokens <= most));
            }
        }
        out.into_iter().for_each(|slot| capacity.give_back(slot));
        prop_assert_eq!((capacity.used(), capacity.large), (Load::default(), 0));
    }
}
