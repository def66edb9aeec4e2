//! The desired state as one value, and how the store's changes move it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};
use sluicegate_model::{Kind, Resource, ResourceRef, name::near_miss, resource::reference_of};
use sluicegate_proto::resource::v1 as pb;
use sluicegate_protocol::policy::Point;
use sluicegate_store::{Change, ChangeSet, Entry, Epoch, Listing, Revision};

use crate::{error::CoreError, keys};

/// One resource as it is stored.
#[derive(Debug, PartialEq)]
pub struct Stored {
    /// Revision that last changed it.
    pub version: Revision,
    /// With sealed secrets, never with plain ones.
    pub wire: pb::Resource,
    /// What `wire` was decoded from.
    pub bytes: Bytes,
    pub parsed: Resource,
}

/// A stored value that this build cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub version: Revision,
    pub bytes: Bytes,
    pub reason: String,
}

/// Everything desired, as of one revision.
#[derive(Debug, Clone)]
pub struct State {
    /// Identity of the store's history.
    pub epoch: Bytes,
    /// Revision of the newest change; 0 before the first.
    pub revision: Revision,
    /// Revision that last wrote the head; what the next change must compare. 0: it does not exist.
    pub head: Revision,
    /// Number of the newest change, from 1; 0 before the first.
    pub sequence: u64,
    pub resources: BTreeMap<ResourceRef, Arc<Stored>>,
    /// What is in the store but not served, by `kind/name`.
    pub broken: BTreeMap<String, Broken>,
}

/// What one revision changed.
#[derive(Debug, Clone)]
pub struct ChangeEvent {
    pub revision: Revision,
    pub puts: Vec<(ResourceRef, Arc<Stored>)>,
    pub deletes: Vec<ResourceRef>,
}

/// The value of the head.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) sequence: u64,
    pub(crate) time_unix_ms: u64,
    pub(crate) author: String,
}

impl State {
    /// The state that a listing of the configuration holds.
    pub(crate) fn from_listing(epoch: Epoch, listing: Listing) -> Self {
        let mut state = Self {
            epoch: epoch.0,
            revision: 0,
            head: 0,
            sequence: 0,
            resources: BTreeMap::new(),
            broken: BTreeMap::new(),
        };
        for entry in listing.entries {
            let revision = entry.mod_revision;
            state.take(ChangeSet { revision, changes: vec![Change::Put(entry)] });
        }
        state
    }

    /// Where it stands.
    pub fn point(&self) -> Point {
        Point { epoch: self.epoch.clone(), revision: self.revision }
    }

    /// Version of a resource, also of one that is broken; 0: it does not exist.
    pub fn version(&self, reference: &ResourceRef) -> Revision {
        match self.resources.get(reference) {
            Some(stored) => stored.version,
            None => self.broken.get(&reference.to_string()).map_or(0, |broken| broken.version),
        }
    }

    /// The error for a resource that is not there, with the name that may have been meant.
    pub fn not_found(&self, reference: &ResourceRef) -> CoreError {
        let known = self.resources.keys().filter(|known| known.kind == reference.kind);
        let near = near_miss(&reference.name, known.map(|known| known.name.as_str()));
        CoreError::NotFound { reference: reference.clone(), near: near.map(str::to_owned) }
    }

    /// Bytes of a resource as stored, also of one that is broken.
    pub(crate) fn bytes(&self, reference: &ResourceRef) -> Option<Bytes> {
        let broken = || self.broken.get(&reference.to_string()).map(|broken| broken.bytes.clone());
        self.resources.get(reference).map(|stored| stored.bytes.clone()).or_else(broken)
    }

    /// Takes over what one revision changed.
    pub(crate) fn take(&mut self, set: ChangeSet) -> ChangeEvent {
        self.revision = self.revision.max(set.revision);
        let mut event =
            ChangeEvent { revision: set.revision, puts: Vec::new(), deletes: Vec::new() };
        for change in set.changes {
            match change {
                Change::Put(entry) if entry.key == keys::HEAD => self.take_head(&entry),
                Change::Put(entry) => self.put(entry, &mut event),
                Change::Delete { key } if key == keys::HEAD => self.head = 0,
                Change::Delete { key } => self.delete(&key, &mut event),
            }
        }
        event
    }

    fn take_head(&mut self, entry: &Entry) {
        self.head = entry.mod_revision;
        // Every change takes at least one revision, so a revision is never lower than the number.
        self.sequence = serde_json::from_slice::<Head>(&entry.value)
            .map_or(self.sequence.max(entry.mod_revision), |head| head.sequence);
    }

    fn put(&mut self, entry: Entry, event: &mut ChangeEvent) {
        let Some(name) = entry.key.strip_prefix(keys::RESOURCE).map(str::to_owned) else { return };
        let reference = reference_in(&name);
        match decode(reference.as_ref(), &entry) {
            Ok((reference, stored)) => {
                self.broken.remove(&name);
                let stored = Arc::new(stored);
                self.resources.insert(reference.clone(), stored.clone());
                event.puts.push((reference, stored));
            }
            Err(reason) => {
                tracing::error!(resource = name, reason, "a stored resource cannot be used");
                let version = entry.mod_revision;
                self.broken.insert(name, Broken { version, bytes: entry.value, reason });
                if let Some(reference) = reference
                    && self.resources.remove(&reference).is_some()
                {
                    event.deletes.push(reference);
                }
            }
        }
    }

    fn delete(&mut self, key: &str, event: &mut ChangeEvent) {
        let Some(name) = key.strip_prefix(keys::RESOURCE) else { return };
        self.broken.remove(name);
        if let Some(reference) = reference_in(name)
            && self.resources.remove(&reference).is_some()
        {
            event.deletes.push(reference);
        }
    }
}

/// Reads `kind/name`; the name may hold slashes.
pub(crate) fn reference_in(text: &str) -> Option<ResourceRef> {
    let (kind, name) = text.split_once('/')?;
    let kind = Kind::ALL.into_iter().find(|known| known.singular() == kind)?;
    Some(ResourceRef::new(kind, name))
}

fn decode(reference: Option<&ResourceRef>, entry: &Entry) -> Result<(ResourceRef, Stored), String> {
    let reference = reference.ok_or("its kind is unknown to this build")?;
    let wire = pb::Resource::decode(entry.value.clone()).map_err(|error| error.to_string())?;
    let named = reference_of(&wire).map_err(|violation| violation.to_string())?;
    if named != *reference {
        return Err(format!("it holds {named}"));
    }
    let parsed = Resource::parse(&wire).map_err(|violations| violations.to_string())?;
    let (version, bytes) = (entry.mod_revision, entry.value.clone());
    Ok((named, Stored { version, wire, bytes, parsed }))
}
