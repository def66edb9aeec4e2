//! The control plane's end of one policy stream.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, data_plane_message::Message as Up,
};

use super::{
    Now,
    digest::Digest,
    publisher::{Publisher, Pull},
    state::{Change, Point},
};

/// Largest part of a change set, in bytes of resource bodies, unless one resource is larger.
const CHUNK: usize = 256 * 1024;

/// What is kept of a follower's words, in bytes, and of its lists.
const MAX_NAME: usize = 256;
const MAX_TEXT: usize = 4 * 1024;
const MAX_LISTED: usize = 100;

/// Heartbeats without a word from a follower after which it counts as gone.
const SILENT_HEARTBEATS: u32 = 4;

/// What the fleet view says of a follower that keeps its state before an empty store.
const WIPE: &str = "runs the configuration of another store, and this control plane's store is \
     empty: it was lost, or is the wrong one. The data plane serves on; apply a configuration to \
     replace what it has";

/// How often and how long.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub replica_id: String,
    pub heartbeat: Duration,
    /// A change set that is not answered in this time ends the stream.
    pub ack_timeout: Duration,
    /// How long a follower that is ahead of this replica waits for it to catch up.
    pub behind_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            replica_id: String::new(),
            heartbeat: Duration::from_secs(3),
            ack_timeout: Duration::from_secs(10),
            behind_timeout: Duration::from_secs(2),
        }
    }
}

/// What to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerAction {
    Send(pb::ControlPlaneMessage),
    /// The fleet's view of this follower changed.
    Report(Box<Follower>),
    Close(Close),
}

/// Why a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Close {
    /// The peer broke the protocol.
    Protocol(String),
    /// A change set was not acknowledged in time.
    AckTimeout,
    /// Nothing was heard for several heartbeats: followers report at every one.
    Silent,
    /// The follower is ahead of this replica; another may serve it.
    Behind { follower: u64, replica: u64 },
}

/// What is known of a data plane.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Follower {
    pub node: pb::NodeIdentity,
    /// What it runs.
    pub at: Option<Point>,
    /// Resources that it runs in an older version, or not at all.
    pub rejected: Vec<pb::Rejected>,
    /// Why it refused the last whole change set; empty when it did not.
    pub error: String,
    /// What it refused as a whole.
    pub refused: Option<Point>,
    pub persisted_revision: u64,
    pub requests_in_flight: u32,
    pub uptime_ms: u64,
    /// How it gets along with limits and usage; `None`: it does not say.
    pub ledger: Option<pb::LedgerStatus>,
}

#[derive(Debug)]
struct InFlight {
    nonce: u64,
    to: Point,
    digest: Digest,
    full: bool,
    since: Now,
}

/// One data plane's stream. Feed it every message, a tick now and then, and a nudge when the head
/// moved.
#[derive(Debug)]
pub struct ServerSession {
    config: ServerConfig,
    greeted: bool,
    follower: Follower,
    digest: Digest,
    in_flight: Option<InFlight>,
    last_nonce: u64,
    /// The next change set must be a full state.
    resync: bool,
    behind_since: Option<Now>,
    heartbeat_due: Now,
    heard_at: Now,
    store_unavailable: bool,
}

impl ServerSession {
    pub fn new(config: ServerConfig, now: Now) -> Self {
        let heartbeat_due = now + config.heartbeat;
        Self {
            config,
            greeted: false,
            follower: Follower::default(),
            digest: Digest::default(),
            in_flight: None,
            last_nonce: 0,
            resync: false,
            behind_since: None,
            heartbeat_due,
            heard_at: now,
            store_unavailable: false,
        }
    }

    /// When [`ServerSession::tick`] has something to do at the latest.
    pub fn next_tick(&self) -> Now {
        let ack = self.in_flight.as_ref().map(|sent| sent.since + self.config.ack_timeout);
        let behind = self.behind_since.map(|since| since + self.config.behind_timeout);
        let silent = Some(self.silent_at());
        [ack, behind, silent].into_iter().flatten().fold(self.heartbeat_due, Now::min)
    }

    /// When a follower that says nothing more counts as gone.
    fn silent_at(&self) -> Now {
        self.heard_at + self.config.heartbeat * SILENT_HEARTBEATS
    }

    /// Heartbeats say from now on whether the store answers.
    pub fn set_store_unavailable(&mut self, unavailable: bool) {
        self.store_unavailable = unavailable;
    }

    /// A message came.
    pub fn on_message(
        &mut self,
        now: Now,
        message: pb::DataPlaneMessage,
        publisher: &Publisher,
    ) -> Vec<ServerAction> {
        self.heard_at = now;
        let mut actions = Vec::new();
        match message.message {
            Some(Up::Hello(hello)) if !self.greeted => {
                self.on_hello(hello, publisher, &mut actions)
            }
            Some(Up::Hello(_)) => {
                actions.push(protocol("a second hello on one stream"));
            }
            // A newer data plane may say what this build does not know.
            None => {}
            Some(_) if !self.greeted => actions.push(protocol("the first message is not a hello")),
            Some(Up::Ack(ack)) => self.on_ack(ack, &mut actions),
            Some(Up::Status(status)) => {
                self.follower.persisted_revision = status.persisted_revision;
                self.follower.requests_in_flight = status.requests_in_flight;
                self.follower.uptime_ms = status.uptime_ms;
                self.follower.ledger = status.ledger.map(|mut ledger| {
                    cut(&mut ledger.mode, MAX_NAME);
                    ledger
                });
                actions.push(self.report());
            }
            Some(Up::Resync(_)) => {
                self.resync = true;
                self.in_flight = None;
            }
        }
        self.push(now, publisher, &mut actions);
        actions
    }

    /// The head moved.
    pub fn on_head(&mut self, now: Now, publisher: &Publisher) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        self.push(now, publisher, &mut actions);
        actions
    }

    /// Time passed.
    pub fn tick(&mut self, now: Now, publisher: &Publisher) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        if self.in_flight.as_ref().is_some_and(|sent| now >= sent.since + self.config.ack_timeout) {
            actions.push(ServerAction::Close(Close::AckTimeout));
            return actions;
        }
        if now >= self.silent_at() {
            actions.push(ServerAction::Close(Close::Silent));
            return actions;
        }
        self.push(now, publisher, &mut actions);
        if let Some(since) = self.behind_since
            && now >= since + self.config.behind_timeout
        {
            actions.push(ServerAction::Close(Close::Behind {
                follower: self.follower.at.as_ref().map_or(0, |at| at.revision),
                replica: publisher.head().revision,
            }));
        }
        if now >= self.heartbeat_due {
            self.heartbeat_due = now + self.config.heartbeat;
            if self.greeted {
                actions.push(send(Down::Heartbeat(pb::Heartbeat {
                    head: vec![publisher.state().to_proto()],
                    store_unavailable: self.store_unavailable,
                })));
            }
        }
        actions
    }

    fn on_hello(
        &mut self,
        hello: pb::Hello,
        publisher: &Publisher,
        actions: &mut Vec<ServerAction>,
    ) {
        let Some(mut node) = hello.node.filter(|node| !node.node_id.is_empty()) else {
            actions.push(protocol("the hello names no node"));
            return;
        };
        if node.node_id.len() > MAX_NAME {
            actions.push(protocol("the name of the node is too long"));
            return;
        }
        for text in [&mut node.build, &mut node.address] {
            cut(text, MAX_NAME);
        }
        node.capabilities.truncate(MAX_LISTED);
        node.capabilities.iter_mut().for_each(|text| cut(text, MAX_NAME));
        if node.schema_min > super::SCHEMA || node.schema_max < super::SCHEMA {
            actions.push(protocol(&format!(
                "build {} reads resource schemas {} to {}, this control plane writes {}",
                node.build,
                node.schema_min,
                node.schema_max,
                super::SCHEMA
            )));
            return;
        }
        self.greeted = true;
        self.follower.node = node;
        let held = hello.have.into_iter().find(|lane| lane.lane == i32::from(pb::Lane::Config));
        if let Some(held) = held {
            self.digest = Digest::from_bytes(&held.digest).unwrap_or_default();
            self.follower.at = held.at.map(Point::from);
        }
        actions.push(send(Down::Welcome(pb::Welcome {
            replica_id: self.config.replica_id.clone(),
            heartbeat_ms: millis(self.config.heartbeat),
            ack_timeout_ms: millis(self.config.ack_timeout),
        })));
        actions.push(send(Down::Heartbeat(pb::Heartbeat {
            head: vec![publisher.state().to_proto()],
            store_unavailable: self.store_unavailable,
        })));
        actions.push(self.report());
    }

    fn on_ack(&mut self, ack: pb::Ack, actions: &mut Vec<ServerAction>) {
        if ack.nonce > self.last_nonce {
            actions.push(protocol("acknowledges what was never sent"));
            return;
        }
        // Anything but the change set in flight is an echo of an earlier one.
        let Some(sent) = self.in_flight.take_if(|sent| sent.nonce == ack.nonce) else { return };
        if ack.applied {
            self.digest = sent.digest;
            self.follower.at = Some(sent.to);
            self.follower.rejected = ack.rejected;
            self.follower.rejected.truncate(MAX_LISTED);
            self.follower.rejected.iter_mut().for_each(|entry| cut(&mut entry.reason, MAX_TEXT));
            self.follower.error.clear();
            self.follower.refused = None;
            self.resync = false;
            if Digest::from_bytes(&ack.digest) != Some(sent.digest) {
                if sent.full {
                    actions.push(protocol("holds another state than it was sent in full"));
                    return;
                }
                self.resync = true;
            }
        } else {
            self.follower.error = ack.error;
            cut(&mut self.follower.error, MAX_TEXT);
            self.follower.refused = Some(sent.to);
            self.resync = false;
        }
        actions.push(self.report());
    }

    /// Sends the next change set if one is due and none is on its way.
    fn push(&mut self, now: Now, publisher: &Publisher, actions: &mut Vec<ServerAction>) {
        let closing = actions.iter().any(|action| matches!(action, ServerAction::Close(_)));
        if !self.greeted || self.in_flight.is_some() || closing {
            return;
        }
        if self.would_wipe(publisher) {
            if self.follower.error != WIPE {
                WIPE.clone_into(&mut self.follower.error);
                actions.push(self.report());
            }
            return;
        }
        // The same bytes would be refused again: wait for a newer revision.
        if !self.resync && self.follower.refused.as_ref() == Some(publisher.head()) {
            return;
        }
        let pulled = if self.resync {
            Pull::Change(publisher.full())
        } else {
            publisher.pull(self.follower.at.as_ref(), self.digest)
        };
        let stale = self.follower.at.as_ref().is_some_and(|at| {
            at.epoch == publisher.head().epoch && at.revision > publisher.head().revision
        });
        match pulled {
            Pull::UpToDate => self.behind_since = None,
            Pull::Behind => {
                self.behind_since.get_or_insert(now);
            }
            Pull::Change(_) if stale => {
                self.behind_since.get_or_insert(now);
            }
            Pull::Change(change) => {
                self.behind_since = None;
                self.last_nonce += 1;
                self.in_flight = Some(InFlight {
                    nonce: self.last_nonce,
                    to: change.to.clone(),
                    digest: change.digest,
                    full: change.from.is_none(),
                    since: now,
                });
                actions.extend(chunks(change, self.last_nonce).into_iter().map(send));
            }
        }
    }

    /// Would the follower lose everything to a store in which nothing was ever applied? Such a store
    /// is one that was lost, or the wrong one. The first change that is applied ends the doubt.
    fn would_wipe(&self, publisher: &Publisher) -> bool {
        let head = publisher.head();
        head.revision == 0 && self.follower.at.as_ref().is_some_and(|at| at.epoch != head.epoch)
    }

    fn report(&self) -> ServerAction {
        ServerAction::Report(Box::new(self.follower.clone()))
    }
}

/// Shortens a text at a character's edge.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let edge = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(edge);
    }
}

fn protocol(what: &str) -> ServerAction {
    ServerAction::Close(Close::Protocol(what.to_owned()))
}

fn send(message: Down) -> ServerAction {
    ServerAction::Send(pb::ControlPlaneMessage { message: Some(message) })
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// Cuts a change set into parts; there is always at least one.
fn chunks(change: Change, nonce: u64) -> Vec<Down> {
    let empty = |index: u32| pb::ChangeChunk {
        lane: pb::Lane::Config.into(),
        nonce,
        from: change.from.as_ref().map(Point::to_proto),
        to: Some(change.to.to_proto()),
        index,
        last: false,
        upserts: Vec::new(),
        removes: Vec::new(),
        digest: Bytes::new(),
    };
    let mut chunks = vec![empty(0)];
    let mut size = 0;
    for (key, body) in &change.upserts {
        let cost = body.bytes.len() + key.name.len() + 64;
        if size > 0 && size + cost > CHUNK {
            chunks.push(empty(u32::try_from(chunks.len()).unwrap_or(u32::MAX)));
            size = 0;
        }
        size += cost;
        if let Some(chunk) = chunks.last_mut() {
            chunk.upserts.push(pb::PolicyResource {
                r#ref: Some(key.to_proto()),
                version: body.version,
                schema: body.schema,
                body: body.bytes.clone(),
            });
        }
    }
    for key in &change.removes {
        let cost = key.name.len() + 64;
        if size > 0 && size + cost > CHUNK {
            chunks.push(empty(u32::try_from(chunks.len()).unwrap_or(u32::MAX)));
            size = 0;
        }
        size += cost;
        if let Some(chunk) = chunks.last_mut() {
            chunk.removes.push(key.to_proto());
        }
    }
    if let Some(last) = chunks.last_mut() {
        last.last = true;
        last.digest = Bytes::copy_from_slice(&change.digest.to_bytes());
    }
    chunks.into_iter().map(Down::Change).collect()
}
