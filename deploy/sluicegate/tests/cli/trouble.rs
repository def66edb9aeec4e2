//! Control planes that are not there, or do not let us in.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{fake::Fake, program::Program};

/// A port that nobody listens on.
fn closed() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn nobody_there() {
    let address = closed();
    let program = Program::at(address);
    program.write("f.yaml", "tenants: [{ name: t }]\n");
    for arguments in [
        &["get", "models"][..],
        &["nodes"],
        &["apply", "-f", "f.yaml"],
        &["diff", "-f", "f.yaml"],
        &["watch"],
    ] {
        let said = format!("no control plane answers at http://{address}");
        program
            .run(arguments)
            .await
            .fails(3, &[said.as_str(), "connection refused", "'sluicegate run'", "--server"]);
    }
}

#[tokio::test]
async fn somebody_else_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = Program::at(listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            // As a server does, it answers what it has read: here, the preface of HTTP/2.
            let mut preface = [0; 24];
            if stream.read_exact(&mut preface).await.is_ok() {
                drop(stream.write_all(answer).await);
            }
            streams.push(stream);
        }
    });
    for arguments in [&["get", "models"][..], &["watch"]] {
        // Whether the answer or the end of the connection is noticed first is up to the transport.
        let said = ["is it the admin address (default port 9180)?"];
        program.run(arguments).await.fails(3, &said);
    }
}

#[tokio::test]
async fn nobody_answers_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = Program::at(listener.local_addr().unwrap());
    let ran = program.run(&["nodes", "--timeout-ms", "300"]).await;
    ran.fails(3, &["did not answer in time"]);
}

/// Hands connections on to `target`, but cuts the first one when the answer to a change comes.
async fn cut_the_first_answer(fake: Fake, target: std::net::SocketAddr) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut first = true;
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
            let (fake, cuts) = (fake.clone(), std::mem::replace(&mut first, false));
            tokio::spawn(async move {
                let (mut up, mut down) = ([0; 4096], [0; 4096]);
                loop {
                    let (size, to_client) = tokio::select! {
                        size = client.read(&mut up) => (size.unwrap_or(0), false),
                        size = server.read(&mut down) => (size.unwrap_or(0), true),
                    };
                    if size == 0 || (cuts && to_client && !fake.state().applied.is_empty()) {
                        return;
                    }
                    if to_client {
                        client.write_all(&down[..size]).await.unwrap();
                    } else {
                        server.write_all(&up[..size]).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_change_survives_a_broken_connection() {
    let (fake, target) = Fake::start().await;
    let program = Program::at(cut_the_first_answer(fake.clone(), target).await);
    program.write("f.yaml", "tenants: [{ name: t }]\n");
    let out = program.ok(&["apply", "-f", "f.yaml"]).await;
    assert!(out.contains("1 created") && out.contains("had done it already"), "{out}");
    let state = fake.state();
    assert_eq!((state.applied.len(), state.revision), (2, 1));
}

#[tokio::test]
async fn tokens_come_from_three_places() {
    let (_fake, address) = Fake::start().await;
    let server = format!("http://{address}");
    let program = Program::offline();
    let nodes = ["nodes", "--server", server.as_str()];
    let none = program.run(&nodes).await;
    none.fails(3, &["SLUICEGATE_ADMIN_TOKEN", "--token-file", ".sluicegate/admin.token"]);

    std::fs::create_dir(program.path().join(".sluicegate")).unwrap();
    program.write(".sluicegate/admin.token", "test-admin-token\n");
    program.ok(&nodes).await;
    program.write("wrong", "another token\n");
    let wrong = program.run(&[&nodes[..], &["--token-file", "wrong"]].concat()).await;
    wrong.fails(3, &["does not accept the token from wrong: unknown token"]);

    let folder = program.path().join("state");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("admin.token"), "test-admin-token").unwrap();
    std::fs::remove_dir_all(program.path().join(".sluicegate")).unwrap();
    let output =
        program.command(&nodes).env("SLUICEGATE_STATE_DIR", &folder).output().await.unwrap();
    assert!(output.status.success());
}

#[tokio::test]
async fn servers_that_make_no_sense() {
    let program = Program::at("x");
    for server in ["ftp://x", "http://x/v1", "http://u:p@x"] {
        program.run(&["nodes", "--server", server]).await.fails(2, &["--server"]);
    }
    let ran = program.run(&["nodes", "--server", "https://127.0.0.1:1", "--ca-file", "none"]).await;
    ran.fails(2, &["--ca-file none"]);
}
