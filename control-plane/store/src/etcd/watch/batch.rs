//! From the events of one response to whole revisions.

use bytes::Bytes;
use etcd_client::{Event, EventType, WatchResponse};

use super::super::keys::{self, Keys};
use crate::{Change, ChangeSet, Entry, Revision};

/// Groups the events by revision. One response can hold several revisions, and holds each of them
/// whole: etcd splits a revision over responses only for watches that ask for fragments.
///
/// A set has no changes where the revision changed only keys that the contract does not show.
pub(super) fn change_sets(response: &WatchResponse, keys: &Keys) -> Vec<ChangeSet> {
    group(response.events().iter().filter_map(|event| change(event, keys)))
}

fn change(event: &Event, keys: &Keys) -> Option<(Revision, Option<Change>)> {
    let kv = event.kv()?;
    let mod_revision = keys::revision(kv.mod_revision());
    let change = keys.relative(kv.key()).map(|key| match event.event_type() {
        EventType::Put => {
            Change::Put(Entry { key, value: Bytes::copy_from_slice(kv.value()), mod_revision })
        }
        EventType::Delete => Change::Delete { key },
    });
    Some((mod_revision, change))
}

fn group(changes: impl Iterator<Item = (Revision, Option<Change>)>) -> Vec<ChangeSet> {
    let mut sets: Vec<ChangeSet> = Vec::new();
    for (revision, change) in changes {
        match sets.last_mut().filter(|set| set.revision == revision) {
            Some(set) => set.changes.extend(change),
            None => sets.push(ChangeSet { revision, changes: change.into_iter().collect() }),
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_per_revision() {
        let delete = |key: &str| Change::Delete { key: key.to_owned() };
        let changes =
            [(5, Some(delete("a"))), (5, Some(delete("b"))), (7, None), (8, Some(delete("a")))];
        assert_eq!(
            group(changes.into_iter()),
            [
                ChangeSet { revision: 5, changes: vec![delete("a"), delete("b")] },
                ChangeSet { revision: 7, changes: vec![] },
                ChangeSet { revision: 8, changes: vec![delete("a")] },
            ]
        );
    }
}
