use super::*;

const RULES: CheckRules = CheckRules { interval_ms: 10_000, rise: 2, fall: 3 };

fn target(number: usize) -> TargetKey {
    TargetKey::new("p", format!("m{number}"))
}

fn nodes(names: impl IntoIterator<Item = usize>) -> BTreeMap<String, Node> {
    let node = |name| (format!("node-{name}"), Node { zone: None, seen_ms: 0, checks: true });
    names.into_iter().map(node).collect()
}

fn chosen(checks: &Checks) -> BTreeMap<TargetKey, String> {
    checks.probers().map(|(target, node)| (target.clone(), node.to_owned())).collect()
}

fn with_targets(count: usize) -> Checks {
    let mut checks = Checks::default();
    checks.set((0..count).map(|number| (target(number), RULES)).collect());
    checks
}

#[test]
fn a12_each_target_has_one_prober_and_nodes_that_come_and_go_move_only_their_own() {
    let mut checks = with_targets(1_000);
    checks.assign(&nodes(0..10));
    let ten = chosen(&checks);
    assert_eq!(ten.len(), 1_000);
    for node in 0..10 {
        let share = ten.values().filter(|name| **name == format!("node-{node}")).count();
        assert!((60..=140).contains(&share), "node {node} has {share} of 1000");
    }
    // One goes.
    checks.assign(&nodes((0..10).filter(|node| *node != 3)));
    let nine = chosen(&checks);
    for (target, node) in &ten {
        assert_eq!(*node != "node-3", nine[target] == *node, "{target} had {node}");
    }
    // It comes back, and one more with it.
    checks.assign(&nodes(0..11));
    for (target, node) in chosen(&checks) {
        assert!(node == ten[&target] || node == "node-10", "{target} went to {node}");
    }
    checks.assign(&nodes([]));
    assert_eq!(chosen(&checks), BTreeMap::new());
}

#[test]
fn a12_only_nodes_that_send_probes_are_chosen_and_new_targets_at_once() {
    let mut checks = with_targets(1);
    let mut two = nodes(0..2);
    two.get_mut("node-0").unwrap().checks = false;
    checks.assign(&two);
    assert_eq!(checks.prober(&target(0)), Some("node-1"));
    checks.set([(target(0), RULES), (target(1), RULES)].into());
    assert_eq!(checks.prober(&target(1)), None);
    checks.assign(&two);
    assert_eq!(checks.prober(&target(1)), Some("node-1"));
    checks.set([(target(1), RULES)].into());
    assert_eq!(checks.prober(&target(0)), None, "it has no probes any more");
}

#[test]
fn a12_the_word_of_whoever_probes_holds_until_another_knows() {
    let mut checks = with_targets(1);
    checks.assign(&nodes(0..1));
    let ill = |checks: &Checks, now_ms| checks.ill(now_ms).contains_key(&target(0));
    let finding = |seq, health| Finding { seq, health, reason: "503".to_owned() };
    checks.found("node-7", &target(0), &finding(9, Health::Ill), 0);
    assert!(!ill(&checks, 0), "nobody asked it");
    checks.found("node-0", &target(0), &finding(5, Health::Ill), 1_000);
    assert!(ill(&checks, 45_999) && !ill(&checks, 46_000));
    // An older one was overtaken; one that does not know says nothing.
    checks.found("node-0", &target(0), &finding(4, Health::Well), 1_500);
    checks.found("node-0", &target(0), &finding(6, Health::Unknown), 1_600);
    assert!(ill(&checks, 1_600));
    // Another takes over: until it knows, what was known holds.
    checks.assign(&nodes(1..2));
    checks.found("node-1", &target(0), &finding(1, Health::Unknown), 8_000);
    checks.found("node-0", &target(0), &finding(9, Health::Well), 8_000);
    assert!(ill(&checks, 45_999));
    checks.found("node-1", &target(0), &finding(2, Health::Well), 9_000);
    assert!(!ill(&checks, 9_000));
    // Whoever began anew counts from the beginning.
    checks.found("node-1", &target(0), &finding(1, Health::Ill), 20_000);
    assert!(ill(&checks, 20_000));
    assert!(!checks.ill(u64::MAX).contains_key(&target(0)));
}
