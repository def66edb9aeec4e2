//! Reads that both the store and its watches make: the identity of the history, and listings.

use bytes::{BufMut, BytesMut};
use etcd_client::{Client, Compare, CompareOp, Error, GetOptions, ResponseHeader, Txn, TxnOp};
use uuid::Uuid;

use super::{
    failure,
    keys::{self, Keys},
};
use crate::{Epoch, Listing, Revision};

/// Entries that one page of a listing holds.
const PAGE: i64 = 500;
/// Largest message taken from a server. A page of large values, or a thousand revisions that a
/// watch catches up on, is far over the client's default of 4 MiB; the official client of etcd has
/// this bound, too.
pub(super) const MAX_MESSAGE: usize = i32::MAX as usize;

/// Which history a server keeps, and how far it is.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) epoch: Epoch,
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    /// Revision of the key that holds the id.
    pub(super) id_revision: i64,
}

/// Reads the identity of the history, or gives it one. The id of the cluster alone is not enough:
/// etcd derives it from names and addresses, so a cluster that is built again can have it again.
pub(super) async fn history(client: &Client, keys: &Keys) -> Result<History, Error> {
    let mut kv = client.kv_client();
    loop {
        let mut answer = kv.get(keys.epoch(), None).await?;
        let header = answer.take_header().ok_or_else(no_header)?;
        if let Some(id) = answer.kvs().first() {
            return Ok(History {
                epoch: epoch(header.cluster_id(), id.value()),
                cluster: header.cluster_id(),
                revision: keys::revision(header.revision()),
                id_revision: id.mod_revision(),
            });
        }
        write_id(client, keys, 0).await?;
    }
}

/// Gives the history a new id, unless someone else has just done so, and reads it back. For a
/// history that is not the one its id says: a restored backup, or writes that were lost.
pub(super) async fn renew(
    client: &Client,
    keys: &Keys,
    history: &History,
) -> Result<History, Error> {
    write_id(client, keys, history.id_revision).await?;
    self::history(client, keys).await
}

async fn write_id(client: &Client, keys: &Keys, id_revision: i64) -> Result<(), Error> {
    let unchanged = Compare::mod_revision(keys.epoch(), CompareOp::Equal, id_revision);
    let write = TxnOp::put(keys.epoch(), Uuid::new_v4().to_string(), None);
    client.kv_client().txn(Txn::new().when([unchanged]).and_then([write])).await?;
    Ok(())
}

fn epoch(cluster: u64, id: &[u8]) -> Epoch {
    let mut epoch = BytesMut::with_capacity(8 + id.len());
    epoch.put_u64(cluster);
    epoch.put_slice(id);
    Epoch(epoch.freeze())
}

/// Everything below `prefix` at one revision. Linearizable: the first page is, and it sets the
/// revision that the others are read at.
pub(super) async fn list(client: &Client, keys: &Keys, prefix: &str) -> Result<Listing, Error> {
    loop {
        match pages(client, keys, prefix).await {
            // Compaction overtook us between two pages. The caller's deadline ends this.
            Err(error) if failure::is_compacted(&error) => {}
            outcome => return outcome,
        }
    }
}

async fn pages(client: &Client, keys: &Keys, prefix: &str) -> Result<Listing, Error> {
    let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
    let mut start = keys.absolute(prefix);
    let end = keys::range_end(&start);
    let mut listing = Listing { revision: 0, entries: Vec::new() };
    loop {
        let page = GetOptions::new()
            .with_range(end.clone())
            .with_limit(PAGE)
            .with_revision(keys::etcd_revision(listing.revision));
        let mut answer = kv.get(start, Some(page)).await?;
        if listing.revision == 0 {
            listing.revision = revision(answer.header())?;
        }
        let more = answer.more();
        let entries = answer.take_kvs();
        let Some(last) = entries.last().filter(|_| more) else {
            listing.entries.extend(entries.into_iter().filter_map(|kv| keys.entry(kv)));
            return Ok(listing);
        };
        start = [last.key(), &[0]].concat();
        listing.entries.extend(entries.into_iter().filter_map(|kv| keys.entry(kv)));
    }
}

/// Whether everything after `revision` can still be had.
pub(super) async fn is_kept(
    client: &Client,
    keys: &Keys,
    revision: Revision,
) -> Result<bool, Error> {
    let then =
        GetOptions::new().with_revision(keys::etcd_revision(revision.max(1))).with_count_only();
    match client.kv_client().get(keys.epoch(), Some(then)).await {
        Ok(_) => Ok(true),
        Err(error) if failure::is_compacted(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The newest revision. Every linearizable read tells it, also one that finds nothing.
pub(super) async fn newest(client: &Client, keys: &Keys) -> Result<Revision, Error> {
    let nothing = GetOptions::new().with_count_only();
    let answer = client.kv_client().get(keys.epoch(), Some(nothing)).await?;
    revision(answer.header())
}

/// The revision an answer was made at.
pub(super) fn revision(header: Option<&ResponseHeader>) -> Result<Revision, Error> {
    header.map(|header| keys::revision(header.revision())).ok_or_else(no_header)
}

fn no_header() -> Error {
    Error::Internal("the answer has no header".to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn epoch_is_cluster_and_id() {
        assert_eq!(epoch(1, b"ab"), Epoch(Bytes::from_static(b"\0\0\0\0\0\0\0\x01ab")));
    }
}
