//! The data plane's end of a policy stream.

mod track;

use std::time::Duration;

use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, data_plane_message::Message as Up,
};

use self::track::Track;
use super::{
    Now,
    lane::{Lane, Lanes},
    state::{Change, LaneState},
};

/// Heartbeats that may be missed before a silent stream counts as dead.
const MISSED_HEARTBEATS: u32 = 3;

/// Who the data plane is and how it waits.
#[derive(Debug, Clone, Default)]
pub struct ClientConfig {
    pub node: pb::NodeIdentity,
    /// Silence that is borne before the control plane has said its heartbeat interval.
    pub first_silence: Duration,
}

/// What to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientAction {
    Send(pb::DataPlaneMessage),
    /// Make this lane what the change set says and tell [`ClientSession::on_verdict`]. Messages that come
    /// meanwhile may be fed as usual, and so may the verdict on another lane.
    Apply(Lane, Change),
    /// Time for a status report.
    StatusDue,
    /// End the stream and begin another, here or elsewhere.
    Reconnect(String),
    /// The control plane wants the stream moved within so many milliseconds.
    Drain {
        after_ms: u32,
        jitter_ms: u32,
    },
}

/// What became of a change set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// `Some`: nothing was taken over, for this reason.
    pub refused: Option<String>,
    /// Taken over, but for these, which keep their previous version.
    pub rejected: Vec<pb::Rejected>,
    /// Time that compiling took.
    pub took: Duration,
}

/// One stream's session over a state that outlives it.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    tracks: Lanes<Track>,
    heartbeat: Duration,
    silent_since: Now,
    status_due: Now,
}

impl ClientSession {
    /// A session for a data plane that runs `states` (default: nothing).
    pub fn new(config: ClientConfig, states: Lanes<LaneState>, now: Now) -> Self {
        let heartbeat = config.first_silence / MISSED_HEARTBEATS;
        let Lanes { keys, config: configured } = states;
        let tracks = Lanes {
            keys: Track::new(Lane::Keys, keys),
            config: Track::new(Lane::Config, configured),
        };
        Self { config, tracks, heartbeat, silent_since: now, status_due: now }
    }

    /// What the data plane runs.
    pub fn state(&self, lane: Lane) -> &LaneState {
        &self.tracks.get(lane).state
    }

    /// Takes the states out, when the stream has ended.
    pub fn into_states(self) -> Lanes<LaneState> {
        self.tracks.map(|track| track.state)
    }

    /// The first message of the stream.
    pub fn hello(&self) -> pb::DataPlaneMessage {
        up(Up::Hello(pb::Hello { node: Some(self.config.node.clone()), have: self.have() }))
    }

    fn have(&self) -> Vec<pb::LaneState> {
        self.tracks.iter().map(|(lane, track)| track.state.to_proto(lane)).collect()
    }

    /// A status report; the caller fills in what only it knows.
    pub fn status(&self, rest: pb::Status) -> pb::DataPlaneMessage {
        up(Up::Status(pb::Status { lanes: self.have(), ..rest }))
    }

    /// When [`ClientSession::tick`] has something to do at the latest.
    pub fn next_tick(&self) -> Now {
        (self.silent_since + self.heartbeat * MISSED_HEARTBEATS).min(self.status_due)
    }

    /// Time passed.
    pub fn tick(&mut self, now: Now) -> Vec<ClientAction> {
        let silence = now.saturating_sub(self.silent_since);
        if silence >= self.heartbeat * MISSED_HEARTBEATS {
            return vec![reconnect(format!("nothing heard for {} ms", silence.as_millis()))];
        }
        if now >= self.status_due {
            self.status_due = now + self.heartbeat;
            return vec![ClientAction::StatusDue];
        }
        Vec::new()
    }

    /// A message came.
    pub fn on_message(&mut self, now: Now, message: pb::ControlPlaneMessage) -> Vec<ClientAction> {
        self.silent_since = now;
        match message.message {
            Some(Down::Welcome(welcome)) => {
                self.heartbeat = Duration::from_millis(u64::from(welcome.heartbeat_ms.max(10)));
                self.status_due = now;
                Vec::new()
            }
            Some(Down::Change(chunk)) => match Lane::from_proto(chunk.lane) {
                Some(lane) => self.tracks.get_mut(lane).on_chunk(chunk),
                // Of a newer control plane.
                None => Vec::new(),
            },
            Some(Down::Heartbeat(heartbeat)) => heartbeat
                .head
                .iter()
                .filter_map(|head| Some((Lane::from_proto(head.lane)?, head)))
                .flat_map(|(lane, head)| self.tracks.get_mut(lane).on_head(head))
                .collect(),
            Some(Down::Drain(drain)) => {
                vec![ClientAction::Drain { after_ms: drain.after_ms, jitter_ms: drain.jitter_ms }]
            }
            // Of a newer control plane.
            None => Vec::new(),
        }
    }

    /// The change set of the lane's last [`ClientAction::Apply`] was taken over, or refused.
    pub fn on_verdict(&mut self, lane: Lane, verdict: Verdict) -> Vec<ClientAction> {
        self.tracks.get_mut(lane).on_verdict(verdict)
    }
}

fn up(message: Up) -> pb::DataPlaneMessage {
    pb::DataPlaneMessage { message: Some(message) }
}

fn reconnect(reason: impl Into<String>) -> ClientAction {
    ClientAction::Reconnect(reason.into())
}
