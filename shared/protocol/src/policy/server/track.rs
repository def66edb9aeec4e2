//! One lane of a control plane's session: what the follower runs of it, and what is on its way.

use std::time::Duration;

use sluicegate_proto::policy::v1 as pb;

use super::{
    Close, MAX_LISTED, MAX_TEXT, ServerAction, Standing, chunks::chunks, cut, protocol, send,
};
use crate::policy::{
    Now,
    digest::Digest,
    lane::Lane,
    publisher::{Publisher, Pull},
    state::Point,
};

/// What the fleet view says of a follower that keeps its state before an empty store.
const WIPE: &str = "runs the configuration of another store, and this control plane's store is \
     empty: it was lost, or is the wrong one. The data plane serves on; apply a configuration to \
     replace what it has";

#[derive(Debug)]
struct InFlight {
    nonce: u64,
    to: Point,
    digest: Digest,
    full: bool,
    since: Now,
}

#[derive(Debug)]
pub(super) struct Track {
    lane: Lane,
    /// Does the follower know the lane?
    known: bool,
    pub(super) standing: Standing,
    digest: Digest,
    in_flight: Option<InFlight>,
    last_nonce: u64,
    /// The next change set must be a full state.
    resync: bool,
    behind_since: Option<Now>,
}

impl Track {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            lane,
            // Every build knows it.
            known: lane == Lane::Config,
            standing: Standing::default(),
            digest: Digest::default(),
            in_flight: None,
            last_nonce: 0,
            resync: false,
            behind_since: None,
        }
    }

    /// The follower says what it runs.
    pub(super) fn on_hello(&mut self, held: pb::LaneState) {
        self.known = true;
        self.digest = Digest::from_bytes(&held.digest).unwrap_or_default();
        self.standing.at = held.at.map(Point::from);
    }

    /// When the change set on its way, or a follower that is ahead, has been waited for long enough.
    pub(super) fn deadline(&self, ack: Duration, behind: Duration) -> Option<Now> {
        let ack = self.in_flight.as_ref().map(|sent| sent.since + ack);
        let behind = self.behind_since.map(|since| since + behind);
        ack.into_iter().chain(behind).min()
    }

    pub(super) fn is_unanswered(&self, now: Now, ack: Duration) -> bool {
        self.in_flight.as_ref().is_some_and(|sent| now >= sent.since + ack)
    }

    /// Why the stream ends, if the follower was ahead of this replica for so long.
    pub(super) fn is_behind(
        &self,
        now: Now,
        patience: Duration,
        publisher: &Publisher,
    ) -> Option<Close> {
        self.behind_since.filter(|since| now >= *since + patience).map(|_| Close::Behind {
            follower: self.standing.at.as_ref().map_or(0, |at| at.revision),
            replica: publisher.head().revision,
        })
    }

    pub(super) fn on_resync(&mut self) {
        self.resync = true;
        self.in_flight = None;
    }

    /// Returns whether the fleet's view changed.
    pub(super) fn on_ack(&mut self, ack: pb::Ack, actions: &mut Vec<ServerAction>) -> bool {
        if ack.nonce > self.last_nonce {
            actions.push(protocol("acknowledges what was never sent"));
            return false;
        }
        // Anything but the change set in flight is an echo of an earlier one.
        let Some(sent) = self.in_flight.take_if(|sent| sent.nonce == ack.nonce) else {
            return false;
        };
        let standing = &mut self.standing;
        if ack.applied {
            self.digest = sent.digest;
            standing.at = Some(sent.to);
            standing.rejected = ack.rejected;
            standing.rejected.truncate(MAX_LISTED);
            standing.rejected.iter_mut().for_each(|entry| cut(&mut entry.reason, MAX_TEXT));
            standing.error.clear();
            standing.refused = None;
            self.resync = false;
            if Digest::from_bytes(&ack.digest) != Some(sent.digest) {
                if sent.full {
                    actions.push(protocol("holds another state than it was sent in full"));
                    return false;
                }
                self.resync = true;
            }
        } else {
            standing.error = ack.error;
            cut(&mut standing.error, MAX_TEXT);
            standing.refused = Some(sent.to);
            self.resync = false;
        }
        true
    }

    /// Sends the next change set if one is due and none is on its way. Returns whether the fleet's view
    /// changed.
    pub(super) fn push(
        &mut self,
        now: Now,
        publisher: &Publisher,
        actions: &mut Vec<ServerAction>,
    ) -> bool {
        if !self.known || self.in_flight.is_some() {
            return false;
        }
        let standing = &mut self.standing;
        if would_wipe(standing, publisher) {
            if standing.error == WIPE {
                return false;
            }
            WIPE.clone_into(&mut standing.error);
            return true;
        }
        // The same bytes would be refused again: wait for a newer revision.
        if !self.resync && standing.refused.as_ref() == Some(publisher.head()) {
            return false;
        }
        let pulled = if self.resync {
            Pull::Change(publisher.full())
        } else {
            publisher.pull(standing.at.as_ref(), self.digest)
        };
        let stale = standing.at.as_ref().is_some_and(|at| {
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
                actions.extend(chunks(self.lane, change, self.last_nonce).into_iter().map(send));
            }
        }
        false
    }
}

/// Would the follower lose everything to a store in which nothing was ever applied? Such a store is one
/// that was lost, or the wrong one. The first change that is applied ends the doubt.
fn would_wipe(standing: &Standing, publisher: &Publisher) -> bool {
    let head = publisher.head();
    head.revision == 0 && standing.at.as_ref().is_some_and(|at| at.epoch != head.epoch)
}
