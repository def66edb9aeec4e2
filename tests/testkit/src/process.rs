//! Real processes: started in a group of their own, with their output captured line by line, and
//! ended with the value that stands for them.

mod member;
mod output;

pub use self::member::{Blueprint, CommandOn, Member, Ready, http_get, wait_until_ok};
pub use self::output::Lines;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::sync::watch;

use crate::deadline::within;

/// A running program. Dropping it kills the whole process group and reaps the program.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    /// The child until it is reaped. Signals go out under this lock, so never to a recycled PID.
    child: Arc<Mutex<Option<Child>>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    stdout: Lines,
    stderr: Lines,
}

impl Process {
    /// Starts `command`. Its output goes to `NAME.stdout` and `NAME.stderr` in `logs`, appended, and
    /// can be read here line by line.
    pub fn start(name: &str, mut command: Command, logs: &Path) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name} as {command:?}"))?;
        let pid = Pid::from_raw(child.id().try_into().context("pid")?);
        let stdout = child.stdout.take().context("no stdout pipe")?;
        let stderr = child.stderr.take().context("no stderr pipe")?;
        let (exited, exit) = watch::channel(None);
        let child = Arc::new(Mutex::new(Some(child)));
        thread::spawn({
            let child = child.clone();
            move || reap(pid, &child, &exited)
        });
        Ok(Self {
            name: name.into(),
            pid,
            child,
            exit,
            stdout: Lines::capture(stdout, &logs.join(format!("{name}.stdout")))?,
            stderr: Lines::capture(stderr, &logs.join(format!("{name}.stderr")))?,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    pub fn stdout(&self) -> &Lines {
        &self.stdout
    }

    pub fn stderr(&self) -> &Lines {
        &self.stderr
    }

    /// `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// Waits until it has ended.
    pub async fn wait_for_exit(&self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let mut exit = self.exit.clone();
        let awaited = format!("the end of {}", self.name);
        let status = within(limit, &awaited, exit.wait_for(Option::is_some)).await??;
        status.context("ended without a status")
    }

    /// SIGKILL.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGKILL)
    }

    /// SIGTERM.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGTERM)
    }

    /// SIGSTOP: the process freezes with its connections open.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Kills it and blocks until it is reaped, so that its ports are free. Nothing if it has ended.
    pub fn end(&self) {
        // An error means that it has ended by itself.
        self.signal(Signal::SIGKILL).ok();
        // The reaper drops its end of the channel after the last word.
        while self.exit_status().is_none() && self.exit.has_changed().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Resident memory now.
    pub fn rss_bytes(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory since [`Self::restart_peak`] or, if that was never called, ever.
    pub fn peak_rss_bytes(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    /// Forgets the peak so far.
    pub fn restart_peak(&self) -> anyhow::Result<()> {
        let path = self.proc().join("clear_refs");
        std::fs::write(&path, "5").with_context(|| path.display().to_string())
    }

    /// Number of open file descriptors.
    pub fn open_files(&self) -> anyhow::Result<usize> {
        let path = self.proc().join("fd");
        Ok(std::fs::read_dir(&path).with_context(|| path.display().to_string())?.count())
    }

    /// The end of what it wrote, for an error message.
    pub fn last_words(&self) -> String {
        format!(
            "{} (pid {}, {})\n--- stdout\n{}\n--- stderr\n{}",
            self.name,
            self.pid,
            self.exit_status().map_or("running".into(), |status| status.to_string()),
            self.stdout.tail(20),
            self.stderr.tail(20),
        )
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.is_none() {
            bail!("{} has ended already", self.name);
        }
        killpg(self.pid, signal).with_context(|| format!("{signal} to {}", self.name))
    }

    fn memory(&self, field: &str) -> anyhow::Result<u64> {
        let path = self.proc().join("status");
        let status = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let kib = status
            .lines()
            .find_map(|line| {
                line.strip_prefix(field)?.split_whitespace().next()?.parse::<u64>().ok()
            })
            .with_context(|| format!("no {field} in {}", path.display()))?;
        Ok(kib * 1024)
    }

    fn proc(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pid))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the end without reaping, then reaps under the lock and publishes the status.
fn reap(pid: Pid, child: &Mutex<Option<Child>>, exited: &watch::Sender<Option<ExitStatus>>) {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(pid), flags) == Err(Errno::EINTR) {}
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Ok(status)) = child.take().map(|mut child| child.wait()) {
        exited.send_replace(Some(status));
    }
}
