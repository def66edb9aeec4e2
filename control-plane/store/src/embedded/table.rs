//! What is in the file: the tables and how they are read.

use bytes::Bytes;
use redb::{
    Durability, ReadTransaction, ReadableTable, StorageError, TableDefinition, WriteTransaction,
};
use uuid::Uuid;

use super::watch::Progress;
use crate::{Change, ChangeSet, Entry, Epoch, Listing, Revision};

/// Revision of the last write, time to live in milliseconds or 0 for none, value.
pub(super) type EntryRow<'a> = (Revision, u64, &'a [u8]);
/// Revision, and place in its commit.
pub(super) type LogKey = (Revision, u32);
/// Key, and the value or none for a delete.
pub(super) type LogRow<'a> = (&'a str, Option<&'a [u8]>);

/// The newest value of every key.
pub(super) const ENTRIES: TableDefinition<'_, &str, EntryRow<'_>> = TableDefinition::new("entries");
/// The changes of the latest revisions. Every revision has at least one row, so the first row
/// tells how far back history goes.
pub(super) const LOG: TableDefinition<'_, LogKey, LogRow<'_>> = TableDefinition::new("log");
/// Numbers about the store: `format` and `revision`.
pub(super) const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// The random id of this history.
const EPOCH: TableDefinition<'_, (), u128> = TableDefinition::new("epoch");

pub(super) const REVISION: &str = "revision";
const FORMAT: &str = "format";
/// The layout above. A file of a later one is not touched.
pub(super) const CURRENT_FORMAT: u64 = 1;

/// Fills a new file.
pub(super) fn create(txn: &WriteTransaction) -> Result<(), redb::Error> {
    txn.open_table(ENTRIES)?;
    txn.open_table(LOG)?;
    txn.open_table(EPOCH)?.insert((), Uuid::new_v4().as_u128())?;
    let mut counters = txn.open_table(COUNTERS)?;
    counters.insert(FORMAT, CURRENT_FORMAT)?;
    counters.insert(REVISION, 0)?;
    Ok(())
}

/// The layout the file was written in.
pub(super) fn format(txn: &ReadTransaction) -> Result<u64, redb::Error> {
    counter(txn, FORMAT)
}

/// The revision of the newest commit.
pub(super) fn revision(txn: &ReadTransaction) -> Result<Revision, redb::Error> {
    counter(txn, REVISION)
}

fn counter(txn: &ReadTransaction, name: &str) -> Result<u64, redb::Error> {
    let value = txn.open_table(COUNTERS)?.get(name)?.map(|value| value.value());
    value.ok_or_else(|| corrupted(format!("counter {name} is missing")))
}

pub(super) fn epoch(txn: &ReadTransaction) -> Result<Epoch, redb::Error> {
    read_epoch(&txn.open_table(EPOCH)?)
}

/// Gives the history a new id, durably, if its id is still `seen`. Returns the id it has then.
pub(super) fn renew_epoch(mut txn: WriteTransaction, seen: &Epoch) -> Result<Epoch, redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    let (before, now) = {
        let mut table = txn.open_table(EPOCH)?;
        let before = read_epoch(&table)?;
        if before == *seen {
            table.insert((), Uuid::new_v4().as_u128())?;
        }
        let now = read_epoch(&table)?;
        (before, now)
    };
    if now == before {
        txn.abort()?
    } else {
        txn.commit()?
    }
    Ok(now)
}

fn read_epoch(table: &impl ReadableTable<(), u128>) -> Result<Epoch, redb::Error> {
    let id = table.get(())?.map(|id| id.value());
    let id = id.ok_or_else(|| corrupted("the id of the history is missing".to_owned()))?;
    Ok(Epoch(Bytes::copy_from_slice(&id.to_be_bytes())))
}

pub(super) fn get(txn: &ReadTransaction, key: &str) -> Result<Option<Entry>, redb::Error> {
    let row = txn.open_table(ENTRIES)?.get(key)?;
    Ok(row.map(|row| entry(key, row.value())))
}

pub(super) fn list(txn: &ReadTransaction, prefix: &str) -> Result<Listing, redb::Error> {
    let mut entries = Vec::new();
    for row in txn.open_table(ENTRIES)?.range(prefix..)? {
        let (key, row) = row?;
        if !key.value().starts_with(prefix) {
            break;
        }
        entries.push(entry(key.value(), row.value()));
    }
    Ok(Listing { revision: revision(txn)?, entries })
}

fn entry(key: &str, (mod_revision, _ttl, value): EntryRow<'_>) -> Entry {
    Entry { key: key.to_owned(), value: Bytes::copy_from_slice(value), mod_revision }
}

/// Keys that expire, with their full time to live in milliseconds.
pub(super) fn expiring(txn: &ReadTransaction) -> Result<Vec<(String, u64)>, redb::Error> {
    let mut expiring = Vec::new();
    for row in txn.open_table(ENTRIES)?.iter()? {
        let (key, row) = row?;
        let (_, ttl, _) = row.value();
        if ttl > 0 {
            expiring.push((key.value().to_owned(), ttl));
        }
    }
    Ok(expiring)
}

/// The changes below `prefix` after `cursor`: whole revisions, stopping once more than `budget`
/// bytes are read. `None` if they are not all kept, or if the store has never been at `cursor`.
pub(super) fn changes_after(
    txn: &ReadTransaction,
    prefix: &str,
    cursor: Revision,
    budget: usize,
) -> Result<Option<Progress>, redb::Error> {
    let newest = revision(txn)?;
    let log = txn.open_table(LOG)?;
    let oldest = log.first()?.map_or(newest + 1, |(at, _)| at.value().0);
    if cursor > newest || cursor + 1 < oldest {
        return Ok(None);
    }
    let mut progress = Progress { sets: Vec::new(), cursor, newest };
    let mut read = 0;
    for row in log.range((cursor + 1, 0)..)? {
        let (at, row) = row?;
        let (revision, _) = at.value();
        if revision > progress.cursor && read > budget {
            break;
        }
        progress.cursor = revision;
        let (key, value) = row.value();
        read += key.len() + value.map_or(0, <[u8]>::len);
        if key.starts_with(prefix) {
            push(&mut progress.sets, revision, change(key, value, revision));
        }
    }
    Ok(Some(progress))
}

fn change(key: &str, value: Option<&[u8]>, mod_revision: Revision) -> Change {
    let key = key.to_owned();
    match value {
        Some(value) => {
            Change::Put(Entry { key, value: Bytes::copy_from_slice(value), mod_revision })
        }
        None => Change::Delete { key },
    }
}

fn push(sets: &mut Vec<ChangeSet>, revision: Revision, change: Change) {
    match sets.last_mut().filter(|set| set.revision == revision) {
        Some(set) => set.changes.push(change),
        None => sets.push(ChangeSet { revision, changes: vec![change] }),
    }
}

fn corrupted(what: String) -> redb::Error {
    StorageError::Corrupted(what).into()
}
