//! A whole gateway out of real processes: a store, control planes and data planes, with a faulty
//! network between them on request.

mod programs;
mod roles;
mod stores;

/// Lets a newtype around a [`crate::process::Member`] be used as one.
macro_rules! is_a_member {
    ($($name:ident),*) => { $(
        impl Deref for $name {
            type Target = Member;

            fn deref(&self) -> &Member {
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Member {
                &mut self.0
            }
        }
    )* };
}
use is_a_member;

pub use self::programs::{ADMIN_TOKEN, NODE_TOKEN, gateway_binary, gateway_command, use_gateway};
pub use self::roles::{ControlPlane, DataPlane, Standalone, Stores};
pub use self::stores::{Etcd, Redis};

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use self::programs::{seal_key_file, url};
use crate::deadline::within;
use crate::fault::FaultProxy;

/// Variables of a process's environment, by name.
pub type Variables = [(String, String)];

/// How long a command of the command line may take.
const CLI_LIMIT: Duration = Duration::from_secs(60);

/// A running cluster. Dropping it ends every process and removes every file.
#[derive(Debug)]
pub struct Cluster {
    pub data_planes: Vec<DataPlane>,
    /// With [`Builder::fault_links`]: what stands between each data plane (first index) and each
    /// control plane (second index).
    pub data_plane_links: Vec<Vec<FaultProxy>>,
    pub control_planes: Vec<ControlPlane>,
    /// With [`Builder::fault_links`]: what stands between each control plane and etcd.
    pub control_plane_links: Vec<FaultProxy>,
    pub etcd: Option<Etcd>,
    pub redis: Option<Redis>,
    /// Last, so that it is removed last.
    folder: TempDir,
}

/// What a command of the command line left behind.
#[derive(Debug)]
pub struct CliOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl CliOutput {
    /// Everything it wrote.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Says what a cluster consists of.
#[derive(Debug, Default)]
pub struct Builder {
    etcd: bool,
    redis: bool,
    durable_redis: bool,
    control_planes: usize,
    data_planes: usize,
    data_plane_arguments: Vec<String>,
    control_plane_arguments: Vec<String>,
    fault_links: bool,
    redis_variables: Vec<(String, String)>,
    control_plane_variables: Vec<(String, String)>,
    first_data_plane_variables: Vec<(String, String)>,
}

impl Builder {
    /// Control planes keep their state in an etcd of the cluster's own. Without it, each has an
    /// embedded store.
    #[must_use]
    pub fn etcd(mut self) -> Self {
        self.etcd = true;
        self
    }

    /// Control planes count limits and usage in a Redis of the cluster's own. Without it, each counts
    /// in a file.
    #[must_use]
    pub fn redis(mut self) -> Self {
        self.redis = true;
        self
    }

    /// As [`Self::redis`]; what it has said outlives a kill.
    #[must_use]
    pub fn durable_redis(mut self) -> Self {
        self.durable_redis = true;
        self
    }

    /// Variables in the environment of Redis.
    #[must_use]
    pub fn redis_variables(mut self, variables: &Variables) -> Self {
        self.redis_variables = variables.to_vec();
        self
    }

    /// Variables in the environment of every control plane.
    #[must_use]
    pub fn control_plane_variables(mut self, variables: &Variables) -> Self {
        self.control_plane_variables = variables.to_vec();
        self
    }

    /// Variables in the environment of the first data plane; the others are as ever.
    #[must_use]
    pub fn first_data_plane_variables(mut self, variables: &Variables) -> Self {
        self.first_data_plane_variables = variables.to_vec();
        self
    }

    #[must_use]
    pub fn control_planes(mut self, n: usize) -> Self {
        self.control_planes = n;
        self
    }

    /// Each knows every control plane.
    #[must_use]
    pub fn data_planes(mut self, n: usize) -> Self {
        self.data_planes = n;
        self
    }

    /// A further argument for every data plane.
    #[must_use]
    pub fn data_plane_argument(mut self, argument: &str) -> Self {
        self.data_plane_arguments.push(argument.into());
        self
    }

    /// A further argument for every control plane.
    #[must_use]
    pub fn control_plane_argument(mut self, argument: &str) -> Self {
        self.control_plane_arguments.push(argument.into());
        self
    }

    /// Puts a [`FaultProxy`] into every connection between the parts.
    #[must_use]
    pub fn fault_links(mut self) -> Self {
        self.fault_links = true;
        self
    }

    /// Starts everything, in the order in which the parts need each other.
    pub async fn start(self) -> anyhow::Result<Cluster> {
        let folder = TempDir::with_prefix("sluicegate-")?;
        let mut cluster = Cluster {
            data_planes: Vec::new(),
            data_plane_links: Vec::new(),
            control_planes: Vec::new(),
            control_plane_links: Vec::new(),
            etcd: None,
            redis: None,
            folder,
        };
        let seal_key = seal_key_file(cluster.folder.path())?;
        if self.etcd {
            cluster.etcd = Some(Etcd::start(cluster.folder.path()).await?);
        }
        if self.durable_redis {
            cluster.redis = Some(Redis::start_durable(cluster.folder.path()).await?);
        } else if self.redis {
            let folder = cluster.folder.path();
            cluster.redis = Some(Redis::start_with(folder, &self.redis_variables).await?);
        }
        for i in 0..self.control_planes {
            let mut store = cluster.etcd.as_ref().map(Etcd::client);
            if let (Some(address), true) = (&mut store, self.fault_links) {
                *address = linked(*address, &mut cluster.control_plane_links).await?;
            }
            let (name, folder) = (format!("control-plane-{i}"), cluster.folder.path());
            let redis = cluster.redis.as_ref().map(Redis::client);
            let stores = Stores { etcd: store, redis };
            let (arguments, variables) =
                (&self.control_plane_arguments, &self.control_plane_variables);
            let started =
                ControlPlane::start_as(&name, stores, arguments, variables, &seal_key, folder);
            let started = started.await?;
            cluster.control_planes.push(started);
        }
        for i in 0..self.data_planes {
            let mut addresses: Vec<_> =
                cluster.control_planes.iter().map(ControlPlane::grpc).collect();
            let mut links = Vec::new();
            if self.fault_links {
                for address in &mut addresses {
                    *address = linked(*address, &mut links).await?;
                }
            }
            cluster.data_plane_links.push(links);
            let (name, arguments) = (format!("data-plane-{i}"), &self.data_plane_arguments);
            let folder = cluster.folder.path();
            let variables: &Variables = if i == 0 { &self.first_data_plane_variables } else { &[] };
            let started =
                DataPlane::start_with(&name, &addresses, arguments, variables, folder).await?;
            cluster.data_planes.push(started);
        }
        Ok(cluster)
    }
}

impl Cluster {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Applies a configuration and waits until every data plane has it. An error unless the command
    /// succeeds.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<CliOutput> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile_in(self.folder.path())?;
        std::fs::write(file.path(), yaml)?;
        let path = file.path().to_str().context("path of the file")?;
        let limit = (CLI_LIMIT / 2).as_millis().to_string();
        let arguments = ["apply", "-f", path, "--wait", "1.0", "--wait-timeout-ms", &limit];
        let output = self.cli(&arguments).await?;
        if !output.status.success() {
            bail!("apply ended with {}: {}{}", output.status, output.stdout, output.stderr);
        }
        Ok(output)
    }

    /// Where everything is kept; each process has its state in a folder of its own name.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command of the command line against the first control plane.
    pub async fn cli(&self, arguments: &[&str]) -> anyhow::Result<CliOutput> {
        let control_plane = self.control_planes.first().context("no control plane")?;
        cli(control_plane.grpc(), arguments).await
    }
}

/// Runs a command of the command line against `server`.
pub async fn cli(server: SocketAddr, arguments: &[&str]) -> anyhow::Result<CliOutput> {
    let mut command = gateway_command(arguments)?;
    command.args(["--server", &url(server)]);
    finish(command, CLI_LIMIT).await
}

/// Runs a command to its end; a command that is still running at the limit is killed.
pub async fn finish(command: Command, limit: Duration) -> anyhow::Result<CliOutput> {
    let awaited = format!("the end of {command:?}");
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let output = within(limit, &awaited, command.output()).await??;
    Ok(CliOutput {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Puts a proxy in front of `target`; gives its address.
async fn linked(target: SocketAddr, links: &mut Vec<FaultProxy>) -> anyhow::Result<SocketAddr> {
    let link = FaultProxy::start(target).await?;
    let address = link.address();
    links.push(link);
    Ok(address)
}
