//! What a replica publishes: the newest state, and how it came about for a while back.

use std::collections::{BTreeMap, VecDeque};

use super::{
    digest::Digest,
    state::{Body, Change, Key, LaneState, Point},
};

/// Revisions that deltas can start from.
const RING: usize = 8_192;

/// The newest state of a lane and a ring of the changes that led to it.
#[derive(Debug)]
pub struct Publisher {
    state: LaneState,
    at: Point,
    /// Keys that changed, by revision, oldest first.
    ring: VecDeque<(u64, Vec<Key>)>,
    /// Deltas can start from this revision on.
    oldest: u64,
    capacity: usize,
}

/// What a follower at some point needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// Nothing: it runs the newest state.
    UpToDate,
    /// This change set.
    Change(Change),
    /// It is ahead of this replica, which must not take it back.
    Behind,
}

impl Publisher {
    /// Starts with a whole state at a point.
    pub fn new(at: Point, entries: BTreeMap<Key, Body>) -> Self {
        Self::with_capacity(at, entries, RING)
    }

    /// The same, keeping changes of this many revisions.
    pub fn with_capacity(at: Point, entries: BTreeMap<Key, Body>, capacity: usize) -> Self {
        let mut digest = Digest::default();
        entries.iter().for_each(|(key, body)| digest.add(key, body));
        let oldest = at.revision;
        let state = LaneState { at: Some(at.clone()), entries, digest };
        Self { state, at, ring: VecDeque::new(), oldest, capacity }
    }

    /// Where it stands.
    pub fn head(&self) -> &Point {
        &self.at
    }

    /// The newest state.
    pub fn state(&self) -> &LaneState {
        &self.state
    }

    /// Publishes what one revision changed. A revision that is not newer than the head is ignored:
    /// it was delivered twice.
    pub fn publish(&mut self, revision: u64, upserts: Vec<(Key, Body)>, removes: Vec<Key>) {
        if revision <= self.at.revision {
            return;
        }
        let keys = upserts.iter().map(|(key, _)| key).chain(&removes).cloned().collect();
        let to = Point { epoch: self.at.epoch.clone(), revision };
        let mut change = Change {
            from: Some(self.at.clone()),
            to: to.clone(),
            upserts,
            removes,
            digest: Digest::default(),
        };
        change.digest = self.state.digest_after(&change);
        self.state.apply(change);
        self.at = to;
        self.ring.push_back((revision, keys));
        while self.ring.len() > self.capacity {
            if let Some((dropped, _)) = self.ring.pop_front() {
                self.oldest = dropped;
            }
        }
    }

    /// Takes over a state whose history is not continuous with the present one. Followers of the
    /// same epoch get a delta where that is shorter; of another, the full state.
    pub fn replace(&mut self, at: Point, entries: BTreeMap<Key, Body>) {
        if at.epoch != self.at.epoch || at.revision < self.at.revision {
            *self = Self::with_capacity(at, entries, self.capacity);
            return;
        }
        let removes =
            self.state.entries.keys().filter(|key| !entries.contains_key(*key)).cloned().collect();
        let upserts = entries
            .into_iter()
            .filter(|(key, body)| self.state.entries.get(key) != Some(body))
            .collect();
        self.publish(at.revision, upserts, removes);
    }

    /// What a follower that runs `from` with this digest needs. `None`: it runs nothing.
    pub fn pull(&self, from: Option<&Point>, digest: Digest) -> Pull {
        let Some(from) = from.filter(|from| from.epoch == self.at.epoch) else {
            return Pull::Change(self.full());
        };
        if from.revision > self.at.revision {
            return Pull::Behind;
        }
        if from.revision == self.at.revision {
            return if digest == self.state.digest {
                Pull::UpToDate
            } else {
                Pull::Change(self.full())
            };
        }
        if from.revision < self.oldest {
            return Pull::Change(self.full());
        }
        Pull::Change(self.delta(from))
    }

    /// The whole state as a change set.
    pub fn full(&self) -> Change {
        let upserts =
            self.state.entries.iter().map(|(key, body)| (key.clone(), body.clone())).collect();
        Change {
            from: None,
            to: self.at.clone(),
            upserts,
            removes: Vec::new(),
            digest: self.state.digest,
        }
    }

    /// Everything after `from`, each resource once in its newest version.
    fn delta(&self, from: &Point) -> Change {
        let start = self.ring.partition_point(|(revision, _)| *revision <= from.revision);
        let mut keys: Vec<_> = self.ring.range(start..).flat_map(|(_, keys)| keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut upserts = Vec::new();
        let mut removes = Vec::new();
        for key in keys {
            match self.state.entries.get(key) {
                Some(body) => upserts.push((key.clone(), body.clone())),
                None => removes.push(key.clone()),
            }
        }
        Change {
            from: Some(from.clone()),
            to: self.at.clone(),
            upserts,
            removes,
            digest: self.state.digest,
        }
    }
}
