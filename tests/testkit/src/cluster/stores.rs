//! The stores a cluster keeps its state in.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

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

/// A Redis server that keeps nothing on disk.
#[derive(Debug)]
pub struct Redis(Member);

impl Redis {
    /// Starts it with its logs in `folder`.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        installed("redis-server")?;
        let folder = folder.to_owned();
        let logs = folder.clone();
        let command = move |ports: &[SocketAddr]| {
            let mut command = Command::new("redis-server");
            command
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .args(["--port", &ports[0].port().to_string()])
                .arg("--dir")
                .arg(&folder);
            command
        };
        let blueprint = Blueprint {
            name: "redis".into(),
            logs,
            ports: 1,
            command: Box::new(command),
            ready: Ready::Line("Ready to accept connections"),
        };
        Ok(Self(Member::start(blueprint).await?))
    }

    /// Where clients connect.
    pub fn client(&self) -> SocketAddr {
        self.0.address(0)
    }
}

super::is_a_member!(Etcd, Redis);
