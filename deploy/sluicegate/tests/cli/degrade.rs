//! Degradations: how far they have gone, and setting that by hand.

use serde_json::{Value, json};
use sluicegate_model::{Kind, ResourceRef};
use sluicegate_proto::{
    admin::v1::{DegradationManual, DegradationReading, DegradationStatus, DegradeStatusReply},
    resource::v1::{Degradation, resource::Spec},
};

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
degradations:
  - name: memory
    tool_timeout_window_ms: 5000
    levels: [{ level: 2, enter_when: tool_timeouts > 2 }]
"#;

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    let memory = DegradationStatus {
        degradation: "memory".into(),
        level: Some(2),
        cause: "readings".into(),
        reason: "tool_timeouts > 2".into(),
        readings: vec![DegradationReading { name: "tool_timeouts".into(), value: 3.0 }],
        since_unix_ms: 1,
        unknown: vec!["max(x)\u{1b}[31m".into()],
        manual: Some(DegradationManual { level: 1, left_ms: 90_000, comment: "c".into() }),
    };
    let other = DegradationStatus { degradation: "other".into(), ..DegradationStatus::default() };
    fake.state().degradations =
        DegradeStatusReply { degradations: vec![memory, other], works_on_them: true };
    (fake, program)
}

fn stored(fake: &Fake) -> Degradation {
    let state = fake.state();
    let (resource, _) = &state.resources[&ResourceRef::new(Kind::Degradation, "memory")];
    match &resource.spec {
        Some(Spec::Degradation(spec)) => spec.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b4_the_table_tells_level_reason_and_what_is_unknown() {
    let (fake, program) = start().await;
    let table = program.ok(&["degrade", "status"]).await;
    let memory = table.lines().find(|line| line.starts_with("memory")).unwrap();
    assert!(memory.contains("tool_timeouts > 2 (tool_timeouts = 3)"), "{table}");
    assert!(memory.contains("1 for 1m") && !memory.contains('\u{1b}'), "{table}");
    let other = table.lines().find(|line| line.starts_with("other")).unwrap();
    assert!(other.contains('?'), "{table}");
    let text = program.ok(&["degrade", "status", "memory", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&text).unwrap();
    let memory = &value["degradations"][0];
    assert_eq!((&memory["level"], &memory["cause"]), (&json!(2), &json!("readings")));
    assert_eq!(memory["since"], "1970-01-01T00:00:00.001Z");
    assert_eq!(memory["manual"], json!({ "level": 1, "left_ms": 90_000, "comment": "c" }));
    assert_eq!(value["degradations"].as_array().map(Vec::len), Some(1));
    fake.state().degradations.works_on_them = false;
    let said = program.run(&["degrade", "status"]).await;
    assert!(said.err.contains("another replica works on them"), "{}", said.err);
}

#[tokio::test]
async fn b4_by_hand_keeps_everything_else_and_nobody_elses_change_is_undone() {
    let (fake, program) = start().await;
    let set = ["degrade", "set", "memory", "2", "--for", "10m", "--comment", "restart"];
    program.ok(&set).await;
    let spec = stored(&fake);
    let manual = spec.manual.unwrap();
    assert_eq!((manual.level, manual.comment.as_str()), (2, "restart"));
    assert_eq!((spec.tool_timeout_window_ms, spec.levels.len()), (Some(5_000), 1));
    let (expected, comment) = {
        let state = fake.state();
        let applied = state.applied.last().unwrap();
        (applied.changes[0].expect_version, applied.comment.clone())
    };
    assert!(expected.is_some_and(|version| version > 0));
    assert_eq!(comment, "restart");
    program.ok(&["degrade", "clear", "memory"]).await;
    assert_eq!(stored(&fake).manual, None);
    let applied = fake.state().applied.len();
    program.ok(&["degrade", "clear", "memory"]).await;
    assert_eq!(fake.state().applied.len(), applied, "there was nothing to take back");
}
