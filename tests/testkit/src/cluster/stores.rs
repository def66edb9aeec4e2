//! The stores a cluster keeps its state in.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Variables;
use super::programs::{installed, url};
use crate::process::{Blueprint, Member, Ready};

/// An etcd server of one member.
#[derive(Debug)]
pub struct Etcd(Member);

impl Etcd {
    /// Starts it with its data and logs in `folder`.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        installed("etcd")?;
        let data = folder.join("etcd.data");
        let command = move |ports: &[SocketAddr]| {
            let (client, peer) = (url(ports[0]), url(ports[1]));
            let mut command = Command::new("etcd");
            command
                .arg("--data-dir")
                .arg(&data)
                .args(["--name", "test", "--log-level", "warn"])
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("test={peer}")]);
            command
        };
        let blueprint = Blueprint {
            name: "etcd".into(),
            logs: folder.into(),
            ports: 2,
            command: Box::new(command),
            ready: Ready::Http { port: 0, path: "/health" },
        };
        Ok(Self(Member::start(blueprint).await?))
    }

    /// Where clients connect.
    pub fn client(&self) -> SocketAddr {
        self.0.address(0)
    }
}

/// A Redis server. It writes to its disk only when it is told to (`SAVE`), and starts from what is
/// there.
#[derive(Debug)]
pub struct Redis {
    member: Member,
    data: PathBuf,
}

impl Redis {
    /// Starts it with its data in `folder/redis` and its logs in `folder`.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, &[]).await
    }

    /// As [`Self::start`]; what it was told outlives a kill.
    pub async fn start_durable(folder: &Path) -> anyhow::Result<Self> {
        Self::start_as(folder, &[], "yes").await
    }

    /// As [`Self::start`], with further variables in its environment.
    pub async fn start_with(folder: &Path, variables: &Variables) -> anyhow::Result<Self> {
        Self::start_as(folder, variables, "no").await
    }

    async fn start_as(
        folder: &Path,
        variables: &Variables,
        append: &'static str,
    ) -> anyhow::Result<Self> {
        installed("redis-server")?;
        let (data, variables) = (folder.join("redis"), variables.to_vec());
        std::fs::create_dir_all(&data)?;
        let directory = data.clone();
        let command = move |ports: &[SocketAddr]| {
            let mut command = Command::new("redis-server");
            command
                .args(["--bind", "127.0.0.1", "--save", ""])
                .args(["--appendonly", append, "--appendfsync", "always"])
                .args(["--port", &ports[0].port().to_string()])
                .arg("--dir")
                .arg(&directory)
                .envs(variables.clone());
            command
        };
        let blueprint = Blueprint {
            name: "redis".into(),
            logs: folder.to_owned(),
            ports: 1,
            command: Box::new(command),
            ready: Ready::Line("Ready to accept connections"),
        };
        Ok(Self { member: Member::start(blueprint).await?, data })
    }

    /// Where clients connect.
    pub fn client(&self) -> SocketAddr {
        self.member.address(0)
    }

    /// What `SAVE` writes and what the next start reads.
    pub fn dump(&self) -> PathBuf {
        self.data.join("dump.rdb")
    }
}

impl Deref for Redis {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.member
    }
}

impl DerefMut for Redis {
    fn deref_mut(&mut self) -> &mut Member {
        &mut self.member
    }
}

super::is_a_member!(Etcd);
