//! What is said of a meter to the ledger, and what the policy says of it.

use sluicegate_proto::quota::v1 as pb;

use super::Drain;

/// How soon charges are reported, as a part of the time that the meter takes to drain.
const REPORTS_PER_DRAIN: f64 = 20.0;
const REPORT_MS: std::ops::RangeInclusive<u64> = 20..=500;

/// What the policy says of a meter, as far as drawing on it is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Most that is used and reserved at one time.
    pub capacity: u64,
    pub drain: Drain,
}

impl Terms {
    /// How soon charges are reported. Milliseconds.
    pub(super) fn report_ms(&self) -> u64 {
        match self.drain.per_ms() {
            Some(per_ms) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "an interval; casts saturate"
                )]
                let ms = (self.capacity as f64 / per_ms / REPORTS_PER_DRAIN) as u64;
                ms.clamp(*REPORT_MS.start(), *REPORT_MS.end())
            }
            None => *REPORT_MS.end(),
        }
    }
}

/// One operation on its way; absolute totals of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub lease: u64,
    pub seq: u64,
    pub charged: u64,
    pub refunded: u64,
    pub granted: u64,
    pub wanted: u64,
    pub minimum: u64,
    pub close: bool,
    pub window: u64,
}

impl Op {
    /// The wire form.
    #[must_use]
    pub fn to_proto(self, meter: pb::Meter) -> pb::LeaseOp {
        pb::LeaseOp {
            meter: Some(meter),
            lease: self.lease,
            seq: self.seq,
            charged: self.charged,
            refunded: self.refunded,
            granted: self.granted,
            wanted: self.wanted,
            minimum: self.minimum,
            close: self.close,
            window: self.window,
        }
    }
}
