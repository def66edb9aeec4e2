//! Running the binary.

use std::{
    path::Path,
    process::{Output, Stdio},
};

use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, process::Command};

/// The token that the fake control plane knows.
pub(crate) const TOKEN: &str = "test-admin-token";

/// A folder to run the binary in, with an environment of its own.
pub(crate) struct Program {
    pub(crate) folder: TempDir,
    server: Option<String>,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Program {
    /// Without a control plane.
    pub(crate) fn offline() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None }
    }

    /// With the control plane at `address`.
    pub(crate) fn at(address: impl std::fmt::Display) -> Self {
        Self { server: Some(format!("http://{address}")), ..Self::offline() }
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The binary with arguments, ready to start.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.args(arguments).current_dir(self.path()).kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SLUICEGATE_") {
                command.env_remove(name);
            }
        }
        if let Some(server) = &self.server {
            command.env("SLUICEGATE_SERVER", server).env("SLUICEGATE_ADMIN_TOKEN", TOKEN);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().await.unwrap())
    }

    /// Runs it with text on standard input.
    pub(crate) async fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        ran(child.wait_with_output().await.unwrap())
    }

    /// Runs it and expects exit code 0; gives what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        let run = self.command(arguments).output();
        async move {
            let ran = ran(run.await.unwrap());
            assert_eq!(ran.code, 0, "at {caller}: {ran:?}");
            ran.out
        }
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// Expects an exit code and parts of what was said on standard error.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{}\n  lacks: {part}", self.err);
        }
        assert!(!self.err.contains("Status {"), "no debug forms: {}", self.err);
    }
}
