//! What a data plane knows of a meter that others use too.

use sluicegate_proto::quota::v1 as pb;

/// How what was used becomes free again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drain {
    /// Steadily, so much in a millisecond.
    Steady { per_ms: f64 },
    /// All at once, at a time that the ledger tells.
    AtOnce,
    /// Nothing is ever used, only held.
    Never,
}

/// A meter as the ledger last described it. Amounts are in the dimension's smallest unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    pub at_ms: u64,
    pub capacity: u64,
    used: u64,
    reserved: u64,
    /// Leases that were alive.
    pub holders: u32,
    reset_ms: u64,
    retry_ms: u64,
    pub window: u64,
    window_left_ms: u64,
    drain: Drain,
}

impl View {
    pub(super) fn new(at_ms: u64, drain: Drain, state: &pb::LeaseState) -> Self {
        Self {
            at_ms,
            capacity: state.capacity,
            used: state.used,
            reserved: state.reserved,
            holders: state.holders.max(1),
            reset_ms: state.reset_ms,
            retry_ms: state.retry_ms,
            window: state.window,
            window_left_ms: state.window_left_ms,
            drain,
        }
    }

    fn age(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }

    /// What is still used, as far as time alone tells.
    pub fn used(&self, now_ms: u64) -> u64 {
        match self.drain {
            Drain::Steady { per_ms } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "an estimate; casts saturate"
                )]
                let drained = (self.age(now_ms) as f64 * per_ms) as u64;
                self.used.saturating_sub(drained)
            }
            Drain::AtOnce if self.reset_ms > 0 && self.age(now_ms) >= self.reset_ms => 0,
            Drain::AtOnce | Drain::Never => self.used,
        }
    }

    /// Granted to data planes and not charged, this one included.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Neither used nor granted to anybody.
    pub fn free(&self, now_ms: u64) -> u64 {
        self.capacity.saturating_sub(self.used(now_ms)).saturating_sub(self.reserved)
    }

    /// When nothing will be used any more. Milliseconds.
    pub fn reset_ms(&self, now_ms: u64) -> u64 {
        self.reset_ms.saturating_sub(self.age(now_ms))
    }

    /// When `amount` may be free, if it is not, and no reservation is given back. Milliseconds; at
    /// least 1.
    pub fn retry_ms(&self, now_ms: u64, amount: u64) -> u64 {
        let short = amount.saturating_sub(self.free(now_ms));
        let wait = match self.drain {
            Drain::Steady { per_ms } if per_ms > 0.0 => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "an estimate; casts saturate"
                )]
                let ms = (short as f64 / per_ms).ceil() as u64;
                ms
            }
            Drain::AtOnce if self.window_left_ms > 0 => {
                self.window_left_ms.saturating_sub(self.age(now_ms))
            }
            Drain::Steady { .. } | Drain::AtOnce | Drain::Never => {
                self.retry_ms.saturating_sub(self.age(now_ms))
            }
        };
        wait.max(1)
    }

    /// Would `amount` be there if every reservation were given back?
    pub fn fits_without_reservations(&self, now_ms: u64, amount: u64) -> bool {
        self.capacity.saturating_sub(self.used(now_ms)) >= amount
    }
}
