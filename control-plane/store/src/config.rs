//! The contract of a configuration store.
//!
//! The semantics are etcd's, because its guarantees are the ones the control plane builds on: one
//! revision counter for the whole store, one revision per transaction, watches that deliver every
//! revision whole and in order. The embedded store keeps the same promises; one contract suite
//! runs against both.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio_stream::Stream;

/// Position in the history of one store. Grows by one with every commit; 0 is before the first.
pub type Revision = u64;

/// Identity of one continuous history. Comparing revisions is only legal inside one epoch: a store
/// that was restored from a backup or recreated answers with another one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Epoch(pub Bytes);

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One stored value as of some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Full key, relative to the store's prefix.
    pub key: String,
    /// Stored bytes, opaque to the store.
    pub value: Bytes,
    /// Revision of the commit that last wrote this key.
    pub mod_revision: Revision,
}

/// Every entry below a prefix, all as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The revision the listing was read at; a watch from `revision + 1` continues it.
    pub revision: Revision,
    /// Entries in key order.
    pub entries: Vec<Entry>,
}

/// What a commit demands of one key before it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precondition {
    /// The key that is compared.
    pub key: String,
    /// The revision its last write must have had; 0 demands that the key does not exist.
    pub mod_revision: Revision,
}

/// One write of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes `value` under `key`. With a time to live the entry vanishes by itself, as a delete
    /// at a revision of its own, some time after `ttl` has passed.
    Put { key: String, value: Bytes, ttl: Option<Duration> },
    /// Removes `key`; removing an absent key is not an error.
    Delete { key: String },
}

/// An atomic transaction: all preconditions hold and all writes happen at one revision, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// All must hold. They are compared with the state before the commit.
    pub preconditions: Vec<Precondition>,
    /// Applied in order. The same key must not be written twice.
    pub ops: Vec<Op>,
}

/// What became of a [`Commit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// Durable at this revision. A commit that changes nothing (no writes, or only deletes of absent
    /// keys) takes no revision of its own and answers with the newest one.
    At(Revision),
    /// A precondition failed and nothing was written: every key that did not match, with the
    /// revision it really has (0: absent).
    Conflict(Vec<(String, Revision)>),
}

/// One change of one key, as a watch tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key now has this value.
    Put(Entry),
    /// The key is gone.
    Delete { key: String },
}

/// Everything one revision changed below the watched prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// The revision of the commit. A commit is never split over two change sets.
    pub revision: Revision,
    /// In the order of the commit's writes.
    pub changes: Vec<Change>,
}

/// What a watch delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The next change, in order, none skipped.
    Changes(ChangeSet),
    /// History between the last delivered revision and this listing is no longer to be had
    /// (compaction, a restored store, a lost watch). The listing *replaces* what the watcher
    /// knows; what it does not name is deleted. The watch goes on from it.
    Relisted { epoch: Epoch, listing: Listing },
    /// The store cannot be reached at the moment; the watch keeps trying by itself. Sent once per
    /// outage, with the reason.
    Interrupted(String),
    /// The store is reachable again and nothing was missed since [`WatchEvent::Interrupted`].
    Resumed,
}

/// Ends only when it is dropped. Never yields an error: trouble is an event.
pub type WatchStream = std::pin::Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// Why a store call failed. A failed [`ConfigStore::commit`] may nevertheless have happened, unless
/// the variant says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No answer within the deadline, or no connection. Trying again later may help.
    #[error("{store} is unavailable: {reason}")]
    Unavailable { store: &'static str, reason: String },
    /// The request is larger than the store takes. Nothing was written.
    #[error("{what} of {actual} bytes is over the store's limit of {limit} bytes")]
    TooLarge { what: &'static str, actual: usize, limit: usize },
    /// One commit has more writes or preconditions than the store takes. Nothing was written.
    #[error("{actual} {what} in one commit are over the store's limit of {limit}")]
    TooMany { what: &'static str, actual: usize, limit: usize },
    /// The store refused the request for good (no rights, out of space). Nothing was written.
    #[error("{store} refused the request: {reason}")]
    Refused { store: &'static str, reason: String },
    /// The store was set up wrongly; found before the first request.
    #[error("{store} configuration: {reason}")]
    Misconfigured { store: &'static str, reason: String },
    /// The embedded file cannot be opened or used.
    #[error("state file {path}: {reason}")]
    File { path: String, reason: String },
}

/// A transactional, watchable key-value store. Every call ends within its own deadline.
#[async_trait]
pub trait ConfigStore: Send + Sync + fmt::Debug {
    /// Short name for messages: `etcd` or `embedded`.
    fn kind(&self) -> &'static str;

    /// Where the state lives, for people: endpoints or a path, without credentials.
    fn location(&self) -> String;

    /// The identity of this store's history.
    async fn epoch(&self) -> Result<Epoch, StoreError>;

    /// Gives the history a new id if it still has the id `seen`, and returns the id it has then:
    /// of several callers who saw the same id one renews it, and all get the same answer. Every
    /// running watch of the store, here and in other processes, is sent a
    /// [`WatchEvent::Relisted`] with the new id. Every entry stays, with its revision.
    ///
    /// To be called when somebody proves to have seen a later revision of `seen` than
    /// [`ConfigStore::revision`], read after that, says the store is at: a backup was put in its
    /// place, which kept the id of the history whose end it lost.
    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError>;

    /// The newest revision, read linearizably: at least that of every commit and every read that
    /// was answered before.
    async fn revision(&self) -> Result<Revision, StoreError>;

    /// Does the whole commit at one new revision, or nothing. When it returns
    /// [`Committed::At`], the writes survive a crash of any process.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Reads one key at the newest revision.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// Reads everything below `prefix` at one revision, linearizably.
    async fn list(&self, prefix: &str) -> Result<Listing, StoreError>;

    /// Watches `prefix` from `from` on (inclusive): every change set with a revision of at least
    /// `from`, in order. A `from` that is already compacted yields [`WatchEvent::Relisted`] first.
    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError>;
}
