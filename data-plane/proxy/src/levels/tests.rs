use std::time::Duration;

use sluicegate_model::resource::degradation::{Action, ByHand, Step, ToolPattern};

use super::*;

fn degradation(name: &str, tenants: &[&str], manual: Option<ByHand>) -> Degradation {
    let step = |action| Step { action, conditions: None };
    let shell = ToolPattern::parse("shell").into_iter().collect();
    Degradation {
        name: name.into(),
        models: Vec::new(),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        steps: vec![step(Action::StripTools(shell)), step(Action::StripAllTools)],
        sources: Vec::new(),
        tool_timeout_window: Duration::from_secs(60),
        manual,
    }
}

fn policy(degradations: Vec<Degradation>) -> Policy {
    let ends = degradations.iter().filter_map(|one| one.manual.as_ref());
    let mut policy = Policy::default();
    policy.degraded_by_hand_until = ends.map(|manual| manual.expires_unix_ms).max();
    policy.degradations = degradations;
    policy
}

fn by_hand(level: Level, left_ms: u64) -> Option<ByHand> {
    let expires_unix_ms = clock::unix_ms().saturating_add(left_ms);
    Some(ByHand { level, expires_unix_ms, comment: String::new() })
}

fn told(name: &str, level: Level, ttl_ms: u64) -> Directive {
    Directive { name: name.into(), level, ttl_ms }
}

fn level(levels: &Levels, policy: &Policy, tenants: &[&str]) -> u32 {
    let tenants: Vec<_> = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
    levels.effect(policy, "m", &tenants).level().number()
}

#[test]
fn b4_what_is_told_holds_for_its_time_and_for_those_it_is_for() {
    let levels = Levels::default();
    let policy = policy(vec![degradation("d", &["org"], None), degradation("other", &[], None)]);
    assert_eq!(level(&levels, &policy, &["org"]), 0);
    let changed =
        levels.take(vec![told("d", Level::AllTools, 60_000), told("gone", Level::AllTools, 1)]);
    assert_eq!(changed.first(), Some(&("d".to_owned(), Level::AllTools)));
    assert_eq!(level(&levels, &policy, &["team", "org"]), 2);
    assert_eq!((level(&levels, &policy, &["team"]), level(&levels, &policy, &[])), (0, 0));
    assert_eq!(levels.all(&policy), [("d", Level::AllTools), ("other", Level::Normal)]);
    assert_eq!(levels.take(vec![told("d", Level::AllTools, 60_000)]), [], "it is repeated");
    levels.take(vec![told("d", Level::Normal, 0)]);
    assert_eq!(level(&levels, &policy, &["org"]), 0);
    // Not repeated: it ends, whether somebody has let go of it yet or not.
    levels.take(vec![told("d", Level::SomeTools, 30)]);
    assert_eq!(level(&levels, &policy, &["org"]), 1);
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(level(&levels, &policy, &["org"]), 0);
    assert!(levels.lapse().contains(&"d".to_owned()));
    assert!(!levels.any.load(Ordering::Relaxed), "and then nothing is looked at");
}

#[test]
fn b4_an_operators_word_outranks_what_is_told_until_its_end() {
    let levels = Levels::default();
    let hand = policy(vec![degradation("d", &[], by_hand(Level::AllTools, 60_000))]);
    assert_eq!(level(&levels, &hand, &[]), 2, "without any control plane");
    levels.take(vec![told("d", Level::SomeTools, 60_000)]);
    assert_eq!(level(&levels, &hand, &[]), 2);
    let normal = policy(vec![degradation("d", &[], by_hand(Level::Normal, 60_000))]);
    assert_eq!(level(&levels, &normal, &[]), 0);
    let over = policy(vec![degradation("d", &[], by_hand(Level::AllTools, 0))]);
    assert_eq!(level(&levels, &over, &[]), 1);
}
