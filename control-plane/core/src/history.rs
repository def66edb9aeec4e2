//! Past changes: one numbered record for each, written together with the change itself.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use prost::Message;
use sluicegate_proto::resource::v1 as pb;
use sluicegate_store::{ConfigStore, Revision};

use crate::{apply::Difference, error::CoreError, keys, state::reference_in};

/// Records that are kept; a new one beyond them removes the oldest.
pub const KEPT: u64 = 1_000;

/// Records read at the same time.
const READS: usize = 16;

/// One change as it is recorded.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Record {
    /// Random; tells whether a commit with an unknown outcome was this one.
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// By the clock of the replica that took the change.
    #[prost(uint64, tag = "2")]
    pub(crate) time_unix_ms: u64,
    #[prost(string, tag = "3")]
    pub(crate) author: String,
    #[prost(string, tag = "4")]
    pub(crate) comment: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) changes: Vec<RecordedChange>,
}

/// One resource before and after a change, as stored.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecordedChange {
    /// `kind/name`.
    #[prost(string, tag = "1")]
    pub(crate) resource: String,
    /// Absent: it did not exist.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) before: Option<Bytes>,
    /// Absent: it was deleted.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) after: Option<Bytes>,
}

/// One past change, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number, without gaps.
    pub sequence: u64,
    /// Revision that it made.
    pub revision: Revision,
    pub time_unix_ms: u64,
    pub author: String,
    pub comment: String,
    /// Without secrets.
    pub differences: Vec<Difference>,
}

/// Reads past changes.
#[derive(Debug, Clone)]
pub struct History {
    store: Arc<dyn ConfigStore>,
}

impl History {
    pub fn new(store: Arc<dyn ConfigStore>) -> Self {
        Self { store }
    }

    /// Up to `count` changes, newest first, from number `newest` downwards. Shorter than `count` only
    /// where the history ends.
    ///
    /// # Errors
    /// When the store does not answer or a record cannot be read.
    pub async fn page(&self, newest: u64, count: usize) -> Result<Vec<Entry>, CoreError> {
        let records = self.records(newest, count).await?;
        let entry = |(sequence, revision, record): (u64, Revision, Record)| Entry {
            sequence,
            revision,
            differences: differences(&record),
            time_unix_ms: record.time_unix_ms,
            author: record.author,
            comment: record.comment,
        };
        Ok(records.into_iter().map(entry).collect())
    }

    /// As [`History::page`], as recorded: number, revision, record.
    pub(crate) async fn records(
        &self,
        newest: u64,
        count: usize,
    ) -> Result<Vec<(u64, Revision, Record)>, CoreError> {
        let mut reads = stream::iter((1..=newest).rev().take(count))
            .map(|sequence| async move { (sequence, self.record(sequence).await) })
            .buffered(READS);
        let mut records = Vec::new();
        while let Some((sequence, read)) = reads.next().await {
            let Some((revision, record)) = read? else { break };
            records.push((sequence, revision, record));
        }
        Ok(records)
    }

    /// The record with this number; `None`: there is none (any more).
    pub(crate) async fn record(
        &self,
        sequence: u64,
    ) -> Result<Option<(Revision, Record)>, CoreError> {
        let key = keys::history(sequence);
        let Some(entry) = self.store.get(&key).await? else { return Ok(None) };
        let record = Record::decode(entry.value)
            .map_err(|error| CoreError::Corrupt { key, reason: error.to_string() })?;
        Ok(Some((entry.mod_revision, record)))
    }
}

/// What a record changed, without secrets. A value that this build cannot decode shows as absent.
pub(crate) fn differences(record: &Record) -> Vec<Difference> {
    let decode = |bytes: &Option<Bytes>| {
        bytes.as_ref().and_then(|bytes| pb::Resource::decode(bytes.clone()).ok())
    };
    let shown = |change: &RecordedChange| {
        let reference = reference_in(&change.resource)?;
        let (before, after) = (decode(&change.before), decode(&change.after));
        Some(Difference::new(reference, before.as_ref(), after.as_ref()))
    };
    record.changes.iter().filter_map(shown).collect()
}
