//! A watch on the embedded store: it reads the log, so it can be as slow as it likes.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::stream;
use tokio::{sync::watch as channel, task::spawn_blocking, time::sleep};

use super::{Shared, table, unavailable};
use crate::{ChangeSet, Epoch, Revision, StoreError, WatchEvent, WatchStream};

/// Bytes of changes read from the file at a time.
const BATCH_BYTES: usize = 1 << 20;
/// Between attempts to read a file that could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A stretch of the log.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) sets: Vec<ChangeSet>,
    /// The last revision that was looked at.
    pub(super) cursor: Revision,
    /// The newest revision there was.
    pub(super) newest: Revision,
}

/// Streams what happens below `prefix` after `cursor`, a position in the history `epoch`.
///
/// There is no task and no buffer behind it: whoever polls it reads on, and a writer only ever
/// says that there is something new.
pub(super) fn stream(
    shared: Arc<Shared>,
    prefix: String,
    epoch: Epoch,
    cursor: Revision,
) -> WatchStream {
    let latest = shared.latest.subscribe();
    let ready = VecDeque::new();
    let watcher = Watcher { shared, prefix, epoch, cursor, latest, ready, interrupted: false };
    Box::pin(stream::unfold(watcher, async |mut watcher| {
        let event = watcher.next().await;
        Some((event, watcher))
    }))
}

struct Watcher {
    shared: Arc<Shared>,
    prefix: String,
    /// The history that the cursor is a position in.
    epoch: Epoch,
    /// The last revision that has been told or passed over.
    cursor: Revision,
    latest: channel::Receiver<Revision>,
    ready: VecDeque<WatchEvent>,
    interrupted: bool,
}

impl Watcher {
    async fn next(&mut self) -> WatchEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            // Marked as seen before reading: a commit that happens meanwhile ends the wait below.
            self.latest.mark_unchanged();
            match self.read().await {
                Ok(caught_up) => {
                    if std::mem::take(&mut self.interrupted) {
                        return WatchEvent::Resumed;
                    }
                    if caught_up && self.ready.is_empty() && self.latest.changed().await.is_err() {
                        unreachable!("the sender lives in what this watcher shares");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.interrupted, true) {
                        return WatchEvent::Interrupted(error.to_string());
                    }
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Reads on, into `ready`. True if there was nothing more to read.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let (epoch, prefix, cursor) = (self.epoch.clone(), self.prefix.clone(), self.cursor);
        let progress = self
            .blocking(move |shared| {
                shared.file.read(|txn| {
                    if table::epoch(txn)? != epoch {
                        return Ok(None);
                    }
                    table::changes_after(txn, &prefix, cursor, BATCH_BYTES)
                })
            })
            .await?;
        let Some(progress) = progress else { return self.relist().await };
        self.ready.extend(progress.sets.into_iter().map(WatchEvent::Changes));
        self.cursor = progress.cursor;
        Ok(progress.cursor == progress.newest)
    }

    async fn relist(&mut self) -> Result<bool, StoreError> {
        let prefix = self.prefix.clone();
        let (epoch, listing) = self
            .blocking(move |shared| {
                shared.file.read(|txn| Ok((table::epoch(txn)?, table::list(txn, &prefix)?)))
            })
            .await?;
        self.epoch = epoch.clone();
        self.cursor = listing.revision;
        self.interrupted = false;
        self.ready.push_back(WatchEvent::Relisted { epoch, listing });
        Ok(false)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        spawn_blocking(move || read(&shared))
            .await
            .unwrap_or_else(|panic| Err(unavailable(format!("the reader failed: {panic}"))))
    }
}
