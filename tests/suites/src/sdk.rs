//! The official SDKs: where they are, and how their scripts are run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use sluicegate_testkit::cluster::{CliOutput, finish};
use tokio::sync::Mutex;

/// How long an SDK may take for all its checks, and longer when it must be installed first.
const LIMIT: Duration = Duration::from_secs(120);
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// One installation at a time.
static INSTALLING: Mutex<()> = Mutex::const_new(());

/// Runs a script of `tests/sdk` under Python, with the SDKs there, and gives what it said.
pub async fn python(script: &str, arguments: &[&str]) -> anyhow::Result<CliOutput> {
    install().await?;
    let root = root()?;
    let mut command = Command::new(root.join("target/sdk/python/bin/python"));
    command.arg(root.join("tests/sdk").join(script)).current_dir(&root);
    run(command, arguments).await
}

/// The same under Node. It looks for packages beside the script, so that scripts are copied there.
pub async fn node(script: &str, arguments: &[&str]) -> anyhow::Result<CliOutput> {
    install().await?;
    let mut command = Command::new("node");
    command.arg(script).current_dir(root()?.join("target/sdk/node"));
    run(command, arguments).await
}

async fn run(mut command: Command, arguments: &[&str]) -> anyhow::Result<CliOutput> {
    command.args(arguments).env("NO_PROXY", "127.0.0.1");
    finish(command, LIMIT).await
}

/// Makes the SDKs' environments; nothing when they stand.
async fn install() -> anyhow::Result<()> {
    let _installing = INSTALLING.lock().await;
    let script = Command::new(root()?.join("tests/sdk/environment.sh"));
    let output = finish(script, INSTALL_LIMIT).await?;
    ensure!(output.status.success(), "{}", output.said());
    Ok(())
}

/// The root of the repository.
fn root() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().context("the repository has a root")
}
