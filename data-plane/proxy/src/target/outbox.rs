//! What is to be told to the fleet at once.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use sluicegate_protocol::breaker::{Changed, ProbeResult, TargetKey};
use tokio::sync::Notify;

use super::{Watcher, lock};

/// Ends of probes that wait at most. The fleet does not wait for older ones.
const MOST: usize = 1_000;

/// Passes changes on, and wakes whoever tells the fleet.
#[derive(Debug)]
pub struct Outbox {
    next: Box<dyn Watcher>,
    probes: Mutex<VecDeque<(TargetKey, ProbeResult)>>,
    pub(super) wake: Notify,
}

impl Outbox {
    /// Tells `next` first.
    pub fn new(next: impl Watcher + 'static) -> Arc<Self> {
        Arc::new(Self { next: Box::new(next), probes: Mutex::default(), wake: Notify::new() })
    }

    /// Ends of probes that were not told.
    pub(super) fn take(&self) -> Vec<(TargetKey, ProbeResult)> {
        lock(&self.probes).drain(..).collect()
    }

    /// These could not be told.
    pub(super) fn put_back(&self, probes: Vec<(TargetKey, ProbeResult)>) {
        let mut waiting = lock(&self.probes);
        for probe in probes.into_iter().rev() {
            if waiting.len() < MOST {
                waiting.push_front(probe);
            }
        }
    }
}

impl Watcher for Outbox {
    fn changed(&self, target: &TargetKey, changed: &Changed) {
        self.next.changed(target, changed);
        if let Some(result) = changed.probe {
            let mut waiting = lock(&self.probes);
            if waiting.len() >= MOST {
                waiting.pop_front();
            }
            waiting.push_back((target.clone(), result));
        }
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_protocol::breaker::Probe;

    use super::*;
    use crate::target::Quiet;

    #[test]
    fn ends_of_probes_are_told_in_order_and_bounded() {
        let outbox = Outbox::new(Quiet);
        let key = TargetKey::new("p", "m");
        let end = |generation| ProbeResult { generation, probe: Probe::Ok };
        for generation in 0..MOST as u64 + 2 {
            let changed = Changed { probe: Some(end(generation)), transition: None };
            outbox.changed(&key, &changed);
        }
        let taken = outbox.take();
        assert_eq!((taken.len(), taken[0].1.generation), (MOST, 2), "the newest are told");
        outbox.put_back(taken[..2].to_vec());
        outbox.changed(&key, &Changed { probe: Some(end(9_999)), transition: None });
        let order: Vec<_> = outbox.take().iter().map(|(_, it)| it.generation).collect();
        assert_eq!(order, [2, 3, 9_999]);
    }
}
