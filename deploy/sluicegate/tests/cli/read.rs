//! Commands that show the configuration and the fleet.

use std::time::Duration;

use serde_json::Value;
use sluicegate_proto::{
    admin::v1::{DataPlane, VersionedResource, WatchEvent},
    policy::v1::{LedgerStatus, NodeIdentity, Point, Rejected},
    resource::v1::{Resource, ResourceRef, Tenant, resource::Spec},
};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: http://u, headers: { x-note: "no: # 1" } }
  - { name: q, dialect: openai-chat, base_url: http://q, keyless: true }
credentials:
  - { name: p/held, provider: p, secret: { value: sk-canary } }
  - { name: p/env, provider: p, secret: { env: KEY } }
models:
  - { name: m, aliases: ["m-*"], targets: [{ provider: p }, { provider: q, priority: 1 }] }
tenants: [{ name: t }, { name: t/u, parent: t }]
api_keys:
  - { name: k, tenant: t, models: [m], secret: { value: sk-caller } }
"#;

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    (fake, program)
}

#[tokio::test]
async fn get_prints_tables() {
    let (fake, program) = start().await;
    // Three pages and a rest.
    fake.state().page = 2;
    let providers = program.ok(&["get", "providers"]).await;
    assert_eq!(
        providers,
        "NAME  DIALECT      BASE_URL  KEYS     VERSION\n\
         p     openai-chat  http://u  pool     1\n\
         q     openai-chat  http://q  keyless  1\n"
    );
    let all = program.ok(&["get"]).await;
    for part in ["[providers]\n", "[credentials]\n", "p/env", "env:KEY", "held:", "[api_keys]\n"] {
        assert!(all.contains(part), "{all}\n  lacks: {part}");
    }
    let quiet = program.ok(&["get", "tenants", "--prefix", "t/", "-q"]).await;
    assert_eq!(quiet, "t/u  t  1\n");
    let of_tenant = program.ok(&["get", "api_keys", "--tenant", "t", "-q"]).await;
    assert_eq!(of_tenant, "k  t  -  m  never  active  1\n");
    let none = program.run(&["get", "models", "--prefix", "zzz"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    program.run(&["get", "model", "zzz"]).await.fails(1, &["model/zzz does not exist"]);
}

#[tokio::test]
async fn yaml_goes_back_in() {
    let (_fake, program) = start().await;
    let yaml = program.ok(&["get", "-o", "yaml"]).await;
    assert!(yaml.starts_with("# revision 1\nproviders:\n  - name: p\n"), "{yaml}");
    assert!(!yaml.contains("canary") && !yaml.contains("sk-caller"), "{yaml}");
    let valid = program.run_with(&["validate", "-f", "-"], &yaml).await;
    assert_eq!((valid.code, valid.out.as_str()), (0, "stdin: 8 resources, valid\n"), "{valid:?}");
    let same = program.run_with(&["diff", "-f", "-", "--prune=all"], &yaml).await;
    assert_eq!((same.code, same.out.as_str()), (0, ""), "{same:?}");
}

#[tokio::test]
async fn json_has_versions() {
    let (_fake, program) = start().await;
    let one = program.ok(&["get", "model", "m", "-o", "json"]).await;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&one["kind"], &one["version"]), (&"model".into(), &1.into()));
    assert_eq!(one["spec"]["targets"][1]["priority"], 1);
    let all: Value = serde_json::from_str(&program.ok(&["get", "-o", "json"]).await).unwrap();
    assert_eq!(all["resources"].as_array().unwrap().len(), 8);
    assert_eq!(all["revision"], 1);
}

#[tokio::test]
async fn describe_names_neighbours() {
    let (_fake, program) = start().await;
    let text = program.ok(&["describe", "model", "m"]).await;
    assert!(
        text.starts_with("model/m\n  last changed at revision 1, read at revision 1\n"),
        "{text}"
    );
    assert!(
        text.contains("\nuses\n  provider/p (targets[0])\n  provider/q (targets[1])\n"),
        "{text}"
    );
    assert!(text.ends_with("\nused by\n  api_key/k (models[0])\n"), "{text}");
    let json = program.ok(&["describe", "tenant", "t", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["uses"], Value::Array(vec![]));
    assert_eq!(json["used_by"][0]["name"], "t/u");
    assert_eq!(json["used_by"][1]["fields"][0], "tenant");
    program.run(&["describe", "tenant", "x"]).await.fails(1, &["tenant/x does not exist"]);
}

#[tokio::test]
async fn nodes_show_who_is_behind() {
    let (fake, program) = start().await;
    let point = |epoch: &str, revision| Point { epoch: epoch.as_bytes().to_vec().into(), revision };
    fake.state().planes = vec![
        DataPlane {
            node: Some(NodeIdentity {
                node_id: "dp-1".into(),
                address: "10.0.0.1:8080".into(),
                build: "0.1.0".into(),
                ..NodeIdentity::default()
            }),
            acknowledged: Some(point("e", 1)),
            keys: Some(point("e", 9)),
            lag_ms: 1_500,
            rejected: vec![Rejected {
                r#ref: Some(ResourceRef { kind: "model".into(), name: "m".into() }),
                version: 1,
                serving_version: 0,
                reason: "unknown dialect".into(),
            }],
            requests_in_flight: 4,
            uptime_ms: 90_000,
            connected: true,
            ledger: Some(LedgerStatus {
                mode: "last_share".into(),
                degraded_ms: 61_000,
                usage_waiting: 12,
                oldest_ms: 60_000,
                ..LedgerStatus::default()
            }),
            ..DataPlane::default()
        },
        DataPlane {
            peer: "10.0.0.2:40000".into(),
            acknowledged: Some(point("other", 7)),
            ..DataPlane::default()
        },
    ];
    let text = program.ok(&["nodes"]).await;
    assert!(
        text.contains(
            "dp-1  10.0.0.1:8080   0.1.0  1                   9     1s   1         4          1m30s   \
             last_share, for 1m1s, 12 uncounted, oldest 1m  connected"
        ),
        "{text}"
    );
    assert!(text.contains("7 of another store") && text.contains("away"), "{text}");
    assert!(
        text.contains("dp-1 refused model/m version 1, serves nothing instead: unknown dialect")
    );
    assert!(text.ends_with("2 data planes, head revision 1, says cp-1\n"), "{text}");
    let json: Value = serde_json::from_str(&program.ok(&["nodes", "-o", "json"]).await).unwrap();
    assert_eq!(json["nodes"][0]["acknowledged_revision"], 1);
    assert_eq!(json["nodes"][0]["keys_revision"], 9);
    assert_eq!(json["nodes"][1]["same_epoch"], false);
    assert_eq!(json["nodes"][0]["ledger"]["usage_waiting"], 12);
    assert_eq!(json["nodes"][1]["ledger"], Value::Null);
}

#[tokio::test]
async fn nodes_watch_goes_on() {
    let (_fake, program) = start().await;
    let mut command = program.command(&["nodes", "--watch", "--interval-ms", "100", "-o", "json"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await;
        let line: Value = serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap();
        assert_eq!(line["head_revision"], 1);
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn watch_takes_up_a_lost_stream() {
    let (fake, program) = start().await;
    let tenant = |name: &str, version| VersionedResource {
        resource: Some(Resource {
            spec: Some(Spec::Tenant(Tenant { name: name.into(), ..Tenant::default() })),
        }),
        version,
    };
    let at = |revision| Some(Point { revision, ..Point::default() });
    let state = WatchEvent { at: at(5), puts: vec![tenant("a", 5)], reset: true, deletes: vec![] };
    let gone = ResourceRef { kind: "tenant".into(), name: "a".into() };
    let change = WatchEvent { at: at(6), deletes: vec![gone], ..WatchEvent::default() };
    fake.state().events = vec![vec![state], vec![change]];

    let mut child = program.command(&["watch", "tenant"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let line = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await;
        seen.push(line.unwrap().unwrap().unwrap());
    }
    child.kill().await.unwrap();
    assert_eq!(
        seen,
        [
            "       5  reset   what follows replaces everything before",
            "       5  put     tenant/a",
            "       6  delete  tenant/a",
        ]
    );
    let watched = &fake.state().watched;
    assert_eq!(watched[0].after_revision, 0);
    assert_eq!(watched[1].after_revision, 5);
    assert_eq!(watched[1].kinds, ["tenant"]);
}
