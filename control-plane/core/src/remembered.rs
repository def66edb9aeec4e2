//! The configuration as it was, for a control plane that starts while its store is away.
//!
//! What a start needs is kept in a sealed file beside the replica, and written anew some seconds after each
//! change. A start that finds the store away reads that, all of it or nothing, and serves it: read-only, since
//! every commit still goes to the store. Once the start is over, the file answers nothing any more; the watch
//! brings the rest when the store is back.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use sluicegate_model::seal::SealKey;
use sluicegate_store::{
    Commit, Committed, ConfigStore, Entry, Epoch, Listing, Revision, StoreError, WatchStream,
};
use tokio::time::{sleep, timeout};

use crate::{desired::Desired, keys};

/// What is sealed, and in which form.
const CONTEXT: &[u8] = b"sluicegate configuration 1";
/// Changes that follow each other within this time are written together.
const SETTLE: Duration = Duration::from_secs(5);
const AT_LEAST_EACH: Duration = Duration::from_secs(3_600);
/// Between attempts, should writing fail.
const AGAIN: Duration = Duration::from_secs(60);

/// A store, and what is remembered of it.
#[derive(Debug)]
pub struct Remembered {
    store: Arc<dyn ConfigStore>,
    file: PathBuf,
    key: SealKey,
    known: Option<Memory>,
    phase: AtomicU8,
}

/// The store has not failed to answer yet, or there is nothing to answer in its place.
const ASKING: u8 = 0;
/// The start reads what is remembered.
const REMEMBERING: u8 = 1;
/// The start is over.
const STARTED: u8 = 2;

#[derive(Clone, PartialEq, prost::Message)]
struct Memory {
    #[prost(bytes = "bytes", tag = "1")]
    epoch: Bytes,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(message, repeated, tag = "3")]
    entries: Vec<Kept>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Kept {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    #[prost(uint64, tag = "3")]
    mod_revision: u64,
}

impl From<Entry> for Kept {
    fn from(Entry { key, value, mod_revision }: Entry) -> Self {
        Self { key, value, mod_revision }
    }
}

impl From<Kept> for Entry {
    fn from(Kept { key, value, mod_revision }: Kept) -> Self {
        Self { key, value, mod_revision }
    }
}

impl Remembered {
    /// What the file holds, if it is there and `key` sealed it.
    pub fn open(store: Arc<dyn ConfigStore>, file: PathBuf, key: SealKey) -> Arc<Self> {
        let known = match fs::read(&file) {
            Ok(sealed) => {
                let plain = key.open(CONTEXT, &sealed).ok();
                let known = plain.and_then(|plain| Memory::decode(plain.as_slice()).ok());
                if known.is_none() {
                    tracing::warn!(
                        file = %file.display(),
                        "the remembered configuration is damaged or sealed with another key; it is of no use"
                    );
                }
                known
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the remembered configuration cannot be read");
                None
            }
        };
        Arc::new(Self { store, file, key, known, phase: AtomicU8::new(ASKING) })
    }

    /// The start is over. Returns whether it was made from what is remembered.
    pub fn started(&self) -> bool {
        self.phase.swap(STARTED, Ordering::AcqRel) == REMEMBERING
    }

    /// Keeps the file current, for ever.
    pub async fn keep(self: Arc<Self>, desired: Arc<Desired>) {
        let mut state = desired.subscribe();
        loop {
            state.mark_unchanged();
            if let Err(reason) = self.write().await {
                if desired.outage().is_none() {
                    tracing::warn!(reason, "the configuration cannot be remembered");
                }
                sleep(AGAIN).await;
                continue;
            }
            // Tokens change without the configuration.
            if let Ok(Err(_)) = timeout(AT_LEAST_EACH, state.changed()).await {
                return;
            }
            sleep(SETTLE).await;
        }
    }

    /// Writes what is in the store now.
    async fn write(&self) -> Result<(), String> {
        let said = |error: StoreError| error.to_string();
        let epoch = self.store.epoch().await.map_err(said)?.0;
        let config = self.store.list(keys::CONFIG).await.map_err(said)?;
        let auth = self.store.list(keys::AUTH).await.map_err(said)?;
        let entries = config.entries.into_iter().chain(auth.entries).map(Kept::from).collect();
        let memory = Memory { epoch, revision: config.revision, entries };
        let sealed = self.key.seal(CONTEXT, &memory.encode_to_vec()).map_err(|e| e.to_string())?;
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || {
            let beside = file.with_extension("new");
            let mut options = fs::OpenOptions::new();
            let mut new =
                options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            new.write_all(&sealed)?;
            new.sync_all()?;
            fs::rename(&beside, &file)
        });
        let written = written.await.map_err(|panic| panic.to_string())?;
        written.map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// The store's answer, or in its place, while a start reads, what is remembered.
    async fn ask<T>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>>,
        remembered: impl FnOnce(&Memory) -> T,
    ) -> Result<T, StoreError> {
        let phase = self.phase.load(Ordering::Acquire);
        if let (REMEMBERING, Some(known)) = (phase, &self.known) {
            return Ok(remembered(known));
        }
        match (answer.await, &self.known) {
            (Err(error @ StoreError::Unavailable { .. }), Some(known)) if phase == ASKING => {
                tracing::warn!(
                    %error,
                    revision = known.revision,
                    "the configuration store is away; what this replica remembers of it is served"
                );
                self.phase.store(REMEMBERING, Ordering::Release);
                Ok(remembered(known))
            }
            (answer, _) => answer,
        }
    }
}

impl Memory {
    fn below(&self, prefix: &str) -> Listing {
        let entries = self.entries.iter().filter(|kept| kept.key.starts_with(prefix));
        Listing { revision: self.revision, entries: entries.cloned().map(Entry::from).collect() }
    }
}

/// Is it among what is remembered?
fn is_kept(key: &str) -> bool {
    key.starts_with(keys::CONFIG) || key.starts_with(keys::AUTH)
}

#[async_trait]
impl ConfigStore for Remembered {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn location(&self) -> String {
        self.store.location()
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        self.ask(self.store.epoch(), |known| Epoch(known.epoch.clone())).await
    }

    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError> {
        self.store.renew_epoch(seen).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.store.commit(commit).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        if !is_kept(key) {
            return self.store.get(key).await;
        }
        let find = |known: &Memory| {
            let kept = known.entries.iter().find(|kept| kept.key == key);
            kept.cloned().map(Entry::from)
        };
        self.ask(self.store.get(key), find).await
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        if !is_kept(prefix) {
            return self.store.list(prefix).await;
        }
        self.ask(self.store.list(prefix), |known| known.below(prefix)).await
    }

    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError> {
        self.store.watch(prefix, epoch, from).await
    }
}
