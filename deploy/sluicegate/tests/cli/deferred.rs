//! Requests that are kept for later.

use serde_json::{Value, json};
use sluicegate_proto::{
    admin::v1::DeferredRequest,
    deferred::v1::{Caller, State},
};

use crate::{fake::Fake, program::Program};

fn request(id: &str, state: State, age_ms: u64, status: u32) -> DeferredRequest {
    DeferredRequest {
        id: id.into(),
        caller: Some(Caller { tenant: "a".into(), key: "al\u{1b}ice".into() }),
        model: "m".into(),
        state: state.into(),
        attempt: 2,
        age_ms,
        left_ms: 90_000,
        ahead: 7,
        status,
    }
}

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    fake.state().deferred = vec![
        request("def_3", State::Waiting, 1_000, 0),
        request("def_1", State::Done, 5_000, 200),
        request("def_2", State::Running, 3_000, 0),
    ];
    (fake, Program::at(address))
}

#[tokio::test]
async fn b2_requests_are_listed_over_all_pages_the_oldest_first() {
    let (fake, program) = start().await;
    let out = program.ok(&["deferred", "list"]).await;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["ID", "MODEL", "TENANT", "KEY", "STATUS", "BEGUN", "AGE", "LEFT"],
        "{out}"
    );
    let ids: Vec<_> = lines[1..].iter().map(|line| line[0]).collect();
    assert_eq!(ids, ["def_1", "def_2", "def_3"], "{out}");
    assert_eq!(lines[3], ["def_3", "m", "a", "al\u{fffd}ice", "queued", "2", "1s", "1m30s"]);
    let arguments = ["deferred", "list", "--model", "m", "--status", "queued", "-o", "json"];
    let value: Value = serde_json::from_str(&program.ok(&arguments).await).unwrap();
    assert_eq!((&value["more"], value["requests"].as_array().unwrap().len()), (&json!(false), 3));
    let asked = fake.state().deferred_asked.last().cloned().unwrap();
    assert_eq!((asked.model.as_str(), asked.state()), ("m", State::Waiting));
    let value = program.ok(&["deferred", "list", "--limit", "1", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&value).unwrap();
    assert_eq!((&value["more"], &value["requests"][0]["status"]), (&json!(true), &json!("done")));
}

#[tokio::test]
async fn b2_one_is_shown_and_cancelled() {
    let (fake, program) = start().await;
    let out = program.ok(&["deferred", "get", "def_1", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["status_code"], &value["ahead"]), (&json!(200), &json!(7)), "{out}");
    for (id, cancelled) in [("def_2", true), ("def_1", false)] {
        let out = program.ok(&["deferred", "cancel", id, "-o", "json"]).await;
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value, json!({ "id": id, "cancelled": cancelled }));
    }
    assert_eq!(fake.state().deferred_cancelled, ["def_2", "def_1"]);
    program.run(&["deferred", "get", "def_9"]).await.fails(1, &["def_9"]);
}
