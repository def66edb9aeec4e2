//! Surroundings that a process cannot work in.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::client::exchange;
use sluicegate_testkit::cluster::{Cluster, Etcd, Standalone, gateway_command};
use sluicegate_testkit::fault::FaultProxy;
use sluicegate_testkit::port;
use sluicegate_testkit::process::{Process, http_get, wait_until_ok};
use sluicegate_testkit::upstream::{Step, Upstream};
use tempfile::TempDir;

use crate::requests::chat;
use crate::{ANYWHERE, LIMIT, fails, run, taken};

fn folder() -> TempDir {
    TempDir::with_prefix("sluicegate-start-").unwrap()
}

/// `sluicegate data-plane` with its state in `folder`.
fn data_plane(control_plane: &str, listen: &str, ops: &str, folder: &Path) -> Command {
    let mut command = gateway_command(&["data-plane"]).unwrap();
    command
        .args(["--control-plane", control_plane, "--node-id", "n"])
        .args(["--listen", listen, "--ops-listen", ops])
        .arg("--state-dir")
        .arg(folder.join("data-plane"));
    command
}

#[tokio::test]
async fn d3_a_port_in_use_is_named_with_its_option() {
    let (_listener, address) = taken();
    let address = address.to_string();
    let folder = folder();
    for option in ["--listen", "--ops-listen", "--admin-listen", "--http-listen"] {
        let mut command = gateway_command(&["run"]).unwrap();
        for each in ["--listen", "--ops-listen", "--admin-listen", "--http-listen"] {
            command.args([each, if each == option { &address } else { ANYWHERE }]);
        }
        command.arg("--state-dir").arg(folder.path().join("run"));
        let said = format!("address {address} is in use");
        fails(command, 1, &[&said, &format!("give {option} another one")]).await;
    }
    let nowhere = "http://127.0.0.1:1";
    for (listen, ops, option) in
        [(&*address, ANYWHERE, "--listen"), (ANYWHERE, &address, "--ops-listen")]
    {
        let command = data_plane(nowhere, listen, ops, folder.path());
        let said = format!("address {address} is in use");
        fails(command, 1, &[&said, &format!("give {option} another one")]).await;
    }
    for option in ["--listen", "--http-listen"] {
        let mut command = gateway_command(&["control-plane"]).unwrap();
        for each in ["--listen", "--http-listen"] {
            command.args([each, if each == option { &address } else { ANYWHERE }]);
        }
        command.arg("--state-dir").arg(folder.path().join("control-plane"));
        let said = format!("address {address} is in use");
        fails(command, 1, &[&said, &format!("give {option} another one")]).await;
    }
}

#[tokio::test]
async fn d3_a_data_plane_without_a_token_ends_and_says_where_to_get_one() {
    let folder = folder();
    let mut command = data_plane("http://127.0.0.1:1", ANYWHERE, ANYWHERE, folder.path());
    command.env_remove("SLUICEGATE_NODE_TOKEN");
    fails(command, 1, &["no node token: set SLUICEGATE_NODE_TOKEN or give --node-token-file"])
        .await;

    let mut command = data_plane("http://127.0.0.1:1", ANYWHERE, ANYWHERE, folder.path());
    command.env_remove("SLUICEGATE_NODE_TOKEN").args(["--node-token-file", "/no/such/token"]);
    fails(command, 1, &["there is no token in /no/such/token"]).await;
}

#[tokio::test]
async fn d3_a_control_plane_address_that_cannot_work_ends_the_start() {
    let folder = folder();
    for address in ["not a url", "ftp://127.0.0.1:1"] {
        let command = data_plane(address, ANYWHERE, ANYWHERE, folder.path());
        fails(command, 1, &[&format!("control plane address '{address}'")]).await;
    }
}

#[tokio::test]
async fn d1_a_state_folder_in_use_is_not_opened_twice() {
    let folder = folder();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let state = folder.path().join("gateway");
    let said = ["another sluicegate process uses this state directory", "--state-dir"];
    fails(run(&state), 1, &said).await;
    let mut command = gateway_command(&["control-plane"]).unwrap();
    command.args(["--listen", ANYWHERE, "--http-listen", ANYWHERE]).arg("--state-dir").arg(&state);
    fails(command, 1, &said).await;
    assert_eq!(http_get(gateway.ops(), "/readyz").await.status, Some(200));

    // Nothing in the folder is touched by whoever does not get it.
    let token = std::fs::read_to_string(state.join("admin.token")).unwrap();
    let mut command = run(&state);
    command.env("SLUICEGATE_ADMIN_TOKEN", "another-token-0123456789");
    fails(command, 1, &said).await;
    assert_eq!(std::fs::read_to_string(state.join("admin.token")).unwrap(), token);
}

/// A closed terminal ends a gateway as SIGTERM does, unless it was started not to heed it.
#[tokio::test]
async fn d2_a_hangup_is_a_graceful_stop() {
    let folder = folder();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    hang_up(gateway.pid());
    let status = gateway.wait_for_exit(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", gateway.last_words());

    let plain = run(&folder.path().join("nohup"));
    let mut command = Command::new("nohup");
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let gateway = Process::start("nohup", command, folder.path()).unwrap();
    let ready = |line: &str| (line == "ready").then_some(());
    gateway.stdout().find(LIMIT, "the word ready", ready).await.unwrap();
    hang_up(gateway.pid());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(gateway.exit_status().is_none(), "{}", gateway.last_words());
    gateway.terminate().unwrap();
    assert_eq!(gateway.wait_for_exit(LIMIT).await.unwrap().code(), Some(0));
}

fn hang_up(pid: u32) {
    assert!(Command::new("kill").args(["-HUP", &pid.to_string()]).status().unwrap().success());
}

/// A damaged store is kept for repair, an empty one serves in its place, and the operator is told.
#[tokio::test]
async fn d1_a_damaged_store_is_set_aside_with_a_notice() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("garbage", |bytes| bytes.fill(b'x')),
        ("cut short", |bytes| bytes.truncate(5000)),
        ("empty", Vec::clear),
    ];
    for (what, damage) in damages {
        let folder = folder();
        let mut gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
        gateway.kill().unwrap();
        gateway.wait_for_exit(LIMIT).await.unwrap();
        let file = folder.path().join("gateway/state.redb");
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();
        gateway.restart().await.unwrap();
        let notice = |line: &str| line.contains("is damaged").then(|| line.to_owned());
        let notice = gateway.stdout().find(LIMIT, "a notice", notice).await.unwrap();
        assert!(notice.contains("set aside as"), "{what}: {notice}");
        assert!(notice.contains("apply your configuration again"), "{what}: {notice}");
        let aside = folder.path().join("gateway/state.redb.corrupt-1");
        assert_eq!(std::fs::read(aside).unwrap(), bytes, "{what}");
    }
}

#[tokio::test]
async fn d6_a_wrong_admin_token_is_exit_code_3() {
    let folder = folder();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let server = format!("http://{}", gateway.admin());
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "tenants: [{ name: t }]\n").unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    for arguments in [&["get", "models"][..], &["nodes"], &["key", "create", "x"], &apply] {
        let mut command = gateway_command(arguments).unwrap();
        command.args(["--server", &server]).env("SLUICEGATE_ADMIN_TOKEN", "wrong-token");
        let said = format!("{server} does not accept the token from SLUICEGATE_ADMIN_TOKEN");
        let output = fails(command, 3, &[&said]).await;
        assert!(!output.said().contains("wrong-token"), "{}", output.said());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_wrong_node_token_gets_no_policy_and_says_so() {
    let upstream = Upstream::fixed(Step::completion("ok")).await.unwrap();
    let cluster = Cluster::builder().control_planes(1).start().await.unwrap();
    let file = cluster.folder().join("base.yaml");
    std::fs::write(&file, config::base(upstream.address()).to_string()).unwrap();
    let applied = cluster.cli(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", applied.said());
    let (traffic, ops) = (port::free().unwrap(), port::free().unwrap());
    let control_plane = format!("http://{}", cluster.control_planes[0].grpc());
    let folder = folder();
    let mut command =
        data_plane(&control_plane, &traffic.to_string(), &ops.to_string(), folder.path());
    command.env("SLUICEGATE_NODE_TOKEN", "wrong-token");
    let plane = Process::start("data-plane", command, folder.path()).unwrap();
    wait_until_ok(&plane, ops, "/healthz", LIMIT).await.unwrap();
    let told = |line: &str| line.contains("no policy stream").then(|| line.to_owned());
    let line = plane.stderr().find(LIMIT, "a warning", told).await.unwrap();
    assert!(line.contains("token"), "{line}");
    assert!(!line.contains("wrong-token"), "{line}");
    assert_eq!(http_get(ops, "/readyz").await.status, Some(503));

    let reply = exchange(traffic, &chat(KEY, "m1"), &[], LIMIT).await;
    assert_eq!(reply.status, Some(503), "{}", reply.text());
    let error = &reply.json().unwrap()["error"];
    assert_eq!(error["code"], "not_ready");
    assert_eq!(error["message"], "the gateway has no policy yet; try again shortly");
    assert!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    let nodes = cluster.cli(&["nodes", "-o", "json"]).await.unwrap();
    assert!(nodes.stdout.contains("\"nodes\": []"), "{}", nodes.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_control_plane_waits_for_its_etcd_and_says_so() {
    let folder = folder();
    let etcd = Etcd::start(folder.path()).await.unwrap();
    let link = FaultProxy::start(etcd.client()).await.unwrap();
    link.refuse().await.unwrap();
    let (grpc, http) = (port::free().unwrap(), port::free().unwrap());
    let command = control_plane(link.address(), grpc, http, folder.path());
    let plane = Process::start("control-plane", command, folder.path()).unwrap();
    let waits = |line: &str| line.contains("waiting for the configuration store").then_some(());
    plane.stderr().find(LIMIT, "word that it waits", waits).await.unwrap();
    let said = plane.stderr().tail(5);
    assert!(said.contains(&link.address().to_string()) && said.contains("etcd"), "{said}");

    link.accept().await.unwrap();
    wait_until_ok(&plane, http, "/readyz", LIMIT).await.unwrap();
}

/// An orchestrator that gets no answer kills what only waits.
#[tokio::test(flavor = "multi_thread")]
async fn a12_health_is_answered_while_a_control_plane_waits_for_its_etcd() {
    let folder = folder();
    let nobody = port::free().unwrap();
    let (grpc, http) = (port::free().unwrap(), port::free().unwrap());
    let command = control_plane(nobody, grpc, http, folder.path());
    let plane = Process::start("control-plane", command, folder.path()).unwrap();
    let waits = |line: &str| line.contains("waiting for the configuration store").then_some(());
    plane.stderr().find(LIMIT, "word that it waits", waits).await.unwrap();
    let (alive, ready) = (http_get(http, "/healthz").await, http_get(http, "/readyz").await);
    let seen = (alive.status, ready.status);
    assert_eq!(seen, (Some(200), Some(503)), "{:?} {:?}", alive.problems, ready.problems);
    plane.terminate().unwrap();
    let status = plane.wait_for_exit(Duration::from_secs(3)).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", plane.last_words());
}

fn control_plane(etcd: SocketAddr, grpc: SocketAddr, http: SocketAddr, folder: &Path) -> Command {
    let mut command = gateway_command(&["control-plane"]).unwrap();
    command
        .args(["--etcd", &format!("http://{etcd}"), "--listen", &grpc.to_string()])
        .args(["--http-listen", &http.to_string()])
        .arg("--state-dir")
        .arg(folder.join("control-plane"));
    command
}

/// What is printed is where it listens, also when the system chose the port.
#[tokio::test]
async fn d3_printed_addresses_are_real_ones() {
    let folder = folder();
    let process = Process::start("run", run(&folder.path().join("run")), folder.path()).unwrap();
    let ready = |line: &str| (line == "ready").then_some(());
    process.stdout().find(LIMIT, "the word ready", ready).await.unwrap();
    let lines = process.stdout().all().join("\n");
    assert!(!lines.contains("127.0.0.1:0"), "{lines}");
}
