//! Commands that change the configuration.

use serde_json::Value;
use sluicegate_proto::{
    admin::v1::DataPlane,
    policy::v1::{NodeIdentity, Point},
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::{fake::Fake, program::Program};

const FILE: &str = "\
providers:
  - name: p
    dialect: openai-chat
    base_url: http://u
    keys: [{ name: k, secret: { value: sk-canary } }]
models:
  - name: m
    targets:
      - { provider: p }
";

async fn start() -> (Fake, Program) {
    let (fake, address) = Fake::start().await;
    let program = Program::at(address);
    program.write("f.yaml", FILE);
    (fake, program)
}

fn plane(name: &str, revision: u64) -> DataPlane {
    DataPlane {
        node: Some(NodeIdentity { node_id: name.into(), ..NodeIdentity::default() }),
        acknowledged: Some(Point { epoch: b"e".to_vec().into(), revision }),
        connected: true,
        ..DataPlane::default()
    }
}

#[tokio::test]
async fn apply_tells_what_changed() {
    let (fake, program) = start().await;
    let rehearsal = program.ok(&["apply", "-f", "f.yaml", "--dry-run"]).await;
    assert!(
        rehearsal
            .ends_with("3 to create, 0 to update, 0 to delete, 0 unchanged; revision stays 0\n"),
        "{rehearsal}"
    );
    assert_eq!(fake.state().revision, 0);

    let out = program.ok(&["apply", "-f", "f.yaml", "--comment", "first"]).await;
    assert_eq!(
        out,
        "ACTION  KIND        NAME\n\
         create  provider    p\n\
         create  credential  p/k\n\
         create  model       m\n\n\
         3 created, 0 updated, 0 deleted, 0 unchanged; revision 1\n"
    );
    let again = program.ok(&["apply", "-f", "f.yaml"]).await;
    assert_eq!(again, "0 created, 0 updated, 0 deleted, 3 unchanged; revision stays 1\n");

    program.write("f.yaml", &FILE.replace("http://u", "http://v"));
    let out = program.ok(&["apply", "-f", "f.yaml", "-o", "json"]).await;
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&out["revision"], &out["updated"], &out["unchanged"]),
        (&2.into(), &1.into(), &2.into())
    );
    assert_eq!(out["differences"][0]["before"]["base_url"], "http://u");
    assert_eq!(out["differences"][0]["after"]["base_url"], "http://v");

    let keys: Vec<_> =
        fake.state().applied.iter().map(|request| request.idempotency_key.clone()).collect();
    assert!(keys.iter().all(|key| key.len() == 36));
    assert_ne!(keys[0], keys[1], "every call has a key of its own");
    assert_eq!(fake.state().history[0].0.comment, "first");
}

#[tokio::test]
async fn prune_deletes_what_the_file_dropped() {
    let (fake, program) = start().await;
    program.ok(&["apply", "-f", "f.yaml"]).await;
    program.ok(&["key", "create", "caller"]).await;
    program.write("f.yaml", &FILE.replace("name: m", "name: other").replace("name: k", "name: l"));
    let out = program.ok(&["apply", "-f", "f.yaml", "--prune"]).await;
    assert!(out.contains("2 created, 0 updated, 2 deleted, 1 unchanged"), "{out}");
    assert_eq!(fake.state().resources.len(), 4, "the caller's key is of a kind not in the file");
    let out = program.ok(&["apply", "-f", "f.yaml", "--prune=all"]).await;
    assert!(out.contains("delete  api_key  caller"), "{out}");
}

#[tokio::test]
async fn faults_of_the_control_plane_show_their_line() {
    let (_fake, program) = start().await;
    program.write("f.yaml", &FILE.replace("provider: p }", "provider: q }"));
    program.run(&["apply", "-f", "f.yaml"]).await.fails(
        1,
        &["1 fault\nf.yaml:9:11: models[0].targets[0].provider: provider 'q' does not exist"],
    );
    program.run(&["diff", "-f", "f.yaml"]).await.fails(2, &["f.yaml:9:11"]);
}

#[tokio::test]
async fn versions_guard_changes() {
    let (_fake, program) = start().await;
    program.ok(&["apply", "-f", "f.yaml"]).await;
    let one = program.ok(&["get", "model", "m", "-o", "yaml"]).await;
    program.write("m.yaml", &one);
    let stale = program.run(&["apply", "-f", "m.yaml", "--expect-version", "7"]).await;
    stale.fails(1, &["model/m: expected version 7, it has 1"]);
    program.ok(&["apply", "-f", "m.yaml", "--expect-version", "1"]).await;
    let many = program.run(&["apply", "-f", "f.yaml", "--expect-version", "1"]).await;
    many.fails(2, &["the files declare 3"]);
    let stale = program.run(&["delete", "model", "m", "--expect-version", "9"]).await;
    stale.fails(1, &["expected version 9, it has 1"]);
}

#[tokio::test]
async fn waiting_counts_data_planes() {
    let (fake, program) = start().await;
    fake.state().planes = vec![plane("dp-1", 99), plane("dp-2", 0)];
    let half = program.ok(&["apply", "-f", "f.yaml", "--wait", "0.5"]).await;
    assert!(half.ends_with("revision 1\n1 of 2 data planes of this replica run it\n"), "{half}");
    program.write("f.yaml", &FILE.replace("http://u", "http://v"));
    let all = ["apply", "-f", "f.yaml", "--wait", "1.0", "--wait-timeout-ms", "50"];
    let late = program.run(&all).await;
    late.fails(1, &["after 50 ms 1 of 2 data planes of this replica run revision 2; behind: dp-2"]);
    let wait = fake.state().applied.last().unwrap().wait.unwrap();
    assert_eq!((wait.fraction, wait.timeout_ms), (1.0, 50));

    fake.state().planes.clear();
    let nobody = program.run(&all).await;
    nobody.fails(1, &["no data plane is connected to this replica; the change stands"]);
    assert!(nobody.out.ends_with("0 of 0 data planes of this replica run it\n"), "{}", nobody.out);
    program.run(&["key", "create", "k", "--wait", "1.0"]).await.fails(1, &["no data plane"]);
    program.ok(&["apply", "-f", "f.yaml", "--wait", "0"]).await;
}

#[tokio::test]
async fn faults_that_did_not_fit_are_counted() {
    let (fake, program) = start().await;
    let faults = [("model/m: targets[0].provider", "dangles"), ("", "and 400 more")]
        .map(|(field, text)| FieldViolation::new(field, text));
    let details = ErrorDetails::with_bad_request(faults.to_vec());
    let status = Status::with_error_details(Code::InvalidArgument, "401 faults", details);
    fake.state().upsets = vec![(status, false)];
    program.run(&["apply", "-f", "f.yaml"]).await.fails(
        1,
        &["error: 401 faults\nf.yaml:9:11: models[0].targets[0].provider: dangles\n\
           ... and 400 more\n"],
    );
}

#[tokio::test]
async fn unavailable_is_asked_again_with_the_same_key() {
    let (fake, program) = start().await;
    // The second answer is lost after the change was made.
    fake.state().upsets =
        vec![(Status::unavailable("store"), false), (Status::unavailable("lost"), true)];
    let out = program.ok(&["apply", "-f", "f.yaml"]).await;
    assert!(out.contains("3 created") && out.contains("had done it already"), "{out}");
    let state = fake.state();
    assert_eq!((state.applied.len(), state.revision), (3, 1));
    assert!(
        state.applied.iter().all(|one| one.idempotency_key == state.applied[0].idempotency_key)
    );
}

#[tokio::test]
async fn unavailable_for_too_long_is_exit_code_3() {
    let (fake, program) = start().await;
    fake.state().upsets = (0..50).map(|_| (Status::unavailable("no store"), false)).collect();
    let ran = program.run(&["apply", "-f", "f.yaml", "--timeout-ms", "400"]).await;
    ran.fails(3, &["is not available: no store"]);
    assert!(fake.state().applied.len() > 1);
}

#[tokio::test]
async fn diff_is_0_or_1() {
    let (fake, program) = start().await;
    let ran = program.run(&["diff", "-f", "f.yaml"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("--- /dev/null\n+++ provider/p\n@@ "), "{}", ran.out);
    assert!(!ran.out.contains("canary") && !ran.out.contains('\u{1b}'), "{}", ran.out);
    assert_eq!(fake.state().revision, 0);

    program.ok(&["apply", "-f", "f.yaml"]).await;
    let ran = program.run(&["diff", "-f", "f.yaml"]).await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "no difference to revision 1\n")
    );
    program.write("f.yaml", &FILE.replace("http://u", "http://v"));
    let ran = program.run(&["diff", "-f", "f.yaml"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("-base_url: http://u\n+base_url: http://v\n"), "{}", ran.out);
    let ran = program.run(&["diff", "-f", "f.yaml", "-o", "json"]).await;
    let out: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(out["differences"][0]["action"], "update");
    program.run(&["diff", "-f", "missing.yaml"]).await.fails(2, &["cannot read"]);
}

#[tokio::test]
async fn delete_is_all_or_nothing() {
    let (fake, program) = start().await;
    program.ok(&["apply", "-f", "f.yaml"]).await;
    let used = program.run(&["delete", "provider", "p"]).await;
    used.fails(1, &["model/m: targets[0].provider: provider 'p' does not exist"]);
    let gone = program.run(&["delete", "model", "m", "nobody"]).await;
    gone.fails(1, &["model/nobody does not exist"]);
    assert_eq!(fake.state().resources.len(), 3);
    let out = program.ok(&["delete", "models", "m", "--dry-run"]).await;
    assert!(out.contains("1 to delete"), "{out}");
    let out = program.ok(&["delete", "models", "m"]).await;
    assert!(out.ends_with("0 created, 0 updated, 1 deleted; revision 2\n"), "{out}");
}

#[tokio::test]
async fn history_and_rollback() {
    let (_fake, program) = start().await;
    let empty = program.run(&["history"]).await;
    assert_eq!(
        (empty.code, empty.out.as_str(), empty.err.as_str()),
        (0, "", "no change was made yet\n")
    );
    program.ok(&["apply", "-f", "f.yaml", "--comment", "first"]).await;
    program.ok(&["delete", "model", "m", "--comment", "oops"]).await;
    assert_eq!(
        program.ok(&["history"]).await,
        "REVISION  TIME                      AUTHOR  CHANGES   COMMENT\n\
         2         2026-09-21T14:13:20.002Z  admin   +0 ~0 -1  oops\n\
         1         2026-09-21T14:13:20.001Z  admin   +3 ~0 -0  first\n"
    );
    let back = program.ok(&["rollback", "1", "--dry-run"]).await;
    assert!(back.contains("1 to create") && back.contains("revision stays 2"), "{back}");
    let back = program.ok(&["rollback", "1"]).await;
    assert!(back.contains("create  model  m\n") && back.contains("revision 3"), "{back}");
    program.run(&["rollback", "40"]).await.fails(1, &["revision 40 is not kept"]);
}

#[tokio::test]
async fn keys_are_printed_once_and_revoked() {
    let (fake, program) = start().await;
    program.write("t.yaml", "tenants: [{ name: acme }]\n");
    program.ok(&["apply", "-f", "t.yaml"]).await;
    let ran = program
        .run(&[
            "key",
            "create",
            "search",
            "--tenant",
            "acme",
            "--user",
            "ann",
            "--models",
            "a,b-*",
            "--expires",
            "2100-01-01T00:00:00Z",
        ])
        .await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "sk-sg-fresh\n"));
    assert!(ran.err.contains("made api_key/search at revision 2"), "{}", ran.err);
    let list = program.ok(&["get", "api_keys"]).await;
    assert!(!list.contains("sk-sg-fresh"));
    assert!(
        list.contains("search  acme    ann   a,b-*   2100-01-01T00:00:00Z  active  2"),
        "{list}"
    );
    let bad = program.run(&["key", "create", "x", "--tenant", "acne"]).await;
    bad.fails(1, &["api_key/x: tenant: tenant 'acne' does not exist", "did you mean 'acme'"]);
    program.ok(&["key", "revoke", "search"]).await;
    program.run(&["key", "revoke", "search"]).await.fails(1, &["api_key/search does not exist"]);
    assert_eq!(fake.state().resources.len(), 1);
}
