//! What one request has taken, until it settles.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use sluicegate_journal::{Hold as JournalHold, LeaseTotals};
use sluicegate_model::resource::limit::Dimension;
use sluicegate_protocol::quota::Lease;

use super::{Quota, Standings, meter::Meter};

/// Most that one request is charged: far more than any uses, and far less than is counted exactly.
const MAX_CHARGE: u64 = 1 << 46;

/// What a request has really used, by dimension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Actual {
    pub requests: u64,
    pub tokens: u64,
    pub micro_units: u64,
    pub cost_nano: u64,
}

impl Actual {
    /// What it comes to in one dimension.
    pub fn of(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Requests => self.requests,
            Dimension::Tokens => self.tokens,
            Dimension::Units => self.micro_units,
            Dimension::Cost => self.cost_nano,
            Dimension::Concurrency => 0,
        }
    }
}

/// A part of one lease.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) meter: Arc<Meter>,
    pub(super) lease: Arc<Lease>,
    pub(super) amount: u64,
    /// Charged already, to be corrected.
    pub(super) early: bool,
    /// Its callers see how close they are to it.
    pub(super) shown: bool,
}

/// Everything that one request has taken. Dropped, it has used nothing.
#[derive(Debug, Default)]
pub struct Reservation {
    quota: Option<Arc<Quota>>,
    holds: Vec<Hold>,
    pub standings: Standings,
}

impl Reservation {
    pub(super) fn new(quota: &Arc<Quota>, capacity: usize) -> Self {
        Self {
            quota: Some(quota.clone()),
            holds: Vec::with_capacity(capacity),
            standings: Standings::default(),
        }
    }

    pub(super) fn push(&mut self, hold: Hold) {
        if hold.early {
            hold.lease.balance.charge(hold.amount);
        }
        self.holds.push(hold);
    }

    /// Takes over what another holds.
    pub fn join(&mut self, mut other: Self) {
        self.quota = self.quota.take().or_else(|| other.quota.take());
        self.holds.append(&mut other.holds);
        self.standings.join(other.standings);
    }

    /// Ends it: what was used is charged, the rest is free again. Returns the leases whose charges
    /// must outlive a crash, as they stand now.
    pub fn settle(&mut self, actual: &Actual) -> Vec<LeaseTotals> {
        let mut totals: Vec<LeaseTotals> = Vec::new();
        self.standings = Standings::default();
        for hold in self.holds.drain(..) {
            let used = actual.of(hold.meter.dimension).min(MAX_CHARGE);
            hold.end(used, self.quota.as_ref());
            if hold.shown
                && let Some(standing) = hold.meter.standing()
            {
                self.standings.note(hold.meter.dimension, standing);
            }
            if hold.is_journalled() {
                totals.push(hold.totals());
            }
        }
        totals
    }

    /// Is anything of it written down where it stands?
    pub fn is_journalled(&self) -> bool {
        self.holds.iter().any(Hold::is_journalled)
    }

    /// The leases that an attempt is sent under, for the journal: where they stand, and what is
    /// reserved, of which dimension.
    pub fn journalled(
        &self,
    ) -> impl Iterator<Item = (LeaseTotals, JournalHold, Dimension)> + use<'_> {
        self.holds.iter().filter(|hold| hold.is_journalled()).map(|hold| {
            let reserved = JournalHold { lease: hold.lease.id, amount: hold.amount };
            (hold.totals(), reserved, hold.meter.dimension)
        })
    }
}

impl Hold {
    fn end(&self, used: u64, quota: Option<&Arc<Quota>>) {
        if self.early {
            self.lease.balance.correct(self.amount, used);
        } else {
            self.lease.balance.settle(self.amount, used);
        }
        self.meter.changed.notify_waiters();
        if let Some(quota) = quota.filter(|_| self.meter.is_urgent()) {
            quota.touch(&self.meter);
        }
    }

    /// Where its lease stands, for the journal.
    fn totals(&self) -> LeaseTotals {
        LeaseTotals {
            meter: Bytes::from(self.meter.wire.encode_to_vec()),
            lease: self.lease.id,
            window: self.lease.window(),
            charged: self.lease.balance.charged(),
            granted: 0,
        }
    }

    /// A charge that is only made at the end is lost with the process, unless it is written down.
    /// What was charged early has reached the ledger, or drains by itself before long.
    fn is_journalled(&self) -> bool {
        !self.early && self.meter.dimension != Dimension::Concurrency
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for hold in self.holds.drain(..) {
            hold.end(0, self.quota.as_ref());
        }
    }
}
