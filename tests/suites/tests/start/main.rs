//! Wrong input, at start and in requests: what is said about it, to the word, and how it ends.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

mod files;
mod processes;
mod requests;
mod strangers;
mod watched;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::cluster::{CliOutput, finish, gateway_command};

const LIMIT: Duration = Duration::from_secs(20);

/// An option and port 0, which the system replaces by a free one.
const ANYWHERE: &str = "127.0.0.1:0";

/// `sluicegate run` on free ports, with its state in `state`.
fn run(state: &Path) -> Command {
    let mut command = gateway_command(&["run"]).unwrap();
    for option in ["--listen", "--ops-listen", "--admin-listen", "--http-listen"] {
        command.args([option, ANYWHERE]);
    }
    command.arg("--state-dir").arg(state);
    command
}

/// Runs a command that must end by itself with this code and say all of `parts`.
#[track_caller]
fn fails(command: Command, code: i32, parts: &[&str]) -> impl Future<Output = CliOutput> {
    let caller = std::panic::Location::caller();
    async move {
        let output = finish(command, LIMIT).await.unwrap();
        let said = output.said();
        assert_eq!(output.status.code(), Some(code), "{caller}: {said}");
        for part in parts {
            assert!(said.contains(part), "{caller}: {said}\nlacks: {part}");
        }
        assert!(!said.contains("panicked"), "{caller}: {said}");
        output
    }
}

/// A port that is taken for as long as the listener lives.
fn taken() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}
