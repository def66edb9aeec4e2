//! A real etcd server of one member, with a data directory of its own.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use etcd_client::{Client, ConnectOptions};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::child::Process;

const STARTS_WITHIN: Duration = Duration::from_secs(20);

pub struct Server {
    dir: TempDir,
    client_port: u16,
    peer_port: u16,
    extra: Vec<String>,
    pub process: Process,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(extra: &[&str]) -> Self {
        // A port that was free a moment ago may be taken by now.
        for _ in 0..4 {
            let server = Self::prepare(extra);
            if server.try_run(server.client_port).await.is_ok() {
                return server;
            }
        }
        let server = Self::prepare(extra);
        server.run().await;
        server
    }

    /// A server that has an address and does not run yet.
    pub fn prepare(extra: &[&str]) -> Self {
        let (client_port, peer_port) = free_ports();
        Self {
            dir: tempfile::tempdir().unwrap(),
            client_port,
            peer_port,
            extra: extra.iter().map(|&flag| flag.to_owned()).collect(),
            process: Process::default(),
        }
    }

    pub fn url(&self) -> String {
        url(self.client_port)
    }

    pub fn data_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Starts the process, or starts it again on the same data, and waits until it serves.
    pub async fn run(&self) {
        if let Err(log) = self.try_run(self.client_port).await {
            panic!("etcd does not serve: {log}");
        }
    }

    /// As [`Server::run`], on the same data but at another address, which is returned. Those who
    /// know the usual one do not reach it.
    pub async fn run_elsewhere(&self) -> String {
        let port = bind().local_addr().unwrap().port();
        if let Err(log) = self.try_run(port).await {
            panic!("etcd does not serve: {log}");
        }
        url(port)
    }

    /// As [`Server::run`]; the error is the server's log.
    async fn try_run(&self, port: u16) -> Result<(), String> {
        self.process.start(self.command(port), "etcd-server");
        let deadline = Instant::now() + STARTS_WITHIN;
        while !serves(port).await {
            if self.process.has_ended() || Instant::now() > deadline {
                return Err(self.log());
            }
            sleep(Duration::from_millis(30)).await;
        }
        Ok(())
    }

    fn command(&self, port: u16) -> Command {
        let (client, peer) = (url(port), url(self.peer_port));
        let log = std::fs::File::create(self.log_path()).unwrap();
        let mut command = Command::new("etcd");
        command
            .args(["--name", "test", "--log-level", "warn", "--logger", "zap"])
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}")])
            .args(["--initial-cluster-token", &self.dir.path().display().to_string()])
            // A single member elects itself after this long; and it bounds the shortest lease.
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.dir.path().join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

async fn serves(port: u16) -> bool {
    let options = ConnectOptions::new()
        .with_timeout(Duration::from_secs(1))
        .with_connect_timeout(Duration::from_secs(1));
    let Ok(mut client) = Client::connect([url(port)], Some(options)).await else {
        return false;
    };
    match client.get("probe", None).await {
        Ok(_) => true,
        // Answering "log in first" is serving, too.
        Err(error) => error.to_string().contains("user name is empty"),
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Two ports that were free a moment ago.
fn free_ports() -> (u16, u16) {
    let (a, b) = (bind(), bind());
    (a.local_addr().unwrap().port(), b.local_addr().unwrap().port())
}

fn bind() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).unwrap()
}

/// Copies a data directory of a server that does not run.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
