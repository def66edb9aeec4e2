//! The jobs' part of the file. The tables are made when jobs are opened for the first time.

use bytes::Bytes;
use redb::{Durability, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::{
    deferred::{engine::Change, record::Record},
    embedded::table::COUNTERS,
};

/// What is known of each job.
const JOBS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("deferred_jobs");
/// By job, and which of the three it is.
const BLOBS: TableDefinition<'_, (&str, u8), &[u8]> = TableDefinition::new("deferred_blobs");
/// The newest time that was written.
const TIME: &str = "deferred_time_ms";

pub(super) const BODY: u8 = 0;
pub(super) const META: u8 = 1;
pub(super) const RESULT: u8 = 2;

/// What is found in the file.
#[derive(Default)]
pub(super) struct Found {
    pub(super) jobs: Vec<(String, Record)>,
    /// Jobs that cannot be read.
    pub(super) unreadable: Vec<String>,
    pub(super) time_ms: u64,
}

/// Reads everything, and makes the tables.
pub(super) fn open(mut txn: WriteTransaction) -> Result<Found, redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    let mut found = Found::default();
    {
        txn.open_table(BLOBS)?;
        for row in txn.open_table(JOBS)?.iter()? {
            let (id, bytes) = row?;
            let id = id.value().to_owned();
            match Record::decode(bytes.value()) {
                Some(record) => found.jobs.push((id, record)),
                None => found.unreadable.push(id),
            }
        }
        found.time_ms = txn.open_table(COUNTERS)?.get(TIME)?.map_or(0, |time| time.value());
    }
    txn.commit()?;
    Ok(found)
}

/// The bodies, notes and results while one operation is written.
pub(super) struct Writing<'txn>(Table<'txn, (&'static str, u8), &'static [u8]>);

impl Writing<'_> {
    pub(super) fn blob(&mut self, id: &str, kind: u8, bytes: &[u8]) -> Result<(), redb::Error> {
        self.0.insert((id, kind), bytes)?;
        Ok(())
    }

    /// Writes a result where there is none.
    pub(super) fn first_result(&mut self, id: &str, bytes: &[u8]) -> Result<(), redb::Error> {
        if self.0.get((id, RESULT))?.is_none() {
            self.blob(id, RESULT, bytes)?;
        }
        Ok(())
    }
}

/// Writes what one operation changed, durably, and whatever `also` writes with it. A body goes with
/// the end of its job, everything with the job.
pub(super) fn write(
    mut txn: WriteTransaction,
    changes: &[Change<'_>],
    now_ms: u64,
    also: impl FnOnce(&mut Writing<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    {
        let mut jobs = txn.open_table(JOBS)?;
        let mut blobs = Writing(txn.open_table(BLOBS)?);
        for (id, before, after) in changes {
            match after {
                Some(record) => drop(jobs.insert(*id, record.encode().as_slice())?),
                None => drop(jobs.remove(*id)?),
            }
            let ended = |record: &Option<&Record>| record.is_none_or(|one| one.state.has_ended());
            let gone: &[u8] = match after {
                None => &[BODY, META, RESULT],
                Some(_) if ended(after) && !ended(before) => &[BODY],
                Some(_) => &[],
            };
            for kind in gone {
                blobs.0.remove((*id, *kind))?;
            }
        }
        also(&mut blobs)?;
        txn.open_table(COUNTERS)?.insert(TIME, now_ms)?;
    }
    txn.commit()?;
    Ok(())
}

pub(super) fn blob(
    txn: &ReadTransaction,
    id: &str,
    kind: u8,
) -> Result<Option<Bytes>, redb::Error> {
    let row = txn.open_table(BLOBS)?.get((id, kind))?;
    Ok(row.map(|row| Bytes::copy_from_slice(row.value())))
}
