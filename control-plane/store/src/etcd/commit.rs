//! A commit as one etcd transaction.

use std::{
    collections::{HashMap, hash_map},
    time::Duration,
};

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse,
};

use super::{
    keys::{self, Keys},
    read,
};
use crate::{Commit, Committed, Op, Revision};

/// Does `commit` on this client. When a precondition fails, the same transaction reads back what
/// every compared key really is, so the conflict is told exactly.
pub(super) async fn commit(
    client: &Client,
    keys: &Keys,
    commit: &Commit,
) -> Result<Committed, Error> {
    let leases = Leases::grant(client, commit).await?;
    let compares: Vec<Compare> = commit
        .preconditions
        .iter()
        .map(|wanted| {
            let revision = keys::etcd_revision(wanted.mod_revision);
            Compare::mod_revision(keys.absolute(&wanted.key), CompareOp::Equal, revision)
        })
        .collect();
    let writes: Vec<TxnOp> = commit.ops.iter().map(|op| write(op, keys, &leases)).collect();
    let reads: Vec<TxnOp> = commit
        .preconditions
        .iter()
        .map(|wanted| {
            let keys_only = GetOptions::new().with_keys_only();
            TxnOp::get(keys.absolute(&wanted.key), Some(keys_only))
        })
        .collect();
    let txn = Txn::new().when(compares).and_then(writes).or_else(reads);

    let answer = client.kv_client().txn(txn).await?;
    if answer.succeeded() {
        return read::revision(answer.header()).map(Committed::At);
    }
    leases.revoke(client).await;
    let found = answer.op_responses().into_iter().map(|read| match read {
        TxnOpResponse::Get(read) => {
            read.kvs().first().map_or(0, |kv| keys::revision(kv.mod_revision()))
        }
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => 0,
    });
    Ok(Committed::Conflict(mismatches(commit, found)))
}

fn write(op: &Op, keys: &Keys, leases: &Leases) -> TxnOp {
    match op {
        Op::Put { key, value, ttl } => {
            let lease = ttl.map(|ttl| PutOptions::new().with_lease(leases.lease(ttl)));
            TxnOp::put(keys.absolute(key), &value[..], lease)
        }
        Op::Delete { key } => TxnOp::delete(keys.absolute(key), None),
    }
}

/// The preconditions that `found`, in their order, does not meet.
fn mismatches(commit: &Commit, found: impl Iterator<Item = Revision>) -> Vec<(String, Revision)> {
    commit
        .preconditions
        .iter()
        .zip(found)
        .filter(|(wanted, found)| wanted.mod_revision != *found)
        .map(|(wanted, found)| (wanted.key.clone(), found))
        .collect()
}

/// One lease for every time to live that a commit has, by whole seconds. A lease whose
/// transaction was never answered ends by itself.
#[derive(Debug)]
struct Leases(HashMap<i64, i64>);

impl Leases {
    async fn grant(client: &Client, commit: &Commit) -> Result<Self, Error> {
        let mut leases = HashMap::new();
        for op in &commit.ops {
            let Op::Put { ttl: Some(ttl), .. } = op else { continue };
            if let hash_map::Entry::Vacant(missing) = leases.entry(whole_seconds(*ttl)) {
                let granted = client.lease_client().grant(*missing.key(), None).await?;
                missing.insert(granted.id());
            }
        }
        Ok(Self(leases))
    }

    fn lease(&self, ttl: Duration) -> i64 {
        self.0.get(&whole_seconds(ttl)).copied().unwrap_or_default()
    }

    async fn revoke(self, client: &Client) {
        for lease in self.0.into_values() {
            if let Err(error) = client.lease_client().revoke(lease).await {
                tracing::debug!(%error, lease, "an unused lease is left to expire");
            }
        }
    }
}

/// etcd counts in whole seconds; an entry may live longer than asked for, never shorter.
fn whole_seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_never_too_short() {
        check(Duration::ZERO, 1);
        check(Duration::from_millis(1), 1);
        check(Duration::from_secs(2), 2);
        check(Duration::from_millis(2_001), 3);

        #[track_caller]
        fn check(ttl: Duration, seconds: i64) {
            assert_eq!(whole_seconds(ttl), seconds);
        }
    }
}
