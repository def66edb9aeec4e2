//! Configuration files that make no sense, through `run --config` and through `apply`.

use std::net::SocketAddr;

use sluicegate_testkit::cluster::{Standalone, cli, gateway_command};
use tempfile::TempDir;

use crate::{fails, run};

/// Name of the case, the file, and what must be said; the place comes first.
const FAULTS: [(&str, &str, &[&str]); 11] = [
    ("broken YAML", "providers:\n  - name: p1\n   dialect: [\n", &["bad.yaml:3:4: not valid YAML"]),
    (
        "unknown field",
        "tenants:\n  - name: a\n    colour: red\n",
        &["bad.yaml:3:5: tenants[0].colour: unknown field 'colour'", "known fields: name, parent"],
    ),
    (
        "unknown list",
        "tenants: []\nroutes: []\n",
        &["bad.yaml:2:1: routes: unknown list 'routes'", "known lists: providers, credentials"],
    ),
    (
        "wrong type",
        "tenants:\n  - name: [1]\n",
        &["bad.yaml:2:5: tenants[0].name: expected text (quote it), found a list"],
    ),
    (
        "duplicate name",
        "tenants:\n  - name: a\n  - name: a\n",
        &["bad.yaml:3:5: tenants[1]: tenant/a is declared twice", "the first is on line 2"],
    ),
    (
        "dangling reference",
        "models:\n  - name: m\n    targets:\n      - provider: nope\n",
        &["bad.yaml:4:9: models[0].targets[0].provider: provider 'nope' does not exist"],
    ),
    (
        "variable that is not set",
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    keys:\n      - { name: k, secret: { env: SLUICEGATE_TEST_NOT_SET } }\n",
        &[
            "bad.yaml:6:30: providers[0].keys[0].secret.env: is not set",
            "set SLUICEGATE_TEST_NOT_SET in the control plane's environment",
        ],
    ),
    (
        "secret file that is missing",
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    keys:\n      - { name: k, secret: { file: /no/such/file } }\n",
        &[
            "bad.yaml:6:30: providers[0].keys[0].secret.file: cannot be read: No such file",
            "on the control plane's host",
        ],
    ),
    (
        "base URL of another scheme",
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: ftp://u\n    keyless: true\n",
        &[
            "bad.yaml:4:5: providers[0].base_url: scheme 'ftp' is not supported",
            "use http or https",
        ],
    ),
    (
        "base URL that is none",
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: not a url\n    keyless: true\n",
        &["bad.yaml:4:5: providers[0].base_url: not a URL", "https://api.example.com/v1"],
    ),
    (
        "several faults at once",
        "tenants:\n  - name: a\n    colour: red\n  - name: b\n    size: 1\n",
        &["2 faults", "bad.yaml:3:5", "bad.yaml:5:5"],
    ),
];

#[tokio::test]
async fn d6_run_ends_with_the_fault_and_its_place() {
    for (what, text, parts) in FAULTS {
        let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
        let file = folder.path().join("bad.yaml");
        std::fs::write(&file, text).unwrap();
        let mut command = run(&folder.path().join("state"));
        command.arg("--config").arg(file);
        let output = fails(command, 1, parts).await;
        assert!(!output.stdout.contains("ready"), "{what}: {}", output.said());
    }
}

#[tokio::test]
async fn d6_apply_refuses_with_the_fault_and_its_place_and_changes_nothing() {
    let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let before = everything(gateway.admin()).await;
    for (_, text, parts) in FAULTS {
        let file = folder.path().join("bad.yaml");
        std::fs::write(&file, text).unwrap();
        let server = format!("http://{}", gateway.admin());
        let mut command = gateway_command(&["apply", "--server", &server, "-f"]).unwrap();
        command.arg(file);
        fails(command, 1, parts).await;
    }
    assert_eq!(everything(gateway.admin()).await, before);
}

#[tokio::test]
async fn d6_a_file_that_cannot_be_read_is_named() {
    let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
    let missing = folder.path().join("missing.yaml");
    let mut command = run(&folder.path().join("state"));
    command.arg("--config").arg(&missing);
    fails(command, 1, &["cannot read", "missing.yaml", "No such file", "sluicegate init"]).await;

    let bytes = folder.path().join("bytes.yaml");
    std::fs::write(&bytes, b"tenants:\n  - name: \"\xff\"\n").unwrap();
    let mut command = run(&folder.path().join("state"));
    command.arg("--config").arg(&bytes);
    fails(command, 1, &["cannot read", "bytes.yaml", "UTF-8"]).await;
}

/// The head and every resource, as `get` shows them.
async fn everything(server: SocketAddr) -> Vec<String> {
    let mut all = Vec::new();
    for kind in ["providers", "credentials", "models", "tenants", "api-keys"] {
        let output = cli(server, &["get", kind, "-o", "json"]).await.unwrap();
        assert!(output.status.success(), "{}", output.said());
        all.push(output.stdout);
    }
    all
}
