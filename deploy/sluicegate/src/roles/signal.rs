//! Stop signals.

use sluicegate_telemetry::task;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that fires at the first SIGTERM or SIGINT. A second one ends the process at once, as an
/// impatient operator expects.
///
/// # Errors
/// When the signals cannot be listened to.
pub(super) fn stop() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let fired = stop.clone();
    task::spawn("signals", async move {
        wait(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping; a second signal stops at once");
        fired.cancel();
        wait(&mut terminate, &mut interrupt).await;
        abort();
    });
    Ok(stop)
}

async fn wait(
    terminate: &mut tokio::signal::unix::Signal,
    interrupt: &mut tokio::signal::unix::Signal,
) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "the operator asked twice")]
fn abort() -> ! {
    std::process::exit(130)
}
