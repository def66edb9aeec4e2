//! Waiting with an end.

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;

/// Waits for `future`, at most for `limit`. The error says what was awaited.
pub async fn within<T>(
    limit: Duration,
    awaited: &str,
    future: impl Future<Output = T>,
) -> anyhow::Result<T> {
    tokio::time::timeout(limit, future)
        .await
        .with_context(|| format!("waited {limit:?} in vain for {awaited}"))
}
