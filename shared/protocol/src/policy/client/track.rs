//! One lane of a data plane's session.

use bytes::Bytes;
use sluicegate_proto::policy::v1::{self as pb, data_plane_message::Message as Up};

use super::{ClientAction, Verdict, reconnect, up};
use crate::policy::{
    digest::Digest,
    lane::Lane,
    state::{Body, Change, Key, LaneState, Point},
};

/// Largest change set that is taken in, in bytes. A configuration is far smaller; a peer that goes on
/// and on is none of ours.
const MAX_CHANGE: usize = 512 * 1024 * 1024;

#[derive(Debug)]
struct Partial {
    nonce: u64,
    next_index: u32,
    size: usize,
    change: Change,
}

/// What runs of one lane, and what is on its way there.
#[derive(Debug)]
pub(super) struct Track {
    lane: Lane,
    pub(super) state: LaneState,
    partial: Option<Partial>,
    pending: Option<(u64, Change)>,
    last_nonce: u64,
    /// A full state was asked for; until it comes, deltas are not looked at.
    resyncing: bool,
}

impl Track {
    pub(super) fn new(lane: Lane, state: LaneState) -> Self {
        Self { lane, state, partial: None, pending: None, last_nonce: 0, resyncing: false }
    }

    /// The change set that was to be applied was compiled, or refused.
    pub(super) fn on_verdict(&mut self, verdict: Verdict) -> Vec<ClientAction> {
        let Some((nonce, change)) = self.pending.take() else { return Vec::new() };
        let applied = verdict.refused.is_none();
        if applied {
            self.state.apply(change);
            self.resyncing = false;
        }
        vec![ClientAction::Send(up(Up::Ack(pb::Ack {
            lane: self.lane.to_proto().into(),
            nonce,
            at: self.state.at.as_ref().map(Point::to_proto),
            applied,
            rejected: verdict.rejected,
            digest: Bytes::copy_from_slice(&self.state.digest.to_bytes()),
            error: verdict.refused.unwrap_or_default(),
            apply_us: u32::try_from(verdict.took.as_micros()).unwrap_or(u32::MAX),
        })))]
    }

    pub(super) fn on_chunk(&mut self, chunk: pb::ChangeChunk) -> Vec<ClientAction> {
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
        vec![ClientAction::Apply(self.lane, change)]
    }

    /// Where the control plane stands; what runs here at the same point must be the same.
    pub(super) fn on_head(&mut self, head: &pb::LaneState) -> Vec<ClientAction> {
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
            lane: self.lane.to_proto().into(),
            reason: reason.to_owned(),
        })))]
    }
}
