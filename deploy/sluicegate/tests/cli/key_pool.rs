//! Provider keys: how they stand, and setting it by hand.

use serde_json::Value;
use sluicegate_model::{Kind, ResourceRef};
use sluicegate_proto::{
    admin::v1::{CredentialStatus, set_pool_state_request::State},
    pool::v1::{Cell, CellState},
    resource::v1::resource::Spec,
};

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
providers:
  - name: p
    dialect: openai-chat
    base_url: http://u
    keys:
      - { name: a, secret: { value: sk-a } }
      - { name: b, secret: { value: sk-b }, weight: 3, account: shared }
    key_pool: { exhausted_ms: 2000, last_resort: soonest }
models:
  - { name: m, targets: [{ provider: p }] }
"#;

fn status(credential: &str, state: &str, cells: Vec<Cell>) -> CredentialStatus {
    CredentialStatus {
        credential: credential.into(),
        provider: "p".into(),
        state: state.into(),
        left_ms: cells.first().map_or(0, |cell| cell.left_ms),
        reason: cells.first().map(|cell| cell.reason.clone()).unwrap_or_default(),
        model: cells.first().map(|cell| cell.model.clone()).unwrap_or_default(),
        cells,
        ..CredentialStatus::default()
    }
}

fn cell(model: &str, state: CellState) -> Cell {
    Cell {
        model: model.into(),
        state: state.into(),
        left_ms: 90_000,
        strikes: 2,
        reason: "401: no\u{1b}[31m".into(),
        by: "n1".into(),
        ..Cell::default()
    }
}

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    fake.state().pool = vec![
        status("p/a", "refused", vec![cell("", CellState::Refused)]),
        status("p/b", "resting", vec![cell("m1", CellState::Resting)]),
    ];
    (fake, program)
}

#[tokio::test]
async fn c5_credentials_are_listed_with_how_they_stand() {
    let (fake, program) = start().await;
    let out = program.ok(&["get", "credentials"]).await;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["NAME", "PROVIDER", "SECRET", "WEIGHT", "STATE", "LEFT", "REASON", "VERSION"]
    );
    assert_eq!(lines[1][3..6], ["1", "refused", "1m30s"], "{out}");
    assert!(lines[1].contains(&"401:"), "{out}");
    assert!(lines[2].contains(&"resting") && lines[2].contains(&"m1:"), "{out}");
    assert!(!out.contains('\u{1b}'), "no escapes reach the terminal: {out}");

    let out = program.ok(&["get", "credentials", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    let first = &value["resources"][0];
    assert_eq!((&first["name"], &first["status"]["state"]), (&"p/a".into(), &"refused".into()));
    assert_eq!(first["status"]["left_ms"], 90_000);
    let out = program.ok(&["get", "credential", "p/b", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["status"]["model"], "m1");
    assert_eq!(value["spec"]["account"], "shared");
    // The form of files has no place for it.
    assert!(!program.ok(&["get", "credentials", "-o", "yaml"]).await.contains("status"));
    drop(fake);
}

#[tokio::test]
async fn c5_the_pool_is_shown_to_people_and_programs() {
    let (fake, program) = start().await;
    let out = program.ok(&["key-pool", "status"]).await;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..6], ["p/a", "p", "all", "refused", "1m30s", "2"], "{out}");
    assert_eq!(lines[2][..5], ["p/b", "p", "all", "up", "-"]);
    assert_eq!(lines[3][..4], ["p/b", "p", "m1", "resting"]);
    let out = program.ok(&["key-pool", "status", "p/a", "--provider", "p", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["health"], "ready");
    assert_eq!(value["credentials"][0]["cells"][0]["strikes"], 2);
    let asked = fake.state().pool_asked.pop().unwrap();
    assert_eq!((&*asked.credential, &*asked.provider), ("p/a", "p"));
}

#[tokio::test]
async fn c5_a_key_is_set_to_rest_disabled_and_enabled() {
    let (fake, program) = start().await;
    let rest = ["key-pool", "rest", "p/a", "--for", "10m", "--model", "m1", "--comment", "why"];
    assert_eq!(program.ok(&rest).await, "p/a rests with model m1 for 10m\n");
    let Some(State::Rest(asked)) = fake.state().pool_set.pop().unwrap().state else { panic!() };
    assert_eq!((asked.for_ms, &*asked.model, &*asked.comment), (600_000, "m1", "why"));

    let disabled = |fake: &Fake| {
        let reference = ResourceRef::new(Kind::Credential, "p/a");
        let state = fake.state();
        match state.resources[&reference].0.spec.clone() {
            Some(Spec::Credential(spec)) => spec.disabled,
            other => panic!("{other:?}"),
        }
    };
    let out = program.ok(&["key-pool", "disable", "p/a", "--comment", "leaked"]).await;
    assert!(out.contains("update  credential  p/a\n"), "{out}");
    assert!(disabled(&fake));
    assert_eq!(fake.state().history.last().unwrap().0.comment, "leaked");
    let again = program.run(&["key-pool", "disable", "p/a"]).await;
    assert_eq!((again.code, again.err.as_str()), (0, "p/a is disabled already\n"));

    let out = program.ok(&["key-pool", "enable", "p/a"]).await;
    assert!(out.starts_with("p/a is in use since revision 3"), "{out}");
    assert!(!disabled(&fake));
    assert!(matches!(fake.state().pool_set.pop().unwrap().state, Some(State::Enable(_))));
    let out = program.ok(&["key-pool", "enable", "p/a", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["revision"], &value["status"]["credential"]), (&Value::Null, &"p/a".into()));
}

#[tokio::test]
async fn unknown_names_and_spans_are_told() {
    let (_fake, program) = start().await;
    for verb in [&["enable"][..], &["disable"]] {
        let arguments = [&["key-pool"], verb, &["p/A"]].concat();
        program.run(&arguments).await.fails(1, &["credential/p/A"]);
    }
    let rest = |span| ["key-pool", "rest", "p/a", "--for", span];
    program.run(&rest("soon")).await.fails(2, &["90s, 10m, 12h"]);
    program.run(&["key-pool", "rest", "p/a"]).await.fails(2, &["--for"]);
}
