//! What data planes are told: the desired state with secrets opened, and once more in a lane of their own
//! which keys of callers hold.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use prost::Message;
use sluicegate_model::{Kind, Resource, ResourceRef, seal::SealKey};
use sluicegate_proto::{
    policy::v1 as policy_pb,
    resource::v1::{self as pb, resource::Spec, secret_source::Source},
};
use sluicegate_protocol::policy::{Body, Key, Lanes, Point, Publisher, SCHEMA};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::sync::watch;

use crate::{
    desired::{Changes, Desired},
    fleet::Fleet,
    secrets,
    state::{ChangeEvent, State, Stored},
};

/// The published state of this replica, which every policy stream reads.
#[derive(Debug)]
pub struct Publication {
    publishers: Mutex<Lanes<Publisher>>,
    head: watch::Sender<Point>,
    /// Resources that are desired but cannot be published, with the reason.
    broken: Mutex<BTreeMap<ResourceRef, String>>,
    seal: SealKey,
}

impl Publication {
    /// Publishes the desired state and every change of it until the returned task is dropped.
    #[must_use]
    pub fn start(
        desired: Arc<Desired>,
        seal: SealKey,
        fleet: Arc<Fleet>,
    ) -> (Arc<Self>, AbortOnDrop<()>) {
        let state = desired.snapshot();
        let point = state.point();
        let publication = Arc::new(Self {
            publishers: Mutex::new(Lanes::of(|_| Publisher::new(point.clone(), BTreeMap::new()))),
            head: watch::Sender::new(point.clone()),
            broken: Mutex::new(BTreeMap::new()),
            seal,
        });
        let entries = publication.render_all(&state);
        *publication.lock() = entries.map(|entries| Publisher::new(point.clone(), entries));
        fleet.head_moved(point);
        let following = publication.clone().follow(desired, fleet);
        (publication, AbortOnDrop(task::spawn("publication", following)))
    }

    /// Looks at the published state. What is done inside must be short: every stream waits for it.
    pub fn with<T>(&self, look: impl FnOnce(&Lanes<Publisher>) -> T) -> T {
        look(&self.lock())
    }

    /// Where the configuration stands, and a notice whenever it moves.
    pub fn subscribe(&self) -> watch::Receiver<Point> {
        self.head.subscribe()
    }

    /// Resources that are desired but not published, with the reason.
    pub fn broken(&self) -> BTreeMap<ResourceRef, String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn follow(self: Arc<Self>, desired: Arc<Desired>, fleet: Arc<Fleet>) {
        let mut moved = desired.subscribe();
        // What happened before the subscription is looked for at once.
        moved.mark_changed();
        while moved.changed().await.is_ok() {
            let cursor = self.head.borrow().clone();
            match desired.changes_after(&cursor) {
                Changes::These(events) => events.iter().for_each(|event| self.publish(event)),
                Changes::Reset(state) => {
                    let Lanes { keys, config } = self.render_all(&state);
                    let mut publishers = self.lock();
                    publishers.keys.replace(state.point(), keys);
                    publishers.config.replace(state.point(), config);
                }
            }
            let head = self.lock().config.head().clone();
            if head != cursor {
                fleet.head_moved(head.clone());
                self.head.send_replace(head);
            }
        }
    }

    fn publish(&self, event: &ChangeEvent) {
        let mut upserts = Vec::with_capacity(event.puts.len());
        let mut removes: Vec<_> = event.deletes.iter().map(key).collect();
        let is_key = |reference: &&ResourceRef| reference.kind == Kind::ApiKey;
        let mut revoked: Vec<_> = event.deletes.iter().filter(is_key).map(key).collect();
        let mut valid_keys = Vec::new();
        for reference in &event.deletes {
            self.note(reference, None);
        }
        for (reference, stored) in &event.puts {
            match self.render(reference, stored) {
                Some(body) => upserts.push((key(reference), body)),
                None => removes.push(key(reference)),
            }
            match valid(stored) {
                Some(body) => valid_keys.push((key(reference), body)),
                None if reference.kind == Kind::ApiKey => revoked.push(key(reference)),
                None => {}
            }
        }
        let mut publishers = self.lock();
        // Also where no key changed: replicas that began at different times must be at the same revision.
        publishers.keys.publish(event.revision, valid_keys, revoked);
        publishers.config.publish(event.revision, upserts, removes);
    }

    fn render_all(&self, state: &State) -> Lanes<BTreeMap<Key, Body>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let render = |(reference, stored): (&ResourceRef, &Arc<Stored>)| {
            Some((key(reference), self.render(reference, stored)?))
        };
        let holds = |(reference, stored): (&ResourceRef, &Arc<Stored>)| {
            Some((key(reference), valid(stored)?))
        };
        Lanes {
            keys: state.resources.iter().filter_map(holds).collect(),
            config: state.resources.iter().filter_map(render).collect(),
        }
    }

    /// A resource as data planes get it; `None` when it cannot be published.
    fn render(&self, reference: &ResourceRef, stored: &Stored) -> Option<Body> {
        match rendered(&self.seal, stored) {
            Ok(bytes) => {
                self.note(reference, None);
                Some(Body { version: stored.version, schema: SCHEMA, bytes })
            }
            Err(reason) => {
                tracing::error!(resource = %reference, reason, "cannot be published");
                self.note(reference, Some(reason));
                None
            }
        }
    }

    fn note(&self, reference: &ResourceRef, reason: Option<String>) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => drop(broken.insert(reference.clone(), reason)),
            None => drop(broken.remove(reference)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lanes<Publisher>> {
        self.publishers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller's key that holds, for the lane of keys. Without a version: what else changed of it is of no
/// matter there.
fn valid(stored: &Stored) -> Option<Body> {
    let Resource::ApiKey(spec) = &stored.parsed else { return None };
    let hash = spec.hash.filter(|_| !spec.disabled)?;
    let key = policy_pb::ValidKey {
        hash: Bytes::copy_from_slice(hash.bytes()),
        expires_unix_ms: spec.expires_unix_ms.unwrap_or(0),
    };
    Some(Body { version: 0, schema: SCHEMA, bytes: key.encode_to_vec().into() })
}

/// The bytes for data planes. Only credentials are encoded anew: maps encode in any order, and
/// replicas must publish the same bytes.
fn rendered(seal: &SealKey, stored: &Stored) -> Result<Bytes, String> {
    let Some(Spec::Credential(spec)) = &stored.wire.spec else { return Ok(stored.bytes.clone()) };
    let mut spec = spec.clone();
    let sealed = spec.secret.as_ref().ok_or("no secret is stored with it")?;
    let plain = secrets::open(seal, &spec.name, sealed)?;
    spec.secret = Some(pb::SecretSource {
        source: Some(Source::Value(plain.expose().to_owned())),
        sealed: Bytes::new(),
    });
    Ok(pb::Resource { spec: Some(Spec::Credential(spec)) }.encode_to_vec().into())
}

fn key(reference: &ResourceRef) -> Key {
    Key { kind: reference.kind.singular().to_owned(), name: reference.name.clone() }
}
