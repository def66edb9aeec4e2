//! The ledger that a control plane is started with.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Child,
    time::{sleep, timeout},
};

use crate::program::{Program, TOKEN};

const SOON: Duration = Duration::from_secs(30);

/// A control plane of its own folder, with these options.
fn control_plane(program: &Program, [grpc, http]: [SocketAddr; 2], options: &[&str]) -> Child {
    let (grpc, http) = (grpc.to_string(), http.to_string());
    let mut command =
        program.command(&["control-plane", "--listen", &grpc, "--http-listen", &http]);
    command.args(options).env("SLUICEGATE_ADMIN_TOKEN", TOKEN).env("SLUICEGATE_NODE_TOKEN", "n");
    command.spawn().unwrap()
}

/// Ports that nobody listens on at the moment.
async fn ports<const N: usize>() -> [SocketAddr; N] {
    let mut taken = Vec::new();
    for _ in 0..N {
        taken.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let addresses: Vec<_> = taken.iter().map(|one| one.local_addr().unwrap()).collect();
    addresses.try_into().unwrap()
}

/// What `/readyz` says once it answers with 200.
async fn ready(http: SocketAddr) -> Value {
    let ask = async || {
        let mut stream = TcpStream::connect(http).await.ok()?;
        let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        if head.starts_with("HTTP/1.1 200") { serde_json::from_str(body).ok() } else { None }
    };
    let answered = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    timeout(SOON, answered).await.expect("it should be ready")
}

#[tokio::test]
async fn a_single_control_plane_counts_in_its_own_file() {
    let [grpc, http] = ports().await;
    let program = Program::at(grpc);
    let mut child = control_plane(&program, [grpc, http], &[]);
    let answer = ready(http).await;
    assert_eq!((&answer["status"], &answer["ledger"]), (&"ready".into(), &"available".into()));
    let out = program.ok(&["limit", "status", "-o", "json"]).await;
    let out: Value = serde_json::from_str(&out).unwrap();
    assert!(out["ledger"].as_str().unwrap().starts_with("embedded at "), "{out}");
    let usage = program.run(&["usage"]).await;
    assert_eq!((usage.code, usage.err.as_str()), (0, "nothing was used\n"));
    child.kill().await.unwrap();
}

/// Policy has to flow without a ledger: a Redis that is away does not keep a control plane away.
#[tokio::test]
async fn d1_a_control_plane_starts_while_its_redis_is_away() {
    let [grpc, http, redis] = ports().await;
    let program = Program::at(grpc);
    let url = format!("redis://{redis}/0");
    let mut child = control_plane(&program, [grpc, http], &["--redis", &url]);
    let answer = ready(http).await;
    assert_eq!((&answer["status"], &answer["ledger"]), (&"degraded".into(), &"unavailable".into()));
    program.run(&["limit", "status"]).await.fails(1, &["the ledger does not answer"]);
    program.run(&["usage"]).await.fails(3, &["Redis ledger is unavailable"]);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_redis_that_cannot_be_used_ends_the_start() {
    let addresses = ports().await;
    let program = Program::offline();
    let secret = "redis://:canary-password@127.0.0.1:6379/0";
    let child = control_plane(&program, addresses, &["--redis", secret]);
    let ended = timeout(SOON, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("--redis") && said.contains("password"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}
