//! The newest changes, for watchers that continue where they stopped.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use sluicegate_protocol::policy::Point;
use sluicegate_store::Revision;

use crate::state::ChangeEvent;

/// Changes that a watcher may be behind by.
pub(crate) const RING: usize = 4_096;

/// A bounded stretch of history without gaps.
#[derive(Debug)]
pub(crate) struct Ring {
    epoch: Bytes,
    /// Every change after this revision is here.
    floor: Revision,
    events: VecDeque<Arc<ChangeEvent>>,
    capacity: usize,
}

impl Ring {
    /// An empty ring that continues a state at this point.
    pub(crate) fn new(at: Point, capacity: usize) -> Self {
        Self { epoch: at.epoch, floor: at.revision, events: VecDeque::new(), capacity }
    }

    /// Adds the next change.
    pub(crate) fn push(&mut self, event: Arc<ChangeEvent>) {
        self.events.push_back(event);
        while self.events.len() > self.capacity {
            if let Some(dropped) = self.events.pop_front() {
                self.floor = dropped.revision;
            }
        }
    }

    /// The changes after `cursor`; `None` when they are not all here.
    pub(crate) fn after(&self, cursor: &Point) -> Option<Vec<Arc<ChangeEvent>>> {
        if cursor.epoch != self.epoch || cursor.revision < self.floor {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision <= cursor.revision);
        Some(self.events.range(start..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(epoch: &'static str, revision: u64) -> Point {
        Point { epoch: epoch.into(), revision }
    }

    #[test]
    fn tells_what_it_has_or_that_it_has_not() {
        let mut ring = Ring::new(point("e", 10), 2);
        let after = |ring: &Ring, cursor| {
            let events = ring.after(&cursor)?;
            Some(events.iter().map(|event| event.revision).collect::<Vec<_>>())
        };
        assert_eq!(after(&ring, point("e", 10)), Some(vec![]));
        for revision in [11, 15, 16] {
            let (puts, deletes) = (Vec::new(), Vec::new());
            ring.push(Arc::new(ChangeEvent { revision, puts, deletes }));
        }
        assert_eq!(after(&ring, point("e", 10)), None);
        assert_eq!(after(&ring, point("e", 11)), Some(vec![15, 16]));
        assert_eq!(after(&ring, point("e", 15)), Some(vec![16]));
        assert_eq!(after(&ring, point("e", 99)), Some(vec![]));
        assert_eq!(after(&ring, point("f", 15)), None);
    }
}
