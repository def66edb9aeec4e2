//! What is still to be told to the fleet: of each cell what holds last.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sluicegate_proto::pool::v1::ReportRequest;
use sluicegate_protocol::pool::{CellKey, Change};
use tokio::sync::Notify;

/// Cells that wait at most. What is beyond holds here, and is told with the next connection.
const MOST: usize = 20_000;

/// A bounded queue, in which a later word about a cell takes the place of an earlier one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<HashMap<CellKey, Change>>,
    pub(super) wake: Notify,
}

impl Outbox {
    /// Tells this soon.
    pub(super) fn put(&self, change: Change) {
        {
            let mut waiting = self.lock();
            let key = key(&change);
            if waiting.len() < MOST || waiting.contains_key(key) {
                waiting.insert(key.clone(), change);
            }
        }
        self.wake.notify_one();
    }

    /// Up to so many changes; none: nothing waits.
    pub(super) fn take(&self, most: usize) -> Vec<Change> {
        let mut waiting = self.lock();
        let keys: Vec<_> = waiting.keys().take(most).cloned().collect();
        keys.iter().filter_map(|key| waiting.remove(key)).collect()
    }

    /// These could not be told. What has happened since holds.
    pub(super) fn put_back(&self, changes: Vec<Change>) {
        let mut waiting = self.lock();
        for change in changes {
            waiting.entry(key(&change).clone()).or_insert(change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CellKey, Change>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message for some changes.
pub(super) fn message(node_id: &str, changes: &[Change]) -> ReportRequest {
    let mut request = ReportRequest { node_id: node_id.to_owned(), ..ReportRequest::default() };
    for change in changes {
        match change {
            Change::Merge(cell) => request.cells.push(cell.to_proto()),
            Change::Clear(clear) => request.clears.push(clear.to_proto()),
        }
    }
    request
}

fn key(change: &Change) -> &CellKey {
    match change {
        Change::Merge(cell) => &cell.key,
        Change::Clear(clear) => &clear.key,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_protocol::pool::Clear;

    use super::*;

    fn clear(credential: &str, generation: u64) -> Change {
        Change::Clear(Clear { key: CellKey::new(credential, ""), generation })
    }

    #[test]
    fn the_last_word_about_a_cell_is_told() {
        let outbox = Outbox::default();
        outbox.put(clear("a", 1));
        outbox.put(clear("a", 2));
        let first = outbox.take(9);
        assert_eq!(first, [clear("a", 2)]);
        outbox.put(clear("a", 3));
        // What could not be told is older than what has happened since.
        outbox.put_back(first);
        assert_eq!(outbox.take(9), [clear("a", 3)]);
        assert_eq!(outbox.take(9), []);
    }

    #[test]
    fn the_queue_is_bounded() {
        let outbox = Outbox::default();
        (0..MOST + 5).for_each(|n| outbox.put(clear(&n.to_string(), 1)));
        outbox.put(clear("0", 2));
        assert_eq!(outbox.take(usize::MAX).len(), MOST);
    }
}
