//! Where the programs are and how they are started.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, anyhow, bail};

/// The administrator's token in every test process.
pub const ADMIN_TOKEN: &str = "test-admin-token-0123456789abcdef";
/// The data planes' token in every test process.
pub const NODE_TOKEN: &str = "test-node-token-0123456789abcdef";

/// The key that control planes of one cluster seal secrets with.
const SEAL_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Variables of the surroundings that would change what a test sees.
const UNWANTED: [&str; 19] = [
    "OPENAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "DASHSCOPE_API_KEY",
    "MISTRAL_API_KEY",
    "SLUICEGATE_CONTROL_PLANE",
    "SLUICEGATE_ETCD",
    "SLUICEGATE_ETCD_PASSWORD",
    "SLUICEGATE_LOG",
    "SLUICEGATE_NODE_ID",
    "SLUICEGATE_SERVER",
    "SLUICEGATE_STATE_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// What [`use_gateway`] was told.
static GATEWAY: OnceLock<PathBuf> = OnceLock::new();

/// Makes every later start in this process use the gateway at `path`. An error the second time.
pub fn use_gateway(path: &Path) -> anyhow::Result<()> {
    let path = path.canonicalize().with_context(|| path.display().to_string())?;
    GATEWAY.set(path).map_err(|_| anyhow!("the gateway's binary was chosen before"))
}

/// The gateway's binary: what [`use_gateway`] was told, or `SLUICEGATE_BIN`, or the debug build of
/// this workspace.
pub fn gateway_binary() -> anyhow::Result<PathBuf> {
    let told = GATEWAY.get().cloned();
    let binary = match told.or_else(|| std::env::var_os("SLUICEGATE_BIN").map(PathBuf::from)) {
        Some(path) => path,
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/sluicegate"),
    };
    if !binary.is_file() {
        bail!(
            "no gateway at {}: run `cargo build -p sluicegate` or set SLUICEGATE_BIN",
            binary.display()
        );
    }
    Ok(binary)
}

/// A command of the gateway with the tests' tokens, for a test that starts it in a way of its own.
pub fn gateway_command(arguments: &[&str]) -> anyhow::Result<Command> {
    Ok(gateway(&gateway_binary()?, arguments))
}

/// A command of the gateway with the tests' tokens.
pub(super) fn gateway(binary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .env("SLUICEGATE_ADMIN_TOKEN", ADMIN_TOKEN)
        .env("SLUICEGATE_NODE_TOKEN", NODE_TOKEN);
    for name in UNWANTED {
        command.env_remove(name);
    }
    command
}

/// Puts the seal key into a file in `folder` that only its owner can read.
pub(super) fn seal_key_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join("seal.key");
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(SEAL_KEY.as_bytes())?;
    Ok(path)
}

/// Checks that a program of the surroundings is there.
pub(super) fn installed(program: &str) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        bail!("{program} is not on PATH: apt-get install etcd-server redis-server");
    }
    Ok(())
}

/// An address as a URL.
pub(super) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}
