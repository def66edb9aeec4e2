//! Leases that take no more, until the ledger has heard everything of them.

use std::sync::Arc;

use sluicegate_proto::quota::v1::LeaseStatus as Status;

use super::{Lease, op::Op};

/// A lease whose requests run on and on is spoken of so often, so that the ledger does not forget it.
/// Milliseconds.
const REMIND_MS: u64 = 240_000;
/// A lease of a limit that is gone is spoken of so often, and for so long. Milliseconds.
const UNKNOWN_MS: u64 = 5_000;
const UNKNOWN_KEPT_MS: u64 = 600_000;
/// How often leases that are given up are looked after. Milliseconds.
pub(super) const OLD_MS: u64 = 200;

/// A lease that takes no more, until everything of it has been reported.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) lease: Arc<Lease>,
    pub(super) granted: u64,
    pub(super) seq: u64,
    pub(super) in_flight: bool,
    /// What was last acknowledged.
    reported: Option<Said>,
    sent_at_ms: u64,
    /// Since when the control plane does not know the limit.
    unknown_since_ms: Option<u64>,
}

/// What the ledger has been told of a lease that takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    charged: u64,
    refunded: u64,
    /// The lease was closed: nothing of it is held any more.
    closed: bool,
}

impl Old {
    /// A lease that has just been given up, with what was granted under it and the number of its last
    /// operation.
    pub(super) fn new(lease: Arc<Lease>, granted: u64, seq: u64) -> Self {
        Self {
            lease,
            granted,
            seq,
            in_flight: false,
            reported: None,
            sent_at_ms: 0,
            unknown_since_ms: None,
        }
    }

    /// Takes in what came of an operation; true: nothing more is to be said of the lease.
    pub(super) fn on_status(&mut self, now_ms: u64, op: &Op, status: Status) -> bool {
        self.in_flight = false;
        match status {
            Status::Unavailable | Status::Unspecified | Status::Overtaken => false,
            Status::UnknownLimit => {
                // Should the limit come back, what it had reserved must not stay so.
                let since = *self.unknown_since_ms.get_or_insert(now_ms);
                now_ms >= since + UNKNOWN_KEPT_MS
            }
            Status::Granted
            | Status::Partial
            | Status::Denied
            | Status::Expired
            | Status::WindowOver
            | Status::Recovering => {
                self.unknown_since_ms = None;
                let Op { charged, refunded, close: closed, .. } = *op;
                self.reported = Some(Said { charged, refunded, closed });
                // Its window is over, and nobody counts in it any more.
                let gone = status == Status::WindowOver && self.lease.balance.held() == 0;
                gone || self.is_done()
            }
        }
    }

    /// The operation that is due now, if one is.
    pub(super) fn due(&mut self, now_ms: u64) -> Option<Op> {
        let told = self.reported == Some(self.said());
        let pause = match self.unknown_since_ms {
            Some(_) => UNKNOWN_MS,
            None if told => REMIND_MS,
            None => OLD_MS,
        };
        let wait = self.in_flight || now_ms < self.sent_at_ms + pause;
        (!wait).then(|| self.op(now_ms))
    }

    /// It is closed only when nothing of it is held: what is held is still reserved.
    fn said(&self) -> Said {
        let closed = self.lease.balance.held() == 0;
        // Refunds first: a refund that is seen belongs to a charge that is seen.
        let refunded = self.lease.balance.refunded();
        Said { charged: self.lease.balance.charged(), refunded, closed }
    }

    /// An operation that says everything there is to say.
    pub(super) fn op(&mut self, now_ms: u64) -> Op {
        self.seq += 1;
        self.in_flight = true;
        self.sent_at_ms = now_ms;
        let Said { charged, refunded, closed } = self.said();
        Op {
            lease: self.lease.id,
            seq: self.seq,
            charged,
            refunded,
            granted: self.granted,
            wanted: self.granted.max(charged),
            minimum: 0,
            close: closed,
            window: self.lease.window(),
        }
    }

    /// Has everything been said, and is nothing still to come?
    pub(super) fn is_done(&self) -> bool {
        let said = self.said();
        !self.lease.balance.is_open() && said.closed && self.reported == Some(said)
    }
}
