//! Records of jobs with everything by which they are found. Every index follows from the records, and
//! all change in one place; what one operation changed is known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::{JobState, record::Record};

/// What an operation has changed: which job, how it was, how it is.
pub(crate) type Change<'a> = (&'a str, Option<&'a Record>, Option<&'a Record>);

#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) all: HashMap<String, Record>,
    pub(super) by_key: HashMap<(String, String), String>,
    /// What is to be claimed, by queue, turn and order.
    pub(super) ready: BTreeSet<(String, u64, u64, String)>,
    /// What nobody has claimed yet, by queue, turn and order; and by queue, party, turn and order.
    pub(super) fresh: BTreeSet<(String, u64, u64)>,
    pub(super) turns: BTreeSet<(String, String, u64, u64)>,
    pub(super) timers: BTreeSet<(u64, String)>,
    pub(super) deliveries: BTreeSet<(u64, String)>,
    /// What runs, by node and call.
    pub(super) claims: BTreeSet<(String, String, String)>,
    /// Waiting and running.
    pub(super) queues: BTreeMap<String, (u64, u64)>,
    pub(super) bytes: u64,
    /// Jobs that have not ended, by queue and party.
    pub(super) queue_parties: HashMap<(String, String), u64>,
    /// Jobs and bytes of each party.
    pub(super) parties: HashMap<String, (u64, u64)>,
    pub(super) seq: u64,
    /// What the records were before the present operation, in the order of changes.
    changed: Vec<(String, Option<Record>)>,
}

impl Jobs {
    /// What was changed until now is so for good.
    pub(super) fn begin(&mut self) {
        self.changed.clear();
    }

    /// What the present operation has changed, each job once.
    pub(super) fn changes(&self) -> Vec<Change<'_>> {
        let mut seen = BTreeSet::new();
        let first = self.changed.iter().filter(|(id, _)| seen.insert(id));
        first.map(|(id, before)| (id.as_str(), before.as_ref(), self.all.get(id))).collect()
    }

    /// The one place that changes a job, and every index with it.
    pub(super) fn set(&mut self, id: &str, record: Option<Record>) {
        let before = self.all.remove(id);
        if let Some(old) = &before {
            self.index(id, old, false);
        }
        if let Some(new) = record {
            self.index(id, &new, true);
            self.seq = self.seq.max(new.seq);
            self.all.insert(id.to_owned(), new);
        }
        self.changed.push((id.to_owned(), before));
    }

    /// The turn of the next job of a party: after all of its own that wait, and not before anybody's first.
    /// Jobs that were claimed before have had their turn, and come back to it: they say nothing of whose it
    /// is now.
    pub(super) fn next_turn(&self, queue: &str, party: &str) -> u64 {
        let first = self.fresh.range((queue.to_owned(), 0, 0)..).next();
        let now = first.filter(|(of, ..)| of == queue).map_or(0, |(_, turn, ..)| *turn);
        let own = |turn| (queue.to_owned(), party.to_owned(), turn, 0);
        let last = self.turns.range(own(0)..own(u64::MAX)).next_back();
        now.max(last.map_or(0, |(_, _, turn, _)| turn + 1))
    }

    fn index(&mut self, id: &str, record: &Record, add: bool) {
        let Self { by_key, ready, fresh, turns, timers, deliveries, claims, .. } = self;
        let Self { queues, bytes, queue_parties, parties, .. } = self;
        let id = || id.to_owned();
        if !record.key.is_empty() {
            let key = (record.owner.clone(), record.key.clone());
            if add { drop(by_key.insert(key, id())) } else { drop(by_key.remove(&key)) }
        }
        if record.is_ready() {
            keep(ready, (record.queue.clone(), record.turn, record.seq, id()), add);
        }
        if record.state == JobState::Waiting && record.attempt == 0 {
            keep(fresh, (record.queue.clone(), record.turn, record.seq), add);
            let place = (record.queue.clone(), record.party.clone(), record.turn, record.seq);
            keep(turns, place, add);
        }
        keep(timers, (record.timer_ms(), id()), add);
        if record.deliver_ms > 0 {
            keep(deliveries, (record.deliver_ms, id()), add);
        }
        if record.state == JobState::Running {
            keep(claims, (record.node.clone(), record.call.clone(), id()), add);
        }
        if !record.state.has_ended() {
            let party = (record.queue.clone(), record.party.clone());
            let own = queue_parties.entry(party.clone()).or_default();
            *own = if add { *own + 1 } else { own.saturating_sub(1) };
            if *own == 0 {
                queue_parties.remove(&party);
            }
            let (waiting, running) = queues.entry(record.queue.clone()).or_default();
            let count = if record.state == JobState::Running { running } else { waiting };
            *count = if add { *count + 1 } else { count.saturating_sub(1) };
            if queues.get(&record.queue) == Some(&(0, 0)) {
                queues.remove(&record.queue);
            }
        }
        let size = record.bytes();
        *bytes = if add { bytes.saturating_add(size) } else { bytes.saturating_sub(size) };
        let (jobs, own) = parties.entry(record.party.clone()).or_default();
        *jobs = if add { *jobs + 1 } else { jobs.saturating_sub(1) };
        *own = if add { own.saturating_add(size) } else { own.saturating_sub(size) };
        if *jobs == 0 {
            parties.remove(&record.party);
        }
    }
}

fn keep<T: Ord>(index: &mut BTreeSet<T>, entry: T, add: bool) {
    if add {
        index.insert(entry);
    } else {
        index.remove(&entry);
    }
}
