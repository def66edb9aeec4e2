//! What the suite needs to know about a store that it tests.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use sluicegate_store::{
    ChangeSet, Commit, Committed, ConfigStore, Op, Precondition, Revision, WatchEvent, WatchStream,
};
use tokio::time::timeout;

/// Nothing that is going to happen takes longer.
pub const SOON: Duration = Duration::from_secs(15);

/// A store and the power over what it stands on.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// A fresh store.
    async fn start() -> Self
    where
        Self: Sized;

    /// A fresh store whose history [`Fixture::forget`] can cut off.
    async fn start_forgetful() -> Self
    where
        Self: Sized,
    {
        Self::start().await
    }

    fn store(&self) -> &dyn ConfigStore;

    /// As after a restart of our process.
    async fn reopen(&mut self);

    /// Makes all history up to now unavailable to watches.
    async fn forget(&self);
}

pub fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned(), value: Bytes::copy_from_slice(value.as_bytes()), ttl: None }
}

pub fn put_for(key: &str, value: &str, ttl: Duration) -> Op {
    Op::Put { key: key.to_owned(), value: Bytes::copy_from_slice(value.as_bytes()), ttl: Some(ttl) }
}

pub fn delete(key: &str) -> Op {
    Op::Delete { key: key.to_owned() }
}

pub fn at(key: &str, mod_revision: Revision) -> Precondition {
    Precondition { key: key.to_owned(), mod_revision }
}

pub fn absent(key: &str) -> Precondition {
    at(key, 0)
}

pub async fn commit(
    store: &dyn ConfigStore,
    preconditions: impl Into<Vec<Precondition>>,
    ops: impl Into<Vec<Op>>,
) -> Committed {
    let commit = Commit { preconditions: preconditions.into(), ops: ops.into() };
    store.commit(commit).await.unwrap()
}

/// Commits without preconditions.
pub async fn write(store: &dyn ConfigStore, ops: impl Into<Vec<Op>>) -> Revision {
    match commit(store, [], ops).await {
        Committed::At(revision) => revision,
        conflict @ Committed::Conflict(_) => panic!("nothing to conflict with: {conflict:?}"),
    }
}

/// Keys and values below a prefix, in the order of the listing.
pub async fn contents(store: &dyn ConfigStore, prefix: &str) -> Vec<(String, String)> {
    let listing = store.list(prefix).await.unwrap();
    listing.entries.into_iter().map(|entry| (entry.key, text(&entry.value))).collect()
}

pub fn text(value: &Bytes) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

/// Watches from `from` on in the store's current history.
pub async fn watch(store: &dyn ConfigStore, prefix: &str, from: Revision) -> WatchStream {
    let epoch = store.epoch().await.unwrap();
    store.watch(prefix, epoch, from).await.unwrap()
}

pub async fn next(watch: &mut WatchStream) -> WatchEvent {
    timeout(SOON, watch.next()).await.expect("an event in time").expect("watches do not end")
}

/// The next event, which must be a change.
pub async fn next_changes(watch: &mut WatchStream) -> ChangeSet {
    match next(watch).await {
        WatchEvent::Changes(set) => set,
        other => panic!("expected changes: {other:?}"),
    }
}

/// The changes up to and including the revision `last`.
pub async fn changes_through(watch: &mut WatchStream, last: Revision) -> Vec<ChangeSet> {
    let mut sets = Vec::new();
    while sets.last().is_none_or(|set: &ChangeSet| set.revision < last) {
        sets.push(next_changes(watch).await);
    }
    assert_eq!(sets.last().map(|set| set.revision), Some(last));
    sets
}
