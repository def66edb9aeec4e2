//! A process that serves on ports of its own and can be ended and started again as it was.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::Process;
use crate::client::{Reply, Request, exchange};
use crate::deadline::within;
use crate::port;

/// Pause between two looks at a readiness URL.
const POLL: Duration = Duration::from_millis(20);

/// How long a process may take until it serves, on a machine with other work.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How often a start is tried because somebody took a port in the meantime.
const STARTS: usize = 4;

/// Makes the command for the given ports.
pub type CommandOn = dyn Fn(&[SocketAddr]) -> Command + Send + Sync;

/// How to start a process.
pub struct Blueprint {
    /// Names the log files as well.
    pub name: String,
    /// Folder of the log files.
    pub logs: PathBuf,
    /// Number of ports it listens on.
    pub ports: usize,
    pub command: Box<CommandOn>,
    pub ready: Ready,
}

/// What shows that a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// A GET of `path` on the port with that index gives 200.
    Http { port: usize, path: &'static str },
    /// A line of its standard output holds this text.
    Line(&'static str),
}

/// A serving process.
#[derive(Debug)]
pub struct Member {
    process: Process,
    ports: Vec<SocketAddr>,
    blueprint: Blueprint,
}

impl Member {
    /// Starts on free ports and waits until the process is ready; on others if one was taken.
    pub async fn start(blueprint: Blueprint) -> anyhow::Result<Self> {
        let mut starts = 0;
        loop {
            starts += 1;
            let ports =
                (0..blueprint.ports).map(|_| port::free()).collect::<Result<Vec<_>, _>>()?;
            let process = blueprint.spawn(&ports)?;
            match blueprint.wait_ready(&process, &ports).await {
                Ok(()) => return Ok(Self { process, ports, blueprint }),
                Err(_) if starts < STARTS && lost_a_port(&process) => {}
                Err(error) => return Err(error.context(process.last_words())),
            }
        }
    }

    /// Kills it, if it still runs, starts it again on the same ports and waits until it is ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.end();
        self.process = self.blueprint.spawn(&self.ports)?;
        let ready = self.blueprint.wait_ready(&self.process, &self.ports).await;
        ready.with_context(|| self.process.last_words())
    }

    /// The address with that index.
    ///
    /// # Panics
    ///
    /// If the blueprint has fewer ports.
    pub fn address(&self, index: usize) -> SocketAddr {
        self.ports[index]
    }
}

impl Deref for Member {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Blueprint {
    fn spawn(&self, ports: &[SocketAddr]) -> anyhow::Result<Process> {
        Process::start(&self.name, (self.command)(ports), &self.logs)
    }

    async fn wait_ready(&self, process: &Process, ports: &[SocketAddr]) -> anyhow::Result<()> {
        match self.ready {
            Ready::Http { port, path } => {
                let address = *ports.get(port).context("no such port")?;
                wait_until_ok(process, address, path, START_LIMIT).await
            }
            Ready::Line(text) => {
                let pick = |line: &str| line.contains(text).then_some(());
                process.stdout().find(START_LIMIT, &format!("{text:?}"), pick).await
            }
        }
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blueprint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One GET without credentials.
pub async fn http_get(address: SocketAddr, path: &str) -> Reply {
    exchange(address, &Request::get(path), &[], Duration::from_secs(2)).await
}

/// Polls `path` until it gives 200. An error at once if the process ends.
pub async fn wait_until_ok(
    process: &Process,
    address: SocketAddr,
    path: &str,
    limit: Duration,
) -> anyhow::Result<()> {
    let mut last = None;
    let poll = async {
        loop {
            if let Some(status) = process.exit_status() {
                bail!("{} ended with {status}", process.name());
            }
            let reply = http_get(address, path).await;
            if reply.status == Some(200) {
                return Ok(());
            }
            last = Some(reply);
            tokio::time::sleep(POLL).await;
        }
    };
    let ready = within(limit, &format!("200 from http://{address}{path}"), poll).await;
    ready.with_context(|| match last {
        Some(last) => format!("the last answer was {:?} {:?}", last.status, last.problems),
        None => "there was no answer".into(),
    })?
}

fn lost_a_port(process: &Process) -> bool {
    process.exit_status().is_some()
        && process.last_words().to_ascii_lowercase().contains("address already in use")
}
