use proptest::prelude::*;

use super::*;

const RULES: CheckRules = CheckRules { interval_ms: 1_000, rise: 2, fall: 3 };

fn key(model: &str) -> TargetKey {
    TargetKey::new("p", model)
}

fn one(rules: CheckRules) -> Rounds {
    let mut rounds = Rounds::new(1);
    rounds.set([(key("m"), rules)].into());
    rounds
}

fn check(model: &str, ttl_ms: u64) -> Check {
    Check { target: key(model), ttl_ms }
}

#[test]
fn a12_so_many_in_a_row_make_it_ill_and_well_again() {
    // w: well, i: ill, u: unclear; then what it comes to.
    for (found, expected) in [
        ("", Health::Unknown),
        ("w", Health::Unknown),
        ("ww", Health::Well),
        ("ii", Health::Unknown),
        ("iii", Health::Ill),
        ("iiwii", Health::Unknown),
        ("wwiiw", Health::Well),
        ("wwiii", Health::Ill),
        ("iiiw", Health::Ill),
        ("iiiwiw", Health::Ill),
        ("iiiww", Health::Well),
        // What is unclear neither counts nor breaks a row.
        ("uuu", Health::Unknown),
        ("iui", Health::Unknown),
        ("iuiui", Health::Ill),
        ("iiiuu", Health::Ill),
        ("wuw", Health::Well),
        // But in the long run nothing is known any more.
        ("iiiuuu", Health::Unknown),
        ("iiiuuuww", Health::Well),
        ("wwuuui", Health::Unknown),
    ] {
        let mut tally = Tally::default();
        for letter in found.chars() {
            let checkup = match letter {
                'w' => Checkup::Well,
                'i' => Checkup::Ill,
                _ => Checkup::Unclear,
            };
            tally.count(checkup, &RULES);
        }
        assert_eq!(tally.health, expected, "{found}");
    }
}

#[test]
fn a12_a_node_probes_what_it_was_told_for_as_long_as_it_was_told() {
    let mut rounds = one(RULES);
    assert!(rounds.begin(false, 0).is_empty() && rounds.next_ms(0).is_none(), "nobody has told it");
    rounds.told(check("m", 10_000), 0);
    let begun: Vec<u64> = (0..20_000).filter(|ms| !rounds.begin(false, *ms).is_empty()).collect();
    assert_eq!(begun.len(), 10, "{begun:?}");
    assert!(begun.windows(2).all(|pair| pair[1] - pair[0] == 1_000), "{begun:?}");
    assert!(begun[0] < 1_000 && begun[9] < 10_000);
    // Another is to.
    rounds.told(check("m", 60_000), 20_000);
    rounds.begin(false, 20_000);
    assert!(rounds.next_ms(20_000).is_some_and(|ms| ms < 1_000));
    rounds.told(check("m", 0), 20_001);
    assert!((20_001..30_000).all(|ms| rounds.begin(false, ms).is_empty()));
    assert_eq!(rounds.next_ms(30_000), None);
}

#[test]
fn a12_told_of_what_the_policy_does_not_have_yet_it_remembers() {
    let mut rounds = Rounds::new(1);
    rounds.told(check("m", 10_000), 0);
    assert!(rounds.is_empty() && rounds.begin(false, 0).is_empty());
    rounds.set([(key("m"), RULES)].into());
    assert!((0..1_000).any(|ms| !rounds.begin(false, ms).is_empty()));
    rounds.set([].into());
    assert!((0..9_000).all(|ms| rounds.begin(false, ms).is_empty()));
}

#[test]
fn a12_alone_each_node_probes_at_a_time_of_its_own() {
    let first = |seed| {
        let mut rounds = Rounds::new(seed);
        rounds.set([(key("m"), RULES)].into());
        (0..1_000).find(|ms| !rounds.begin(true, *ms).is_empty()).expect("within its interval")
    };
    let firsts: std::collections::BTreeSet<u64> = (0..50).map(first).collect();
    assert!(firsts.len() > 40, "{firsts:?}");
}

#[test]
fn a12_one_that_comes_late_does_not_bring_the_next_one_close() {
    let mut rounds = one(RULES);
    rounds.begin(true, 0);
    assert_eq!(rounds.begin(true, 50_000), [key("m")], "late");
    assert!((50_000..51_000).all(|ms| rounds.begin(true, ms).is_empty()));
    assert_eq!(rounds.begin(true, 51_000), [key("m")]);
}

#[test]
fn a12_what_was_found_is_told_by_whoever_probes_and_kept_for_a_while() {
    let mut rounds = one(RULES);
    rounds.begin(true, 0);
    assert!(rounds.findings().is_empty(), "nothing was found yet");
    for at_ms in 0..3 {
        rounds.ended(&key("m"), Checkup::Ill, "503\n", at_ms);
    }
    let [(_, finding)] = &rounds.findings()[..] else { panic!("one target") };
    assert_eq!((finding.health, finding.reason.as_str()), (Health::Ill, "503"));
    let [(_, next)] = &rounds.findings()[..] else { panic!("one target") };
    assert!(next.seq > finding.seq);
    assert_eq!(rounds.stands(2).map(|it| it.left_ms).collect::<Vec<_>>(), [18_000]);
    // The fleet is there, and has another probe it; then this one again.
    rounds.begin(false, 3);
    assert!(rounds.findings().is_empty() && rounds.stands(3).next().is_none());
    rounds.told(check("m", 60_000), 5_000);
    rounds.begin(false, 5_000);
    assert_eq!(rounds.findings()[0].1.health, Health::Ill, "it remembers");
    rounds.told(check("m", 0), 5_001);
    rounds.begin(false, 18_002);
    rounds.told(check("m", 60_000), 20_000);
    rounds.begin(false, 20_000);
    assert!(rounds.findings().is_empty(), "that is too long ago");
}

#[test]
fn a12_changes_are_told_once() {
    let mut rounds = one(RULES);
    let mut ended = |checkup| {
        let noted = rounds.ended(&key("m"), checkup, "", 0);
        (noted.turned, noted.strange)
    };
    assert_eq!(ended(Checkup::Unclear), (None, true));
    assert_eq!(ended(Checkup::Unclear), (None, false));
    assert_eq!(ended(Checkup::Ill), (None, false));
    assert_eq!(ended(Checkup::Unclear), (None, true), "once more, since there was something else");
    assert_eq!(ended(Checkup::Ill), (None, false));
    assert_eq!(ended(Checkup::Ill), (Some(Health::Ill), false));
    assert_eq!(ended(Checkup::Ill), (None, false));
    assert_eq!(rounds.ended(&key("gone"), Checkup::Ill, "", 0), Noted::default());
}

#[test]
fn a12_rules_that_change_begin_anew_and_others_stay() {
    let mut rounds = one(RULES);
    rounds.begin(true, 0);
    rounds.ended(&key("m"), Checkup::Ill, "", 0);
    rounds.set([(key("m"), RULES)].into());
    assert_eq!(rounds.findings().len(), 1);
    rounds.set([(key("m"), CheckRules { fall: 4, ..RULES })].into());
    assert!(rounds.findings().is_empty());
}

proptest! {
    /// Whatever times and numbers come, nothing overflows, and two probes of one target are never
    /// closer than half of its interval.
    #[test]
    fn a12_absurd_times_do_no_harm(
        interval_ms in prop_oneof![Just(0), 1..100_000_u64, Just(u64::MAX)],
        steps in prop::collection::vec((prop_oneof![0..200_000_u64, Just(u64::MAX)], any::<bool>(), any::<u64>()), 1..60),
        (rise, fall) in any::<(u32, u32)>(),
    ) {
        let mut rounds = one(CheckRules { interval_ms, rise, fall });
        let (mut now_ms, mut last, mut another) = (0_u64, None::<u64>, true);
        for (passes, alone, ttl_ms) in steps {
            now_ms = now_ms.saturating_add(passes);
            rounds.told(check("m", ttl_ms), now_ms);
            // It was another's to probe since the last.
            another |= rounds.next_ms(now_ms).is_none();
            if rounds.begin(alone, now_ms).len() == 1 {
                let since_ms = last.map_or(u64::MAX, |at_ms| now_ms - at_ms);
                prop_assert!(another || now_ms == u64::MAX || since_ms >= interval_ms / 2);
                (last, another) = (Some(now_ms), false);
            }
            rounds.ended(&key("m"), Checkup::Ill, "x", now_ms);
            rounds.findings();
            prop_assert!(rounds.stands(now_ms).count() <= 1);
        }
    }
}
