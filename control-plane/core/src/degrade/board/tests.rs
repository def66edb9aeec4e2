use sluicegate_model::document::{Document, References};

use super::*;
use crate::degrade::exposition::samples;

fn specs(text: &str) -> Vec<Degradation> {
    let document = Document::parse("f", text, References::Open).expect("it is valid");
    let parsed =
        document.resources.iter().map(|declared| {
            match sluicegate_model::Resource::parse(&declared.resource).expect("it is valid") {
                sluicegate_model::Resource::Degradation(spec) => spec,
                other => panic!("{other:?}"),
            }
        });
    parsed.collect()
}

const TEXT: &str = "degradations:
  - name: memory
    models: [qwen]
    sources: [{ provider: a, interval_ms: 1000 }, { provider: b, interval_ms: 1000 }]
    levels:
      - { level: 2, enter_when: max(mem) > 0.85, leave_when: max(mem) < 0.7 }
      - { level: 3, enter_when: max(mem) > 0.95 && breaker_open > 0 }
  - name: tools
    tenants: [t]
    levels: [{ level: 1, enter_when: tool_timeouts >= 2, strip_tools: [shell] }]
";

fn at(ms: u64) -> Now {
    Now { ms, unix_ms: 1_800_000_000_000 + ms }
}

fn scraped(board: &mut Board, provider: &str, body: &str, ms: u64) {
    let found = samples(body.as_bytes(), |name| name == "mem").expect("they are metrics");
    board.scraped((provider.into(), "/metrics".into()), found, at(ms));
}

fn levels(board: &mut Board, ms: u64) -> [u32; 2] {
    board.evaluate(at(ms));
    let levels = board.levels(at(ms));
    ["memory", "tools"].map(|name| levels[name].level.number())
}

#[test]
fn b4_metrics_of_all_sources_count_while_they_are_fresh() {
    let mut board = Board::default();
    assert!(board.configure(&specs(TEXT), at(0)).is_empty());
    let sources = board.sources();
    assert_eq!(sources.len(), 2);
    assert!(sources.values().all(|wanted| wanted.metrics == ["mem"]));
    assert_eq!(levels(&mut board, 0), [0, 0]);
    scraped(&mut board, "a", "mem{gpu=\"0\"} 0.5\nmem{gpu=\"1\"} 0.9\nother 3", 10);
    assert_eq!(levels(&mut board, 10), [2, 0]);
    scraped(&mut board, "b", "mem 0.1", 20);
    assert_eq!(levels(&mut board, 20), [2, 0], "the largest of all counts");
    // The first is too old after three intervals; the second says that all is well.
    scraped(&mut board, "b", "mem 0.1", 3_000);
    assert_eq!(levels(&mut board, 3_010), [2, 0]);
    assert_eq!(levels(&mut board, 3_011), [0, 0]);
}

#[test]
fn b4_breakers_and_memory_together() {
    let mut board = Board::default();
    board.configure(&specs(TEXT), at(0));
    scraped(&mut board, "a", "mem 0.99", 0);
    assert_eq!(levels(&mut board, 0), [2, 0], "of breakers nothing is known");
    assert_eq!(board.levels(at(0))["memory"].unknown, ["breaker_open"]);
    let of = |model: &str, open| Breaker { model: model.into(), open };
    board.breakers(vec![of("other", true), of("qwen", false)], at(1));
    assert_eq!(levels(&mut board, 1), [2, 0], "another model's is open");
    board.breakers(vec![of("qwen", true), of("qwen", false)], at(2));
    assert_eq!(levels(&mut board, 2), [3, 0]);
    assert!(board.levels(at(2))["memory"].unknown.is_empty());
    scraped(&mut board, "a", "mem 0.99", BREAKERS_KEPT_MS + 3);
    assert_eq!(levels(&mut board, BREAKERS_KEPT_MS + 3), [3, 0], "unknown ends nothing");
}

#[test]
fn b4_two_tool_timeouts_of_the_tenant() {
    let mut board = Board::default();
    board.configure(&specs(TEXT), at(0));
    board.tool_timeouts("m", &["other"], 5, at(0));
    board.tool_timeouts("m", &["team", "t"], 1, at(0));
    assert_eq!(levels(&mut board, 0), [0, 0]);
    board.tool_timeouts("m", &["t"], 1, at(50_000));
    assert_eq!(levels(&mut board, 50_000), [0, 1]);
    assert_eq!(levels(&mut board, 70_000), [0, 0], "the first is over a minute ago");
}

#[test]
fn b4_a_change_keeps_what_stays_and_forgets_the_rest() {
    let mut board = Board::default();
    board.configure(&specs(TEXT), at(0));
    scraped(&mut board, "a", "mem 0.9", 0);
    assert_eq!(levels(&mut board, 0), [2, 0]);
    let by_hand = TEXT.replace(
        "    levels: [{ level: 1,",
        "    manual: { level: 1, expires_at: \"2027-01-15T08:00:01Z\", comment: drill }\n    levels: [{ level: 1,",
    );
    let transitions = board.configure(&specs(&by_hand), at(100));
    assert_eq!(transitions.len(), 1, "{transitions:?}");
    assert_eq!(levels(&mut board, 100), [2, 1]);
    assert_eq!(levels(&mut board, 999), [2, 1]);
    assert_eq!(levels(&mut board, 1_000), [2, 0], "its time is over");
    assert!(board.configure(&specs(&by_hand), at(2_000)).is_empty());
    assert_eq!(levels(&mut board, 2_000), [2, 0]);
    board.configure(&[], at(3_000));
    assert!(board.levels(at(3_000)).is_empty() && board.scraped.is_empty());
}
