//! Limits and overrides: as resources, and by the verbs of their own.

use serde_json::Value;
use sluicegate_model::Kind;
use sluicegate_proto::{
    admin::v1::{LimitMeter, LimitStatusReply},
    resource::v1::{Override, resource::Spec},
};

use crate::{fake::Fake, program::Program};

const FILE: &str = r#"
providers:
  - { name: p, dialect: openai-chat, base_url: http://u, keyless: true }
models:
  - { name: m, targets: [{ provider: p }] }
tenants: [{ name: t }]
api_keys:
  - { name: alice, tenant: t, secret: { value: sk-caller } }
limits:
  - { name: rpm, scope: { tenant: "*", key: "*" }, dimension: requests, rate: 3/second;100/minute }
  - { name: budget, scope: { tenant: t }, dimension: cost, amount: 12.5, window: month, strict: true }
"#;

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    program.ok(&["apply", "-f", "f.yaml"]).await;
    (fake, program)
}

/// Every override by name.
fn overrides(fake: &Fake) -> Vec<Override> {
    let state = fake.state();
    let of_kind = state.resources.iter().filter(|(reference, _)| reference.kind == Kind::Override);
    of_kind
        .map(|(_, (resource, _))| match resource.spec.clone() {
            Some(Spec::Override(spec)) => spec,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn a11_an_override_is_made_replaced_and_taken_away() {
    let (fake, program) = start().await;
    let out = program
        .ok(&["limit", "set", "rpm", "--for", "key=alice", "--rate", "1/second", "--during", "10m"])
        .await;
    assert!(out.contains("create  override  rpm/key-alice\n"), "{out}");
    let first = overrides(&fake).remove(0);
    assert_eq!((&*first.limit, &*first.rate), ("rpm", "1/second"));
    assert_eq!(first.subject.as_ref().unwrap().key, "alice");
    assert!(first.expires_at.ends_with('Z'), "{}", first.expires_at);

    // The same subject again, without an end and with a reason.
    let again =
        ["limit", "set", "rpm", "--for", "key=alice", "--rate", "9/minute", "--reason", "b"];
    let out = program.ok(&again).await;
    assert!(out.starts_with("ACTION  KIND      NAME\nupdate  override  rpm/key-alice\n"), "{out}");
    let [only] = overrides(&fake).try_into().unwrap();
    assert_eq!((&*only.rate, &*only.expires_at, &*only.reason), ("9/minute", "", "b"));

    let more = ["--for", "tenant=t", "--for", "key=alice", "--rate", "2/second", "--name", "both"];
    program.ok(&[&["limit", "set", "rpm"], &more[..]].concat()).await;
    assert_eq!(overrides(&fake).len(), 2);
    let out =
        program.ok(&["limit", "unset", "rpm", "--for", "key=alice", "--for", "tenant=t"]).await;
    assert!(out.contains("delete  override  both\n"), "{out}");
    program
        .run(&["limit", "unset", "rpm", "--for", "tenant=t"])
        .await
        .fails(1, &["limit 'rpm' has no override for tenant=t"]);
}

/// One that was made under another name, as in a file, is the one that is replaced.
#[tokio::test]
async fn a11_a_subject_has_one_override_of_a_limit() {
    let (fake, program) = start().await;
    program.write(
        "o.yaml",
        "overrides: [{ name: o, limit: rpm, subject: { key: alice }, rate: 1/s }]\n",
    );
    program.ok(&["apply", "-f", "o.yaml"]).await;
    program.ok(&["limit", "set", "rpm", "--for", "key=alice", "--rate", "2/second"]).await;
    let [only] = overrides(&fake).try_into().unwrap();
    assert_eq!((&*only.name, &*only.rate), ("o", "2/second"));
    // Rehearsing changes nothing.
    let rehearsal = ["limit", "set", "rpm", "--for", "key=bob", "--rate", "2/second", "--dry-run"];
    assert!(program.ok(&rehearsal).await.contains("1 to create"));
    assert_eq!(overrides(&fake).len(), 1);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let (fake, program) = start().await;
    let set = ["limit", "set", "rpm"];
    let with = |more: &[&'static str]| [&set[..], more].concat();
    for (more, said) in [
        (&["--for", "key=alice"][..], "--rate"),
        (&["--rate", "1/s"], "--for"),
        (&["--for", "alice", "--rate", "1/s"], "write it as key=alice"),
        (&["--for", "kye=alice", "--rate", "1/s"], "'kye' is not a part"),
        (&["--for", "key=*", "--rate", "1/s"], "change the limit itself"),
        (&["--for", "key=a", "--for", "key=b", "--rate", "1/s"], "two keys"),
        (&["--for", "key=a", "--rate", "1/s", "--amount", "1"], "--amount"),
        (&["--for", "key=a", "--rate", "1/s", "--during", "10"], "a number and a unit"),
        (&["--for", "key=a", "--rate", "1/s", "--until", "tomorrow"], "RFC 3339"),
        (&["--for", "key=a", "--rate", "1/s", "--until", "2020-01-01T00:00:00Z"], "over already"),
    ] {
        program.run(&with(more)).await.fails(2, &[said]);
    }
    // What only the control plane can tell.
    program
        .run(&with(&["--for", "key=a", "--rate", "1/hour"]))
        .await
        .fails(1, &["override/rpm/key-a", "rate", "limit 'rpm' has no rate for 3600 s"]);
    assert!(overrides(&fake).is_empty());
}

#[tokio::test]
async fn overrides_are_listed_with_the_time_that_is_left() {
    let (_fake, program) = start().await;
    let none = program.run(&["limit", "overrides"]).await;
    assert_eq!((none.code, none.err.as_str()), (0, "no subject has an amount of its own\n"));
    let short =
        ["--for", "key=alice", "--rate", "1/second", "--during", "2h", "--reason", "runs wild"];
    program.ok(&[&["limit", "set", "rpm"], &short[..]].concat()).await;
    program.ok(&["limit", "set", "budget", "--for", "tenant=t", "--amount", "99.5"]).await;
    let out = program.ok(&["limit", "overrides"]).await;
    let lines: Vec<_> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["LIMIT", "SUBJECT", "ALLOWS", "ENDS_IN", "NAME", "REASON"]);
    assert_eq!(lines[1], ["budget", "tenant=t", "99.5", "never", "budget/tenant-t", "-"]);
    assert_eq!(lines[2][..3], ["rpm", "key=alice", "1/second"]);
    assert!(lines[2][3].starts_with("1h59m"), "{out}");
    let json = program.ok(&["limit", "overrides", "rpm", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let [only] = json["overrides"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!(only["subject"]["key"], "alice");
    assert!((7_100_000..=7_200_000).contains(&only["ends_in_ms"].as_u64().unwrap()), "{only}");
}

fn meter(limit: &str, subject: &str, used: f64) -> LimitMeter {
    LimitMeter {
        limit: limit.into(),
        dimension: "cost".into(),
        subject: subject.into(),
        window: "month".into(),
        capacity: 12.5,
        used,
        reserved: 0.000_000_001,
        holders: 2,
        reset_ms: 90_000,
        override_name: String::new(),
    }
}

#[tokio::test]
async fn a6_status_shows_every_counter() {
    let (fake, program) = start().await;
    let none = program.run(&["limit", "status", "rpm"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.starts_with("nothing was counted lately\n"), "{none:?}");
    fake.state().limits = LimitStatusReply {
        meters: vec![
            meter("budget", "tenant=t", 3.25),
            LimitMeter { override_name: "o".into(), ..meter("budget", "tenant=u", 12.0) },
        ],
        ledger: "redis at redis://r:6379/0".into(),
        health: "recovering".into(),
    };
    let out = program.run(&["limit", "status"]).await;
    assert_eq!(
        out.out,
        "LIMIT   SUBJECT   WINDOW  USED  RESERVED     CAPACITY  DIMENSION  RESET  HOLDERS  OVERRIDE\n\
         budget  tenant=t  month   3.25  0.000000001  12.5      cost       1m30s  2        -\n\
         budget  tenant=u  month   12    0.000000001  12.5      cost       1m30s  2        o\n"
    );
    assert_eq!((out.code, &*out.err), (0, "the ledger redis at redis://r:6379/0 is recovering\n"));
    let json = program.ok(&["limit", "status", "budget", "--most", "7", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["meters"][0]["used"], &json["meters"][1]["override"]),
        (&3.25.into(), &"o".into())
    );
    let asked = fake.state().limits_asked.last().unwrap().clone();
    assert_eq!((&*asked.limit, asked.most), ("budget", 7));
    fake.state().limits =
        LimitStatusReply { health: "away: no route".into(), ..LimitStatusReply::default() };
    program.run(&["limit", "status"]).await.fails(1, &["the ledger does not answer", "no route"]);
}

#[tokio::test]
async fn limits_are_resources_as_others_are() {
    let (_fake, program) = start().await;
    program.ok(&["limit", "set", "rpm", "--for", "key=alice", "--rate", "1/second"]).await;
    assert_eq!(
        program.ok(&["get", "limits"]).await,
        "NAME    SCOPE           DIMENSION  ALLOWS               FLAGS   VERSION\n\
         budget  tenant=t        cost       12.5 a month         strict  1\n\
         rpm     tenant=*,key=*  requests   3/second;100/minute  -       1\n"
    );
    assert_eq!(
        program.ok(&["get", "overrides"]).await,
        "NAME           LIMIT  SUBJECT    ALLOWS    EXPIRES  VERSION\n\
         rpm/key-alice  rpm    key=alice  1/second  never    2\n"
    );
    let text = program.ok(&["describe", "limit", "rpm"]).await;
    assert!(text.ends_with("\nused by\n  override/rpm/key-alice (limit)\n"), "{text}");
    let text = program.ok(&["describe", "tenant", "t"]).await;
    assert!(text.contains("  limit/budget (scope.tenant)\n"), "{text}");
    let text = program.ok(&["describe", "api_key", "alice"]).await;
    assert!(text.contains("  override/rpm/key-alice (subject.key)\n"), "{text}");

    let yaml = program.ok(&["get", "-o", "yaml"]).await;
    let same = program.run_with(&["diff", "-f", "-", "--prune=all"], &yaml).await;
    assert_eq!((same.code, same.out.as_str()), (0, ""), "{same:?}");
    let schema: Value = serde_json::from_str(&program.ok(&["schema"]).await).unwrap();
    for list in ["limits", "overrides"] {
        assert!(schema["properties"].get(list).is_some(), "{list}");
    }
    let gone = program.ok(&["delete", "override", "rpm/key-alice"]).await;
    assert!(gone.contains("delete  override  rpm/key-alice\n"), "{gone}");
}
