use proptest::prelude::*;

use super::*;

fn candidates(weights: &[u32]) -> Vec<Candidate> {
    let candidate = |(id, weight): (usize, &u32)| Candidate {
        id: id as u64 + 1,
        weight: *weight,
        percent: 100,
        busy_tokens: 0,
        first_event_ms: Some(100.0),
    };
    weights.iter().enumerate().map(candidate).collect()
}

fn counts(len: usize, chosen: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; len];
    chosen.for_each(|at| counts[at] += 1);
    counts
}

#[test]
fn weighted_shares_follow_weight_and_health() {
    check(&[1, 1, 1], &[100, 100, 100], [100, 100, 100]);
    check(&[3, 2, 1], &[100, 100, 100], [150, 100, 50]);
    check(&[2, 1, 1], &[50, 100, 100], [100, 100, 100]);
    check(&[1, 1, 1], &[100, 100, 0], [150, 150, 0]);

    #[track_caller]
    fn check(weights: &[u32], percents: &[u8], expected: [usize; 3]) {
        let mut all = candidates(weights);
        all.iter_mut().zip(percents).for_each(|(of, percent)| of.percent = *percent);
        let mut weighted = Weighted::default();
        let order: Vec<_> = (0..300).map(|_| weighted.choose(&all).unwrap()).collect();
        assert_eq!(counts(3, order.iter().copied()), expected);
        assert!(!order.windows(5).any(|run| run.iter().all(|at| *at == run[0])), "no bursts");
    }
}

#[test]
fn weighted_survives_comers_and_goers() {
    let all = candidates(&[1, 1, 1, 1]);
    let mut weighted = Weighted::default();
    (0..7).for_each(|_| assert!(weighted.choose(&all).is_some()));
    let some = counts(3, (0..300).map(|_| weighted.choose(&all[1..]).unwrap()));
    assert!(some.iter().all(|count| (98..=102).contains(count)), "{some:?}");
    assert_eq!(weighted.choose(&[]), None);
}

#[test]
fn least_busy_goes_by_tokens_for_weight() {
    let mut all = candidates(&[1, 2, 1]);
    all[0].busy_tokens = 5_000;
    all[1].busy_tokens = 9_000;
    all[2].busy_tokens = 6_000;
    assert_eq!(least_busy(&all, 100, 0), Some(1));
    all[1].percent = 50;
    assert_eq!(least_busy(&all, 100, 0), Some(0));
    all[0].percent = 0;
    assert_eq!(least_busy(&all, 100, u64::MAX), Some(2));
    let mut random = fastrand::Rng::with_seed(3);
    let even = candidates(&[1, 1, 1]);
    let even = counts(3, (0..3_000).map(|_| least_busy(&even, 1, random.u64(..)).unwrap()));
    assert!(even.iter().all(|count| (900..1_100).contains(count)), "{even:?}");
}

#[test]
fn latency_leaves_the_slower_of_two() {
    let mut all = candidates(&[1; 4]);
    all[2].first_event_ms = Some(2_000.0);
    let mut random = fastrand::Rng::with_seed(5);
    let seen = counts(4, (0..12_000).map(|_| by_latency(&all, 10, random.u64(..)).unwrap()));
    assert_eq!(seen[2], 0, "{seen:?}: of two it is never the quicker");
    for at in [0, 1, 3] {
        assert!((3_700..4_300).contains(&seen[at]), "{seen:?}");
    }
    all[2].first_event_ms = None;
    let seen = counts(4, (0..12_000).map(|_| by_latency(&all, 10, random.u64(..)).unwrap()));
    assert!((5_700..6_300).contains(&seen[2]), "{seen:?}: unknown and idle is tried");
    all[2].busy_tokens = 1;
    assert_eq!(counts(4, (0..99).map(|_| by_latency(&all, 10, random.u64(..)).unwrap()))[2], 0);
}

#[test]
fn peaks_are_followed_at_once_and_forgotten_slowly() {
    let mut first = FirstEvents::default();
    assert_eq!(first.estimate(10, 0), None);
    (0..20).for_each(|n| first.observe(200, 10, n * 100));
    first.observe(5_000, 10, 2_000);
    assert_eq!(first.estimate(10, 2_000), Some(5_000.0));
    let later = first.estimate(100_000, 12_000).unwrap();
    assert!((1_800.0..1_900.0).contains(&later), "{later}: of the nearest size, after ten seconds");
    first.observe(20_000, 100_000, 2_000);
    assert_eq!(first.estimate(100_000, 2_000), Some(20_000.0));
    assert_eq!(first.estimate(10, 2_000), Some(5_000.0));
}

/// Of so many prompts, where each goes.
fn placed(prefix: Prefix, all: &[Candidate], prompts: u64) -> Vec<u64> {
    (0..prompts).map(|n| all[prefix.choose(all, mix(n)).unwrap()].id).collect()
}

#[test]
fn prefix_shares_follow_weight_and_only_a_share_moves() {
    let prefix = Prefix::default();
    let all = candidates(&[1; 10]);
    let before = placed(prefix, &all, 20_000);
    let shares = counts(10, before.iter().map(|id| *id as usize - 1));
    assert!(shares.iter().all(|count| (1_850..2_150).contains(count)), "{shares:?}");
    // One goes: what it had moves, nothing else.
    let after = placed(prefix, &all[..9], 20_000);
    let moved = before.iter().zip(&after).filter(|(one, other)| one != other).count();
    assert_eq!(moved, shares[9]);
    // One comes: it takes its share, and nothing moves between the others.
    let after = placed(prefix, &candidates(&[1; 11]), 20_000);
    let moved: Vec<_> = before.iter().zip(&after).filter(|(one, other)| one != other).collect();
    println!("of 20000 prefixes {} moved to an eleventh target", moved.len());
    assert!(moved.iter().all(|(_, to)| **to == 11));
    assert!((1_680..1_960).contains(&moved.len()), "{}", moved.len());
    let weighed = placed(prefix, &candidates(&[1, 3]), 20_000);
    let heavy = weighed.iter().filter(|id| **id == 2).count();
    assert!((14_700..15_300).contains(&heavy), "{heavy}");
}

#[test]
fn prefix_of_one_system_prompt_overflows_within_the_bound() {
    let prefix = Prefix { bound: 1.25, free_tokens: 0 };
    let mut all = candidates(&[1; 8]);
    let mut random = fastrand::Rng::with_seed(11);
    let mut flying = std::collections::VecDeque::new();
    let mut worst = 0.0_f64;
    // Nine of ten requests have the same head; four hundred of some thousand tokens are in flight.
    for n in 0..20_000 {
        let head = if random.u8(..10) == 0 { random.u64(..) } else { 42 };
        let cost = random.u64(500..1_500);
        let at = prefix.choose(&all, head).unwrap();
        all[at].busy_tokens += cost;
        flying.push_back((at, cost));
        if flying.len() > 400 {
            let share = all.iter().map(|of| of.busy_tokens).sum::<u64>() as f64 / 8.0;
            worst = worst.max((all[at].busy_tokens - cost) as f64 / share);
            assert!(all[at].busy_tokens as f64 <= 1.25 * share + cost as f64, "after {n}");
            let (at, cost) = flying.pop_front().unwrap();
            all[at].busy_tokens -= cost;
        }
    }
    println!("most that one target had when it was chosen: {worst:.3} of its share");
    assert!(worst > 1.1, "the bound was reached, so that it was tested");
}

#[test]
fn prompts_are_named_by_their_head() {
    let mut prompt = vec![b'a'; HEAD_BYTES + 100];
    let name = prefix_of(&prompt);
    prompt[HEAD_BYTES] = b'b';
    assert_eq!(prefix_of(&prompt), name);
    prompt[HEAD_BYTES - 1] = b'b';
    assert_ne!(prefix_of(&prompt), name);
    assert_ne!(prefix_of(b""), prefix_of(b"a"));
}

fn anything() -> impl Strategy<Value = Candidate> {
    let edge = || prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let took = prop_oneof![Just(None), Just(Some(f64::NAN)), any::<f64>().prop_map(Some)];
    (edge(), prop_oneof![Just(0), any::<u32>()], any::<u8>(), edge(), took).prop_map(
        |(id, weight, percent, busy_tokens, first_event_ms)| Candidate {
            id,
            weight,
            percent,
            busy_tokens,
            first_event_ms,
        },
    )
}

proptest! {
    /// Each way chooses one that may be chosen whenever there is one, whatever the numbers.
    #[test]
    fn a_choice_is_made_whenever_there_is_one(
        all in prop::collection::vec(anything(), 0..9),
        cost: u64, random: u64, bound: f64, free_tokens: u64,
    ) {
        let pick = Pick { cost, prefix: random, random };
        let prefix = Policy::Prefix(Prefix { bound, free_tokens });
        for policy in [Policy::Weighted, Policy::LeastBusy, Policy::Latency, prefix] {
            let mut chooser = Chooser::new(policy);
            chooser.choose(&all, &pick);
            let chosen = chooser.choose(&all, &pick);
            prop_assert_eq!(chosen.is_some(), all.iter().any(|of| of.share() > 0));
            prop_assert!(chosen.is_none_or(|at| all[at].share() > 0));
        }
    }
}
