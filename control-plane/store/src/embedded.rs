//! The configuration store of a single machine: one crash-safe file.

mod deferred;
mod expiry;
mod file;
mod ledger;
mod table;
mod watch;
mod writer;

use std::{
    fmt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::watch as channel, task::spawn_blocking, time::timeout};

pub use deferred::EmbeddedDeferred;
pub use file::Notice;
use file::StateFile;
pub use ledger::EmbeddedLedger;
use writer::Writer;

use crate::{
    Commit, Committed, ConfigStore, Entry, Epoch, Limits, Listing, Revision, StoreError,
    WatchStream,
};

const KIND: &str = "embedded";
/// As error messages call it.
const NAME: &str = "the embedded store";
/// Longest wait for the disk.
const DEADLINE: Duration = Duration::from_secs(10);

/// What an embedded store keeps and takes.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedConfig {
    /// Revisions that watches can go back by; a watcher further behind is sent a listing.
    pub history: u64,
    /// Size of one commit. Larger than a cluster's, since nothing is sent anywhere.
    pub limits: Limits,
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self { history: 10_000, limits: Limits { bytes: 32 << 20, ops: 10_000 } }
    }
}

/// A configuration store whose truth is the file `state.redb` in a directory of its own.
///
/// Only one process can have it open. Dropping the store waits for commits already handed in and
/// closes the file, unless watches are still held: they keep it open.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writer: Writer,
    limits: Limits,
}

/// What the store, its writer and its watches have in common.
struct Shared {
    file: StateFile,
    /// The newest durable revision. Watches also read on when it is sent again unchanged.
    latest: channel::Sender<Revision>,
    history: u64,
    /// A ledger in the file is open.
    has_ledger: AtomicBool,
    /// The deferred requests in the file are open.
    has_deferred: AtomicBool,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, making both where they do not exist. Blocks while the file is
    /// checked. The notices tell people about damage that was found and got around.
    pub fn open(dir: impl AsRef<Path>) -> Result<(Self, Vec<Notice>), StoreError> {
        Self::open_with(dir, EmbeddedConfig::default())
    }

    /// As [`EmbeddedStore::open`], with other than the usual bounds.
    pub fn open_with(
        dir: impl AsRef<Path>,
        config: EmbeddedConfig,
    ) -> Result<(Self, Vec<Notice>), StoreError> {
        let (file, notice) = StateFile::open(dir.as_ref())?;
        let revision = file.read(table::revision)?;
        let (latest, _) = channel::channel(revision);
        let shared = Arc::new(Shared {
            file,
            latest,
            history: config.history,
            has_ledger: AtomicBool::new(false),
            has_deferred: AtomicBool::new(false),
        });
        let writer = Writer::start(shared.clone())?;
        Ok((Self { shared, writer, limits: config.limits }, notice.into_iter().collect()))
    }

    /// Reads on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        blocking(move || shared.file.read(read)).await
    }
}

#[async_trait]
impl ConfigStore for EmbeddedStore {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn location(&self) -> String {
        self.shared.file.path().display().to_string()
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        self.read(table::epoch).await
    }

    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError> {
        let (shared, seen) = (self.shared.clone(), seen.clone());
        blocking(move || {
            let renewed = shared.file.write(|txn| table::renew_epoch(txn, &seen))?;
            // Also where nothing was written: an attempt before may have failed and been durable.
            shared.latest.send_modify(|_| ());
            Ok(renewed)
        })
        .await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.read(table::revision).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.limits.check(NAME, &commit, 0)?;
        within(self.writer.commit(commit)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = key.to_owned();
        self.read(move |txn| table::get(txn, &key)).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        let prefix = prefix.to_owned();
        self.read(move |txn| table::list(txn, &prefix)).await
    }

    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError> {
        let cursor = from.saturating_sub(1);
        Ok(watch::stream(self.shared.clone(), prefix.to_owned(), epoch, cursor))
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("file", &self.shared.file.path()).finish()
    }
}

/// Uses the file on a thread that may block.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let outcome = async {
        spawn_blocking(act)
            .await
            .unwrap_or_else(|panic| Err(unavailable(format!("its thread failed: {panic}"))))
    };
    within(outcome).await
}

async fn within<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(DEADLINE, call)
        .await
        .unwrap_or_else(|_| Err(unavailable(format!("the disk did not answer in {DEADLINE:?}"))))
}

fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { store: NAME, reason }
}
