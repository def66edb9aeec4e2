//! The gateway's processes.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use super::Variables;
use super::programs::{gateway, gateway_binary, url};
use crate::process::{Blueprint, Member, Ready, wait_until_ok};

/// Where a control plane keeps what it shares with others. Without an address, it keeps that in
/// files of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stores {
    pub etcd: Option<SocketAddr>,
    pub redis: Option<SocketAddr>,
}

/// `sluicegate control-plane`.
#[derive(Debug)]
pub struct ControlPlane(Member);

impl ControlPlane {
    /// Starts it on the etcd at `store`, or on its own store in `folder`, and waits until it is ready.
    /// `seal_key` is the file of the key that replicas on one store share.
    pub async fn start(
        name: &str,
        store: Option<SocketAddr>,
        seal_key: &Path,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let stores = Stores { etcd: store, redis: None };
        Self::start_with(name, stores, &[], seal_key, folder).await
    }

    /// As [`Self::start`], with a Redis for limits and usage and further variables in its
    /// environment.
    pub async fn start_with(
        name: &str,
        stores: Stores,
        variables: &Variables,
        seal_key: &Path,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_as(name, stores, &[], variables, seal_key, folder).await
    }

    /// As [`Self::start_with`], with further arguments.
    pub async fn start_as(
        name: &str,
        stores: Stores,
        arguments: &[String],
        variables: &Variables,
        seal_key: &Path,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let binary = gateway_binary()?;
        let (state, id, seal_key) = (folder.join(name), name.to_owned(), seal_key.to_owned());
        let (arguments, variables) = (arguments.to_vec(), variables.to_vec());
        let command = move |ports: &[SocketAddr]| {
            let mut command = gateway(&binary, &["control-plane"]);
            command
                .args(["--listen", &ports[0].to_string(), "--http-listen", &ports[1].to_string()])
                .args(["--replica-id", &id])
                .arg("--state-dir")
                .arg(&state)
                .arg("--seal-key-file")
                .arg(&seal_key)
                .args(&arguments)
                .envs(variables.clone());
            if let Some(etcd) = stores.etcd {
                command.args(["--etcd", &url(etcd)]);
            }
            if let Some(redis) = stores.redis {
                command.args(["--redis", &format!("redis://{redis}")]);
            }
            command
        };
        let ready = Ready::Http { port: 1, path: "/readyz" };
        Ok(Self(start(name, folder, 2, command, ready).await?))
    }

    /// Where data planes and administrators connect.
    pub fn grpc(&self) -> SocketAddr {
        self.0.address(0)
    }

    /// Where `/healthz`, `/readyz` and `/metrics` are.
    pub fn http(&self) -> SocketAddr {
        self.0.address(1)
    }
}

/// `sluicegate data-plane`.
#[derive(Debug)]
pub struct DataPlane(Member);

impl DataPlane {
    /// Starts it with these control planes, any of which will do, and waits until it is alive. It is
    /// ready once it has a policy.
    pub async fn start(
        name: &str,
        control_planes: &[SocketAddr],
        arguments: &[String],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_with(name, control_planes, arguments, &[], folder).await
    }

    /// As [`Self::start`], with further variables in its environment.
    pub async fn start_with(
        name: &str,
        control_planes: &[SocketAddr],
        arguments: &[String],
        variables: &Variables,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let binary = gateway_binary()?;
        let (state, id, arguments) = (folder.join(name), name.to_owned(), arguments.to_vec());
        let variables = variables.to_vec();
        let control_planes = control_planes.iter().map(|&it| url(it)).collect::<Vec<_>>().join(",");
        let command = move |ports: &[SocketAddr]| {
            let mut command = gateway(&binary, &["data-plane"]);
            command
                .args(["--control-plane", &control_planes, "--node-id", &id])
                .args(["--listen", &ports[0].to_string(), "--ops-listen", &ports[1].to_string()])
                .arg("--state-dir")
                .arg(&state)
                .args(&arguments)
                .envs(variables.clone());
            command
        };
        let ready = Ready::Http { port: 1, path: "/healthz" };
        Ok(Self(start(name, folder, 2, command, ready).await?))
    }

    /// Where callers connect.
    pub fn traffic(&self) -> SocketAddr {
        self.0.address(0)
    }

    /// Where `/healthz`, `/readyz` and `/metrics` are.
    pub fn ops(&self) -> SocketAddr {
        self.0.address(1)
    }

    /// Waits until it has a valid policy.
    pub async fn wait_ready(&self, limit: Duration) -> anyhow::Result<()> {
        wait_until_ok(&self.0, self.ops(), "/readyz", limit).await
    }
}

/// `sluicegate run`: both planes in one process.
#[derive(Debug)]
pub struct Standalone(Member);

impl Standalone {
    /// Starts it on the configuration at `config` and waits until it serves.
    pub async fn start(config: &Path, arguments: &[&str], folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(Some(config), arguments, &[], folder).await
    }

    /// Starts it without a configuration, so that it serves its demo or what its state has.
    pub async fn unconfigured(arguments: &[&str], folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(None, arguments, &[], folder).await
    }

    /// Starts it on the configuration at `config` with further variables in its environment.
    pub async fn with_env(
        config: &Path,
        variables: &[(&str, String)],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_with(Some(config), &[], variables, folder).await
    }

    /// The state is in `folder/gateway`.
    async fn start_with(
        config: Option<&Path>,
        arguments: &[&str],
        variables: &[(&str, String)],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let binary = gateway_binary()?;
        let (config, state) = (config.map(Path::to_owned), folder.join("gateway"));
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let command = move |ports: &[SocketAddr]| {
            let names = ["--listen", "--ops-listen", "--admin-listen", "--http-listen"];
            let mut command = gateway(&binary, &["run"]);
            if let Some(config) = &config {
                command.arg("--config").arg(config);
            }
            command.arg("--state-dir").arg(&state).args(&arguments).envs(variables.clone());
            for (name, port) in names.into_iter().zip(ports) {
                command.args([name, &port.to_string()]);
            }
            command
        };
        let ready = Ready::Http { port: 1, path: "/readyz" };
        Ok(Self(start("gateway", folder, 4, command, ready).await?))
    }

    /// Where callers connect.
    pub fn traffic(&self) -> SocketAddr {
        self.0.address(0)
    }

    /// Where the data plane's `/healthz`, `/readyz` and `/metrics` are.
    pub fn ops(&self) -> SocketAddr {
        self.0.address(1)
    }

    /// Where administrators connect.
    pub fn admin(&self) -> SocketAddr {
        self.0.address(2)
    }
}

super::is_a_member!(ControlPlane, DataPlane, Standalone);

async fn start(
    name: &str,
    folder: &Path,
    ports: usize,
    command: impl Fn(&[SocketAddr]) -> std::process::Command + Send + Sync + 'static,
    ready: Ready,
) -> anyhow::Result<Member> {
    let (name, logs, command) = (name.to_owned(), folder.to_owned(), Box::new(command));
    Member::start(Blueprint { name, logs, ports, command, ready }).await
}
