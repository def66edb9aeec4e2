//! The data plane's end of a policy stream.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, data_plane_message::Message as Up,
};

use super::{
    Now,
    digest::Digest,
    state::{Body, Change, Key, LaneState, Point},
};

/// Largest change set that is taken in, in bytes. A configuration is far smaller; a peer that goes on
/// and on is none of ours.
const MAX_CHANGE: usize = 512 * 1024 * 1024;

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
    /// Compile this change set and tell [`ClientSession::on_verdict`]. Messages that come meanwhile
    /// may be fed as usual.
    Apply(Change),
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

#[derive(Debug)]
struct Partial {
    nonce: u64,
    next_index: u32,
    size: usize,
    change: Change,
}

/// One stream's session over a state that outlives it.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    state: LaneState,
    partial: Option<Partial>,
    pending: Option<(u64, Change)>,
    last_nonce: u64,
    heartbeat: Duration,
    silent_since: Now,
    status_due: Now,
    /// A full state was asked for; until it comes, deltas are not looked at.
    resyncing: bool,
}

impl ClientSession {
    /// A session for a data plane that runs `state` (default: nothing).
    pub fn new(config: ClientConfig, state: LaneState, now: Now) -> Self {
        let heartbeat = config.first_silence / MISSED_HEARTBEATS;
        Self {
            config,
            state,
            partial: None,
            pending: None,
            last_nonce: 0,
            heartbeat,
            silent_since: now,
            status_due: now,
            resyncing: false,
        }
    }

    /// What the data plane runs.
    pub fn state(&self) -> &LaneState {
        &self.state
    }

    /// Takes the state out, when the stream has ended.
    pub fn into_state(self) -> LaneState {
        self.state
    }

    /// The first message of the stream.
    pub fn hello(&self) -> pb::DataPlaneMessage {
        let have = if self.state.at.is_some() { vec![self.state.to_proto()] } else { Vec::new() };
        up(Up::Hello(pb::Hello { node: Some(self.config.node.clone()), have }))
    }

    /// A status report; the caller fills in what only it knows.
    pub fn status(&self, rest: pb::Status) -> pb::DataPlaneMessage {
        up(Up::Status(pb::Status { lanes: vec![self.state.to_proto()], ..rest }))
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
            Some(Down::Change(chunk)) if chunk.lane == i32::from(pb::Lane::Config) => {
                self.on_chunk(chunk)
            }
            Some(Down::Heartbeat(heartbeat)) => self.on_heartbeat(&heartbeat),
            Some(Down::Drain(drain)) => {
                vec![ClientAction::Drain { after_ms: drain.after_ms, jitter_ms: drain.jitter_ms }]
            }
            // Lanes and messages of a newer control plane.
            Some(Down::Change(_)) | None => Vec::new(),
        }
    }

    /// The change set of the last [`ClientAction::Apply`] was compiled, or refused.
    pub fn on_verdict(&mut self, verdict: Verdict) -> Vec<ClientAction> {
        let Some((nonce, change)) = self.pending.take() else { return Vec::new() };
        let applied = verdict.refused.is_none();
        if applied {
            self.state.apply(change);
            self.resyncing = false;
        }
        vec![ClientAction::Send(up(Up::Ack(pb::Ack {
            lane: pb::Lane::Config.into(),
            nonce,
            at: self.state.at.as_ref().map(Point::to_proto),
            applied,
            rejected: verdict.rejected,
            digest: Bytes::copy_from_slice(&self.state.digest.to_bytes()),
            error: verdict.refused.unwrap_or_default(),
            apply_us: u32::try_from(verdict.took.as_micros()).unwrap_or(u32::MAX),
        })))]
    }

    fn on_chunk(&mut self, chunk: pb::ChangeChunk) -> Vec<ClientAction> {
        if chunk.nonce <= self.last_nonce {
            // A repetition of a change set that is done.
            return Vec::new();
        }
        if chunk.index == 0 {
            let Some(to) = chunk.to.clone() else {
                return vec![reconnect("a change set without a destination")];
            };
            let change = Change {
                from: chunk.from.clone().map(Point::from),
                to: to.into(),
                upserts: Vec::new(),
                removes: Vec::new(),
                digest: Digest::default(),
            };
            self.partial = Some(Partial { nonce: chunk.nonce, next_index: 0, size: 0, change });
        }
        let expected = self
            .partial
            .as_mut()
            .filter(|partial| partial.nonce == chunk.nonce && partial.next_index == chunk.index);
        let Some(partial) = expected else {
            return vec![reconnect("parts of a change set are missing or out of order")];
        };
        partial.next_index += 1;
        let bodies = chunk.upserts.iter().map(|resource| resource.body.len() + 64);
        partial.size += bodies.sum::<usize>() + chunk.removes.len() * 64;
        if partial.size > MAX_CHANGE {
            return vec![reconnect("a change set that is too large")];
        }
        for resource in chunk.upserts {
            let Some(key) = resource.r#ref else {
                return vec![reconnect("a resource without a name")];
            };
            let body =
                Body { version: resource.version, schema: resource.schema, bytes: resource.body };
            partial.change.upserts.push((key.into(), body));
        }
        partial.change.removes.extend(chunk.removes.into_iter().map(Key::from));
        if !chunk.last {
            return Vec::new();
        }
        let Some(Partial { nonce, mut change, .. }) = self.partial.take() else {
            return Vec::new();
        };
        let Some(digest) = Digest::from_bytes(&chunk.digest) else {
            return vec![reconnect("a change set without a digest")];
        };
        change.digest = digest;
        self.on_change(nonce, change)
    }

    fn on_change(&mut self, nonce: u64, change: Change) -> Vec<ClientAction> {
        if self.pending.is_some() {
            return vec![reconnect("a second change set before the first was acknowledged")];
        }
        let full = change.from.is_none();
        if self.resyncing && !full {
            return Vec::new();
        }
        if !full && change.from != self.state.at {
            return self.resync("the change set does not start from what runs here");
        }
        if let Some(at) = &self.state.at
            && at.epoch == change.to.epoch
            && at.revision > change.to.revision
        {
            return vec![reconnect(format!(
                "offered revision {} while {} runs here",
                change.to.revision, at.revision
            ))];
        }
        if self.state.digest_after(&change) != change.digest {
            return if full {
                vec![reconnect("the full state does not match its digest")]
            } else {
                self.resync("the change set does not lead to its digest")
            };
        }
        self.last_nonce = nonce;
        self.pending = Some((nonce, change.clone()));
        vec![ClientAction::Apply(change)]
    }

    fn on_heartbeat(&mut self, heartbeat: &pb::Heartbeat) -> Vec<ClientAction> {
        let head = heartbeat.head.iter().find(|lane| lane.lane == i32::from(pb::Lane::Config));
        let Some(head) = head else { return Vec::new() };
        let same_point =
            head.at.clone().map(Point::from) == self.state.at && self.state.at.is_some();
        let same_state = Digest::from_bytes(&head.digest) == Some(self.state.digest);
        if same_point && !same_state && self.pending.is_none() && !self.resyncing {
            return self.resync("the state differs from the control plane's at the same revision");
        }
        Vec::new()
    }

    fn resync(&mut self, reason: &str) -> Vec<ClientAction> {
        if self.resyncing {
            return vec![reconnect(reason)];
        }
        self.resyncing = true;
        vec![ClientAction::Send(up(Up::Resync(pb::ResyncRequest {
            lane: pb::Lane::Config.into(),
            reason: reason.to_owned(),
        })))]
    }
}

fn up(message: Up) -> pb::DataPlaneMessage {
    pb::DataPlaneMessage { message: Some(message) }
}

fn reconnect(reason: impl Into<String>) -> ClientAction {
    ClientAction::Reconnect(reason.into())
}
