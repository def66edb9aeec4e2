//! Commands at an address where something else listens.

use sluicegate_testkit::cluster::{ControlPlane, Standalone, gateway_command};
use tempfile::TempDir;

use crate::fails;

#[tokio::test]
async fn d6_a_port_that_is_not_the_admin_address_is_told_as_such() {
    let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "tenants: [{ name: t }]\n").unwrap();
    let gateway = Standalone::unconfigured(&[], folder.path()).await.unwrap();
    let seal_key = folder.path().join("seal.key");
    let control = ControlPlane::start("cp", None, &seal_key, folder.path()).await.unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    for address in [gateway.traffic(), gateway.ops(), control.http()] {
        for arguments in [&["get", "models"][..], &["nodes"], &["watch"], &apply] {
            let mut command = gateway_command(arguments).unwrap();
            command.args(["--server", &format!("http://{address}")]);
            let said = ["does not speak gRPC there", "the admin address (default port 9180)?"];
            fails(command, 3, &said).await;
        }
    }
}

#[tokio::test]
async fn d6_waiting_for_nobody_is_not_success() {
    let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "tenants: [{ name: t }]\n").unwrap();
    let seal_key = folder.path().join("seal.key");
    let control = ControlPlane::start("cp", None, &seal_key, folder.path()).await.unwrap();
    let server = format!("http://{}", control.grpc());
    let apply = ["apply", "-f", file.to_str().unwrap(), "--wait", "1.0"];
    for arguments in [&apply[..], &["key", "create", "k", "--wait", "0.5"]] {
        let mut command = gateway_command(arguments).unwrap();
        command.args(["--server", &server]);
        let said = ["no data plane is connected to this replica; the change stands"];
        fails(command, 1, &said).await;
    }
}

#[tokio::test]
async fn d6_what_cannot_be_done_is_exit_code_1_and_told_once() {
    let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
    let seal_key = folder.path().join("seal.key");
    let control = ControlPlane::start("cp", None, &seal_key, folder.path()).await.unwrap();
    let server = format!("http://{}", control.grpc());
    let create = ["key", "create", "k", "--server", &server];
    fails(gateway_command(&create).unwrap(), 0, &["api_key/k"]).await;
    let output = fails(gateway_command(&create).unwrap(), 1, &["api_key/k"]).await;
    let said = output.said();
    assert_eq!(said.matches("api_key/k").count(), 1, "{said}");
    let command = gateway_command(&["rollback", "9999", "--server", &server]).unwrap();
    fails(command, 1, &["revision 9999"]).await;
}
