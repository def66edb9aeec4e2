//! Commands that need no control plane.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::program::Program;

const GOOD: &str = "\
providers:
  - { name: p, dialect: openai-chat, base_url: http://u, keys: [{ name: k, secret: { env: A } }] }
models:
  - { name: m, targets: [{ provider: p }] }
";

#[tokio::test]
async fn validate_says_how_many_or_what_is_wrong() {
    let program = Program::offline();
    program.write("good.yaml", GOOD);
    program.write("bad.yaml", "providers:\n  - name: p\n    dialct: openai-chat\nmodels: 3\n");
    program.write("part.yaml", "models:\n  - { name: n, targets: [{ provider: p }] }\n");

    assert_eq!(
        program.ok(&["validate", "-f", "good.yaml"]).await,
        "good.yaml: 3 resources, valid\n"
    );
    assert_eq!(program.ok(&["validate", "-qf", "good.yaml"]).await, "");
    program.run(&["validate", "-f", "bad.yaml"]).await.fails(
        1,
        &[
            "2 faults",
            "bad.yaml:3:5: providers[0].dialct: unknown field 'dialct'\n    hint: did you mean",
            "bad.yaml:4:1: models: expected a list",
        ],
    );
    let part = program.run(&["validate", "-f", "part.yaml"]).await;
    part.fails(1, &["1 fault\n", "part.yaml:2:28: models[0].targets[0].provider"]);
    program.ok(&["validate", "-f", "part.yaml", "--partial"]).await;
    let both = program.ok(&["validate", "-f", "good.yaml", "-f", "part.yaml"]).await;
    assert_eq!(both, "good.yaml: 3 resources, valid\npart.yaml: 1 resource, valid\n");

    let ran = program.run_with(&["validate", "-f", "-"], GOOD).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "stdin: 3 resources, valid\n"));
    let missing = program.run(&["validate", "-f", "missing.yaml"]).await;
    missing.fails(1, &["cannot read missing.yaml", "sluicegate init"]);
    program.run(&["validate"]).await.fails(2, &["--file"]);
}

#[tokio::test]
async fn init_writes_a_valid_private_file_once() {
    let program = Program::offline();
    let ran = program.run(&["init"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "wrote sluicegate.yaml\n"));
    assert!(ran.err.contains("sluicegate run --config sluicegate.yaml"), "{}", ran.err);
    let file = program.path().join("sluicegate.yaml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let valid = program.ok(&["validate", "-f", "sluicegate.yaml"]).await;
    assert_eq!(valid, "sluicegate.yaml: 4 resources, valid\n");

    let first = std::fs::read_to_string(&file).unwrap();
    program.run(&["init"]).await.fails(1, &["sluicegate.yaml exists", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    program.ok(&["init", "--force"]).await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(std::fs::read_to_string(&file).unwrap(), first, "a fresh key");
    program.ok(&["init", "other.yaml", "--quiet"]).await;
    program.run(&["init", "no/such/folder.yaml"]).await.fails(1, &["cannot write"]);
}

#[tokio::test]
async fn schema_is_a_schema() {
    let schema: Value = serde_json::from_str(&Program::offline().ok(&["schema"]).await).unwrap();
    assert!(schema["properties"]["providers"]["items"]["properties"]["base_url"].is_object());
}

#[tokio::test]
async fn completions_for_every_shell() {
    let program = Program::offline();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = program.ok(&["completions", shell]).await;
        assert!(script.contains("demo-upstream") && script.contains("rollback"), "{shell}");
    }
}

#[tokio::test]
async fn help_has_examples_exit_codes_and_defaults() {
    let program = Program::offline();
    let help = program.ok(&["--help"]).await;
    for part in ["Exit codes:", "sluicegate init", "SLUICEGATE_ADMIN_TOKEN", "control-plane"] {
        assert!(help.contains(part), "{help}\n  lacks: {part}");
    }
    for verb in [
        "run",
        "control-plane",
        "data-plane",
        "init",
        "validate",
        "apply",
        "diff",
        "get",
        "describe",
        "delete",
        "watch",
        "history",
        "rollback",
        "nodes",
        "demo-upstream",
        "completions",
    ] {
        let help = program.ok(&[verb, "--help"]).await;
        assert!(help.contains("Examples:"), "{verb} has no examples");
    }
    let help = program.ok(&["apply", "--help"]).await;
    assert!(help.contains("[env: SLUICEGATE_SERVER=]"), "{help}");
    assert!(help.contains("[default: http://127.0.0.1:9180]"), "{help}");
    for verb in [["key", "create"], ["key", "revoke"]] {
        assert!(program.ok(&[verb[0], verb[1], "--help"]).await.contains("Examples:"));
    }
    assert!(program.ok(&["--version"]).await.starts_with("sluicegate 0."));
}

#[tokio::test]
async fn usage_errors_are_exit_code_2() {
    let program = Program::offline();
    program.run(&[]).await.fails(2, &["Usage"]);
    program.run(&["aply"]).await.fails(2, &["apply"]);
    program.run(&["get", "modle"]).await.fails(2, &["modle", "model"]);
    program.run(&["apply", "-f", "x", "--wait", "2"]).await.fails(2, &["from 0 to 1"]);
    program.run(&["key", "create", "k", "--expires", "soon"]).await.fails(2, &["RFC 3339"]);
    program.run(&["data-plane"]).await.fails(2, &["--control-plane"]);
    program.run(&["control-plane", "--tls-cert", "x"]).await.fails(2, &["--tls-key"]);
}

#[tokio::test]
async fn a_closed_pipe_is_no_error() {
    let program = Program::offline();
    let mut child = program.command(&["schema"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
