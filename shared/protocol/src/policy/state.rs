//! What one lane holds at one point.

use std::collections::BTreeMap;

use bytes::Bytes;
use sluicegate_proto::{policy::v1 as pb, resource::v1 as resource};

use super::{digest::Digest, lane::Lane};

/// A point in the history of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Point {
    /// Revisions of different epochs do not compare.
    pub epoch: Bytes,
    pub revision: u64,
}

impl Point {
    pub fn to_proto(&self) -> pb::Point {
        pb::Point { epoch: self.epoch.clone(), revision: self.revision }
    }
}

impl From<pb::Point> for Point {
    fn from(wire: pb::Point) -> Self {
        Self { epoch: wire.epoch, revision: wire.revision }
    }
}

/// Kind and name as they are on the wire. A kind that this build does not know survives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: String,
    pub name: String,
}

impl Key {
    pub fn to_proto(&self) -> resource::ResourceRef {
        resource::ResourceRef { kind: self.kind.clone(), name: self.name.clone() }
    }
}

impl From<resource::ResourceRef> for Key {
    fn from(wire: resource::ResourceRef) -> Self {
        Self { kind: wire.kind, name: wire.name }
    }
}

/// A resource's bytes as they were received, and which version they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Revision that last changed it.
    pub version: u64,
    pub schema: u32,
    pub bytes: Bytes,
}

/// A whole change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where it starts; `None`: it replaces everything.
    pub from: Option<Point>,
    pub to: Point,
    pub upserts: Vec<(Key, Body)>,
    pub removes: Vec<Key>,
    /// Digest of the state after it.
    pub digest: Digest,
}

/// Everything in a lane as of one point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneState {
    /// `None`: nothing was ever received.
    pub at: Option<Point>,
    pub entries: BTreeMap<Key, Body>,
    pub digest: Digest,
}

impl LaneState {
    /// The digest that the lane would have after `change`, without changing anything.
    pub fn digest_after(&self, change: &Change) -> Digest {
        let mut digest = if change.from.is_some() { self.digest } else { Digest::default() };
        let held = |key: &Key| change.from.as_ref().and_then(|_| self.entries.get(key));
        for key in &change.removes {
            if let Some(old) = held(key) {
                digest.remove(key, old);
            }
        }
        for (key, body) in &change.upserts {
            if let Some(old) = held(key) {
                digest.remove(key, old);
            }
            digest.add(key, body);
        }
        digest
    }

    /// Takes the change over.
    pub fn apply(&mut self, change: Change) {
        self.digest = self.digest_after(&change);
        if change.from.is_none() {
            self.entries.clear();
        }
        for key in &change.removes {
            self.entries.remove(key);
        }
        self.entries.extend(change.upserts);
        self.at = Some(change.to);
    }

    /// The summary that rides on hellos and heartbeats.
    pub fn to_proto(&self, lane: Lane) -> pb::LaneState {
        pb::LaneState {
            lane: lane.to_proto().into(),
            at: self.at.as_ref().map(Point::to_proto),
            digest: Bytes::copy_from_slice(&self.digest.to_bytes()),
            resources: self.entries.len() as u64,
        }
    }
}
