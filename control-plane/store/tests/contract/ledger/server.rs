//! A real Redis server with a data directory of its own.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use redis::{Client, aio::MultiplexedConnection};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::child::Process;

const STARTS_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    port: u16,
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
            if server.try_run().await.is_ok() {
                return server;
            }
        }
        let server = Self::prepare(extra);
        server.run().await;
        server
    }

    /// A server that has an address and does not run yet.
    pub fn prepare(extra: &[&str]) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            port: free_port(),
            extra: extra.iter().map(|&argument| argument.to_owned()).collect(),
            process: Process::default(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn url_of(&self, user: &str) -> String {
        format!("redis://{user}@127.0.0.1:{}/0", self.port)
    }

    /// Where the server saves what it holds.
    pub fn dump(&self) -> PathBuf {
        self.dir.path().join("dump.rdb")
    }

    /// Starts the process, or starts it again on what was saved, and waits until it serves.
    pub async fn run(&self) {
        if let Err(log) = self.try_run().await {
            panic!("redis-server does not serve: {log}");
        }
    }

    async fn try_run(&self) -> Result<(), String> {
        self.process.start(self.command(), "redis-server");
        let deadline = Instant::now() + STARTS_WITHIN;
        while !self.serves().await {
            if self.process.has_ended() || Instant::now() > deadline {
                return Err(std::fs::read_to_string(self.log_path()).unwrap_or_default());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn serves(&self) -> bool {
        let Ok(client) = Client::open(self.url()) else { return false };
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
            return false;
        };
        redis::cmd("PING").query_async::<String>(&mut connection).await.is_ok()
    }

    /// A connection beside the one that is tested.
    pub async fn connection(&self) -> MultiplexedConnection {
        let client = Client::open(self.url()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    /// Deletes meters and their leases, and nothing else.
    pub async fn forget_leases(&self) {
        let mut connection = self.connection().await;
        let mut ask = redis::cmd("KEYS");
        let keys: Vec<String> =
            ask.arg("sluicegate:q:*").query_async(&mut connection).await.unwrap();
        redis::cmd("DEL").arg(keys).exec_async(&mut connection).await.unwrap();
    }

    fn command(&self) -> Command {
        let log = std::fs::File::create(self.log_path()).unwrap();
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            // A replica is sent its copy at once.
            .args(["--repl-diskless-sync-delay", "0"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null());
        command
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
