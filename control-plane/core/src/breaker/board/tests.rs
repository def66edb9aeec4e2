use sluicegate_protocol::breaker::Health;

use super::*;

fn key() -> TargetKey {
    TargetKey::new("p", "m")
}

fn verdict(prober: Option<&str>) -> Verdict {
    Verdict {
        word: Word::Withdrawn { target: key(), generation: 3 },
        grant: None,
        nodes: 1,
        strikes: 0,
        since_ms: 0,
        prober: prober.map(str::to_owned),
    }
}

fn check(ttl_ms: u64) -> Vec<Check> {
    vec![Check { target: key(), ttl_ms }]
}

#[test]
fn a12_whoever_probes_is_told_again_and_others_once() {
    let mut board = Board::default();
    board.learn("k", verdict(Some("a")), 1, 0);
    let first = board.version;
    let told = |board: &Board, version, node| {
        let news = board.since(version, node, 1_000);
        (news.words.len(), news.checks)
    };
    assert_eq!(told(&board, 0, "a"), (1, check(29_000)));
    assert_eq!(told(&board, 0, "b"), (1, check(0)));
    // The same again.
    board.learn("k", verdict(Some("a")), 2, 1_000);
    assert_eq!(told(&board, first, "a"), (0, check(30_000)));
    assert_eq!(told(&board, first, "b"), (0, vec![]));
    assert_eq!(told(&board, 0, "b"), (1, check(0)), "who comes anew is told all");
    // Another is to probe.
    let second = board.version;
    board.learn("k", verdict(Some("b")), 3, 1_000);
    assert_eq!(told(&board, second, "a"), (1, check(0)));
    assert_eq!(told(&board, second, "b"), (1, check(30_000)));
    board.learn("k", verdict(None), 4, 1_000);
    assert_eq!(told(&board, 0, "b"), (1, vec![]));
    assert_eq!(board.since(0, "b", u64::MAX).checks, vec![]);
}

#[test]
fn a12_what_is_found_and_who_is_there_goes_to_other_replicas() {
    let mut board = Board::default();
    let finding = |health| (key(), Finding { seq: 1, health, reason: "503".to_owned() });
    let report = |health| Report {
        node: "n".to_owned(),
        checks: true,
        findings: vec![finding(health)],
        ..Report::default()
    };
    assert!(board.report(&report(Health::Well), 0));
    assert!(!board.report(&report(Health::Well), 100), "nothing new");
    assert!(board.report(&report(Health::Ill), 200), "that is");
    assert_eq!(board.reports(300), [report(Health::Ill)]);
    // Without anything to tell it is there all the same; without health probes that is of no interest.
    let quiet = Report { node: "n".to_owned(), checks: true, ..Report::default() };
    board.report(&quiet, 1_000);
    assert_eq!(board.reports(1_000), std::slice::from_ref(&quiet));
    assert_eq!(board.reports(9_000), [], "it is silent");
    board.report(&Report { checks: false, ..quiet }, 9_000);
    assert_eq!(board.reports(9_000), []);
    board.tidy(u64::MAX);
    assert_eq!(board.findings, 0);
}
