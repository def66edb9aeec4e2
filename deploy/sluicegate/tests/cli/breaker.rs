//! Targets: how they stand, and what operators want of them.

use serde_json::Value;
use sluicegate_proto::{
    admin::v1::{BreakerStatusReply, ForcedState, NodeView, TargetStatus},
    health::v1::{Finding, State, Target, Window, finding::Health},
    resource::v1::{Force, resource::Spec},
};

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: "http://u", keyless: true }
models:
  - { name: m, targets: [{ provider: p }] }
"#;

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    let view = |node: &str, state: State| NodeView {
        node_id: node.into(),
        window: Some(Window { state: state.into(), own: true, ..Window::default() }),
        ..NodeView::default()
    };
    fake.state().breakers = BreakerStatusReply {
        targets: vec![TargetStatus {
            target: Some(Target { provider: "p".into(), model: "m".into() }),
            state: State::Open.into(),
            reason: "2 of 3 nodes\u{1b}[31m".into(),
            since_ms: 4_000,
            left_ms: 90_000,
            strikes: 2,
            nodes: vec![view("dp-1", State::Open), view("dp-2", State::Closed)],
            forced: Some(ForcedState {
                name: "breaker/p/m".into(),
                open: true,
                expires_at: "2027-01-01T00:00:00Z".into(),
                comment: "incident".into(),
            }),
            prober: "dp-2".into(),
            finding: Some(Finding {
                health: Health::Ill.into(),
                reason: "503\u{1b}[31m".into(),
                ..Finding::default()
            }),
        }],
        leader: "cp-1".into(),
        health: "away: no".into(),
        retries_off_until: String::new(),
        retries_off_comment: "a storm".into(),
    };
    (fake, program)
}

/// The forces that there are.
fn forces(fake: &Fake) -> Vec<Force> {
    let state = fake.state();
    let all = state.resources.values().map(|(resource, _)| resource.clone());
    let force = |spec| match spec {
        Spec::Force(force) => Some(force),
        _ => None,
    };
    all.filter_map(|resource| resource.spec).filter_map(force).collect()
}

#[tokio::test]
async fn b3_targets_are_shown_with_how_they_stand() {
    let (fake, program) = start().await;
    let said = program.run(&["breaker", "status"]).await;
    let lines: Vec<Vec<&str>> =
        said.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0].join(" "),
        "PROVIDER MODEL STATE SINCE LEFT STRIKES NODES REASON FORCED HEALTH"
    );
    assert_eq!(lines[1][..7], ["p", "m", "open", "4s", "1m30s", "2", "1/2"]);
    assert!(said.out.contains("open until 2027-01-01T00:00:00Z: incident"), "{}", said.out);
    assert!(said.out.contains("(dp-2)"), "{}", said.out);
    assert!(!said.out.contains('\u{1b}'), "no escapes reach the terminal");
    assert!(said.err.contains("retries are off: a storm"), "{}", said.err);
    assert!(said.err.contains("the ledger is away"), "{}", said.err);

    let out = program.ok(&["breaker", "status", "p/*", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    let target = &value["targets"][0];
    assert_eq!((&target["state"], &target["strikes"]), (&"open".into(), &2.into()));
    assert_eq!(target["nodes"][0]["node"], "dp-1");
    assert_eq!(
        (&target["health"]["prober"], &target["health"]["is"]),
        (&"dp-2".into(), &"ill".into())
    );
    assert_eq!(value["retries_off"]["comment"], "a storm");
    assert_eq!(fake.state().breakers_asked, ["", "p/*"]);
}

#[tokio::test]
async fn b3_operators_force_a_target_and_take_it_back() {
    let (fake, program) = start().await;
    program.ok(&["breaker", "open", "p/m", "--for", "10m", "--comment", "incident"]).await;
    let made = forces(&fake);
    let [force] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!((force.target.as_str(), force.breaker.as_str()), ("p/m", "open"));
    assert_eq!((force.name.as_str(), force.comment.as_str()), ("breaker/p/m", "incident"));
    assert!(!force.expires_at.is_empty());
    // Another one takes its place.
    program.ok(&["breaker", "close", "p/m", "--for", "1h", "--comment", "test"]).await;
    let made = forces(&fake);
    assert_eq!((made.len(), made[0].breaker.as_str()), (1, "closed"));
    program.ok(&["breaker", "auto", "p/m"]).await;
    assert_eq!(forces(&fake), []);
    let refused = program.run(&["breaker", "auto", "p/m"]).await;
    assert_eq!(refused.code, 1);
    for words in [&["open", "p/m", "--for", "10m"][..], &["close", "p/m", "--comment", "x"]] {
        let refused = program.run(&[&["breaker"], words].concat()).await;
        assert_eq!(refused.code, 2, "{words:?}");
    }
    let refused = program.run(&["breaker", "open", "q/m", "--for", "1m", "--comment", "x"]).await;
    assert_eq!(refused.code, 1, "there is no such provider");
}

#[tokio::test]
async fn b3_operators_switch_off_retries() {
    let (fake, program) = start().await;
    let off = ["breaker", "retries", "off", "--for", "10m", "--comment", "a storm"];
    program.ok(&off).await;
    program.ok(&off).await;
    let made = forces(&fake);
    assert_eq!((made.len(), made[0].retries.as_str()), (1, "off"));
    program.ok(&["breaker", "retries", "on"]).await;
    assert_eq!(forces(&fake), []);
}
