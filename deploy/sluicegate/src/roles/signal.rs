//! Stop signals.

use sluicegate_telemetry::task;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// For the help of every role.
macro_rules! signals_help {
    () => {
        "\
Signals:
  SIGTERM, SIGINT, SIGHUP  no new connections, running requests finish, then it ends; a second
                           signal ends it at once. Under nohup SIGHUP is ignored"
    };
}
pub(super) use signals_help;

/// A token that fires at the first SIGTERM, SIGINT or SIGHUP. A second one ends the process at once,
/// as an impatient operator expects. Whoever started the process with SIGHUP ignored, as `nohup`
/// does, wants it to outlive the terminal: it stays ignored.
///
/// # Errors
/// When the signals cannot be listened to.
pub(super) fn stop() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
    };
    let fired = stop.clone();
    task::spawn("signals", async move {
        signals.next().await;
        tracing::info!("stopping; a second signal stops at once");
        fired.cancel();
        signals.next().await;
        abort();
    });
    Ok(stop)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Was the process started with SIGHUP ignored?
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, 1))
}

/// Reads the set of ignored signals from the kernel's description of a process.
fn ignores(status: &str, signal: u32) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

#[expect(clippy::disallowed_methods, reason = "the operator asked twice")]
fn abort() -> ! {
    std::process::exit(130)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernel() {
        let status = |set: &str| format!("Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t{set}\n");
        assert!(ignores(&status("0000000000001001"), 1));
        assert!(!ignores(&status("0000000000001000"), 1));
        assert!(ignores(&status("0000000000001000"), 13));
        assert!(!ignores("", 1));
    }
}
