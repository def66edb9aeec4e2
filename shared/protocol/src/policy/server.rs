//! The control plane's end of one policy stream.

mod chunks;
mod track;

use std::time::Duration;

use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, data_plane_message::Message as Up,
};

use self::track::Track;
use super::{
    Now,
    lane::{Lane, Lanes},
    publisher::Publisher,
    state::Point,
};

/// What is kept of a follower's words, in bytes, and of its lists.
const MAX_NAME: usize = 256;
const MAX_TEXT: usize = 4 * 1024;
const MAX_LISTED: usize = 100;

/// Heartbeats without a word from a follower after which it counts as gone.
const SILENT_HEARTBEATS: u32 = 4;

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
    AckTimeout(Lane),
    /// Nothing was heard for several heartbeats: followers report at every one.
    Silent,
    /// The follower is ahead of this replica; another may serve it.
    Behind { follower: u64, replica: u64 },
}

/// What is known of a data plane.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Follower {
    pub node: pb::NodeIdentity,
    pub lanes: Lanes<Standing>,
    pub persisted_revision: u64,
    pub requests_in_flight: u32,
    pub uptime_ms: u64,
    /// How it gets along with limits and usage; `None`: it does not say.
    pub ledger: Option<pb::LedgerStatus>,
}

/// How a data plane stands with one lane.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// What it runs.
    pub at: Option<Point>,
    /// Resources that it runs in an older version, or not at all.
    pub rejected: Vec<pb::Rejected>,
    /// Why it refused the last whole change set; empty when it did not.
    pub error: String,
    /// What it refused as a whole.
    pub refused: Option<Point>,
}

/// One data plane's stream. Feed it every message, a tick now and then, and a nudge when a head moved.
#[derive(Debug)]
pub struct ServerSession {
    config: ServerConfig,
    greeted: bool,
    /// Without its lanes, which the tracks know.
    follower: Follower,
    tracks: Lanes<Track>,
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
            tracks: Lanes::of(Track::new),
            heartbeat_due,
            heard_at: now,
            store_unavailable: false,
        }
    }

    /// When [`ServerSession::tick`] has something to do at the latest.
    pub fn next_tick(&self) -> Now {
        let ServerConfig { ack_timeout, behind_timeout, .. } = self.config;
        let deadlines =
            self.tracks.iter().filter_map(|(_, track)| track.deadline(ack_timeout, behind_timeout));
        deadlines.chain([self.silent_at()]).fold(self.heartbeat_due, Now::min)
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
        publishers: &Lanes<Publisher>,
    ) -> Vec<ServerAction> {
        self.heard_at = now;
        let mut actions = Vec::new();
        match message.message {
            Some(Up::Hello(hello)) if !self.greeted => {
                self.on_hello(hello, publishers, &mut actions);
            }
            Some(Up::Hello(_)) => {
                actions.push(protocol("a second hello on one stream"));
            }
            // A newer data plane may say what this build does not know.
            None => {}
            Some(_) if !self.greeted => actions.push(protocol("the first message is not a hello")),
            Some(Up::Ack(ack)) => {
                if let Some(lane) = Lane::from_proto(ack.lane)
                    && self.tracks.get_mut(lane).on_ack(ack, &mut actions)
                {
                    actions.push(self.report());
                }
            }
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
            Some(Up::Resync(resync)) => {
                if let Some(lane) = Lane::from_proto(resync.lane) {
                    self.tracks.get_mut(lane).on_resync();
                }
            }
        }
        self.push(now, publishers, &mut actions);
        actions
    }

    /// A head moved.
    pub fn on_head(&mut self, now: Now, publishers: &Lanes<Publisher>) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        self.push(now, publishers, &mut actions);
        actions
    }

    /// Time passed.
    pub fn tick(&mut self, now: Now, publishers: &Lanes<Publisher>) -> Vec<ServerAction> {
        let mut actions = Vec::new();
        let ServerConfig { ack_timeout, behind_timeout, .. } = self.config;
        let unanswered =
            self.tracks.iter().find(|(_, track)| track.is_unanswered(now, ack_timeout));
        if let Some((lane, _)) = unanswered {
            actions.push(ServerAction::Close(Close::AckTimeout(lane)));
            return actions;
        }
        if now >= self.silent_at() {
            actions.push(ServerAction::Close(Close::Silent));
            return actions;
        }
        self.push(now, publishers, &mut actions);
        let behind = |(lane, track): (Lane, &Track)| {
            track.is_behind(now, behind_timeout, publishers.get(lane))
        };
        actions.extend(self.tracks.iter().find_map(behind).map(ServerAction::Close));
        if now >= self.heartbeat_due {
            self.heartbeat_due = now + self.config.heartbeat;
            if self.greeted {
                actions.push(self.heartbeat(publishers));
            }
        }
        actions
    }

    fn on_hello(
        &mut self,
        hello: pb::Hello,
        publishers: &Lanes<Publisher>,
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
        for held in hello.have {
            if let Some(lane) = Lane::from_proto(held.lane) {
                self.tracks.get_mut(lane).on_hello(held);
            }
        }
        actions.push(send(Down::Welcome(pb::Welcome {
            replica_id: self.config.replica_id.clone(),
            heartbeat_ms: millis(self.config.heartbeat),
            ack_timeout_ms: millis(self.config.ack_timeout),
        })));
        actions.push(self.heartbeat(publishers));
        actions.push(self.report());
    }

    fn heartbeat(&self, publishers: &Lanes<Publisher>) -> ServerAction {
        let head = publishers.iter().map(|(lane, publisher)| publisher.state().to_proto(lane));
        send(Down::Heartbeat(pb::Heartbeat {
            head: head.collect(),
            store_unavailable: self.store_unavailable,
        }))
    }

    /// Sends what is due in each lane that waits for no answer.
    fn push(&mut self, now: Now, publishers: &Lanes<Publisher>, actions: &mut Vec<ServerAction>) {
        let closing = actions.iter().any(|action| matches!(action, ServerAction::Close(_)));
        if !self.greeted || closing {
            return;
        }
        let mut changed = false;
        for lane in Lane::ALL {
            changed |= self.tracks.get_mut(lane).push(now, publishers.get(lane), actions);
        }
        if changed {
            actions.push(self.report());
        }
    }

    fn report(&self) -> ServerAction {
        let lanes = Lanes::of(|lane| self.tracks.get(lane).standing.clone());
        ServerAction::Report(Box::new(Follower { lanes, ..self.follower.clone() }))
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
