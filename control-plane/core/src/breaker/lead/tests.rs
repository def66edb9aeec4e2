use sluicegate_protocol::breaker::{CheckRules, Finding, Health};

use super::*;

const RULES: CheckRules = CheckRules { interval_ms: 1_000, rise: 2, fall: 3 };

fn key() -> TargetKey {
    TargetKey::new("p", "m")
}

fn plan(checks: bool) -> Arc<Plan> {
    Arc::new(Plan {
        rules: [(key(), Arc::new(Rules::default()))].into(),
        checks: if checks { [(key(), RULES)].into() } else { BTreeMap::new() },
        groups: vec![(vec![key()], 0.5)],
        ..Plan::default()
    })
}

fn report(node: &str, findings: &[(u64, Health)]) -> Report {
    let finding = |(seq, health): &(u64, Health)| {
        (key(), Finding { seq: *seq, health: *health, reason: "503".to_owned() })
    };
    Report {
        node: node.to_owned(),
        checks: true,
        findings: findings.iter().map(finding).collect(),
        ..Report::default()
    }
}

/// What is written at this time.
fn written(lead: &mut Lead, now_ms: u64) -> Vec<(&'static str, Option<String>)> {
    let verdicts = lead.tick(now_ms, 0);
    lead.written(&verdicts);
    verdicts.iter().map(|it| (kind(&it.word), it.prober.clone())).collect()
}

#[test]
fn a12_who_probes_is_chosen_once_all_are_heard_and_said_again() {
    let mut lead = Lead::begin(plan(true), vec![], 1, 0);
    for second in 0..4 {
        lead.report(&report("n", &[]), second * 1_000);
        assert_eq!(written(&mut lead, second * 1_000), [], "others may come");
    }
    let mut said = Vec::new();
    for tick in 8..60 {
        lead.report(&report("n", &[]), tick * 500);
        let verdicts = written(&mut lead, tick * 500);
        said.extend(verdicts.into_iter().map(|verdict| (tick * 500, verdict)));
    }
    let n = || ("closed", Some("n".to_owned()));
    assert_eq!(said, [(4_000, n()), (14_000, n()), (24_000, n())]);
    // Nobody is there any more, then another.
    assert_eq!(written(&mut lead, 40_000), [("closed", None)]);
    lead.report(&report("o", &[]), 40_000);
    assert_eq!(written(&mut lead, 40_500), [("closed", Some("o".to_owned()))]);
    // The configuration has no health probes any more: it is said once, and then forgotten.
    lead.follow(plan(false));
    assert_eq!(written(&mut lead, 41_000), [("closed", None)]);
    assert_eq!(written(&mut lead, 60_000), []);
    assert!(lead.said.is_empty());
}

#[test]
fn a12_what_is_ill_is_written_and_nothing_is_waited_for() {
    let mut lead = Lead::begin(plan(true), vec![], 1, 0);
    lead.report(&report("n", &[]), 4_000);
    written(&mut lead, 4_000);
    lead.report(&report("n", &[(1, Health::Ill)]), 4_500);
    let verdicts = lead.tick(4_500, 0);
    let [verdict] = verdicts.as_slice() else { panic!("{verdicts:?}") };
    assert_eq!((kind(&verdict.word), verdict.prober.as_deref()), ("ill", Some("n")));
    assert_eq!(lead.next_ms(4_500), None);
    // An heir has it ill, too, and hears whoever probes at once.
    let stored = Verdict::decode(&verdict.encode()).unwrap();
    assert_eq!(stored, *verdict);
    let mut heir = Lead::begin(plan(true), vec![(stored, 1_000)], 1, 0);
    assert_eq!(written(&mut heir, 500), [("ill", Some("n".to_owned()))]);
    heir.report(&report("n", &[(2, Health::Well)]), 1_000);
    assert_eq!(written(&mut heir, 1_000), [("half_open", Some("n".to_owned()))]);
}
