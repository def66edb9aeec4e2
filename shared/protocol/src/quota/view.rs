//! What a data plane knows of a meter that others use too.

use sluicegate_proto::quota::v1 as pb;

/// How what was used becomes free again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drain {
    /// Steadily, so much in a millisecond.
    Steady { per_ms: f64 },
    /// As it leaves a window that slides along; about so much in a millisecond.
    Sliding { per_ms: f64 },
    /// All at once, at a time that the ledger tells.
    AtOnce,
    /// Nothing is ever used, only held.
    Never,
}

impl Drain {
    /// What becomes free in a millisecond, for rates.
    pub fn per_ms(&self) -> Option<f64> {
        match self {
            Self::Steady { per_ms } | Self::Sliding { per_ms } => Some(*per_ms),
            Self::AtOnce | Self::Never => None,
        }
    }
}

/// A meter as the ledger last described it. Amounts are in the dimension's smallest unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    pub at_ms: u64,
    pub capacity: u64,
    used: f64,
    reserved: u64,
    /// Leases that were alive.
    pub holders: u32,
    reset_ms: u64,
    /// Of the last answer that gave less than was of use: what would have been, when it will be
    /// there, and whether only reservations stand in its way.
    denied: Option<Denied>,
    pub window: u64,
    window_left_ms: u64,
    drain: Drain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Denied {
    minimum: u64,
    retry_ms: u64,
    only_reserved: bool,
}

impl View {
    /// `minimum`: the smallest increase that was of use to whoever asked.
    pub(super) fn new(at_ms: u64, drain: Drain, minimum: u64, state: &pb::LeaseState) -> Self {
        let used = match drain {
            // The time that it takes to drain says it more exactly than a whole number.
            Drain::Steady { per_ms } => whole_to_f64(state.reset_ms) * per_ms,
            Drain::Sliding { .. } | Drain::AtOnce | Drain::Never => whole_to_f64(state.used),
        };
        let denied = (state.status == pb::LeaseStatus::Denied as i32).then_some(Denied {
            minimum,
            retry_ms: state.retry_ms,
            only_reserved: state.only_reserved,
        });
        Self {
            at_ms,
            capacity: state.capacity,
            used,
            reserved: state.reserved,
            holders: state.holders.max(1),
            reset_ms: state.reset_ms,
            denied,
            window: state.window,
            window_left_ms: state.window_left_ms,
            drain,
        }
    }

    fn age(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }

    /// What is still used, as far as time alone tells; exactly.
    fn used_now(&self, now_ms: u64) -> f64 {
        match self.drain {
            Drain::Steady { per_ms } => {
                (self.used - whole_to_f64(self.age(now_ms)) * per_ms).max(0.0)
            }
            _ if self.reset_ms > 0 && self.age(now_ms) >= self.reset_ms => 0.0,
            Drain::Sliding { .. } | Drain::AtOnce | Drain::Never => self.used,
        }
    }

    /// What is still used, rounded up.
    pub fn used(&self, now_ms: u64) -> u64 {
        // A billionth is the doing of fractions that have no exact form.
        f64_to_whole((self.used_now(now_ms) - 1e-9).ceil())
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
        if let Some(denied) = self.denied.filter(|denied| denied.minimum == amount) {
            return denied.retry_ms.saturating_sub(self.age(now_ms)).max(1);
        }
        let free =
            whole_to_f64(self.capacity) - self.used_now(now_ms) - whole_to_f64(self.reserved);
        let short = (whole_to_f64(amount) - free).max(0.0);
        let wait = match self.drain {
            Drain::Steady { per_ms } | Drain::Sliding { per_ms } if per_ms > 0.0 => {
                f64_to_whole((short / per_ms).ceil())
            }
            Drain::AtOnce => self.window_left_ms.saturating_sub(self.age(now_ms)),
            Drain::Steady { .. } | Drain::Sliding { .. } | Drain::Never => 1_000,
        };
        wait.max(1)
    }

    /// Would `amount` be there if every reservation were given back?
    pub fn fits_without_reservations(&self, now_ms: u64, amount: u64) -> bool {
        match self.denied.filter(|denied| denied.minimum == amount) {
            Some(denied) => denied.only_reserved || self.age(now_ms) >= denied.retry_ms,
            None => self.capacity.saturating_sub(self.used(now_ms)) >= amount,
        }
    }

    /// Was so much refused, and will be until time has passed, whatever others give back?
    pub(super) fn is_refused(&self, now_ms: u64, amount: u64) -> bool {
        self.denied.is_some_and(|denied| {
            denied.minimum <= amount && !denied.only_reserved && self.age(now_ms) < denied.retry_ms
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "amounts are at most 2^52")]
fn whole_to_f64(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate, and nothing here is negative"
)]
fn f64_to_whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(used: u64, reset_ms: u64) -> pb::LeaseState {
        pb::LeaseState { capacity: 1, used, reset_ms, holders: 1, ..pb::LeaseState::default() }
    }

    #[test]
    fn a7_a_part_of_one_that_is_used_is_no_whole_one() {
        // One in two seconds, three quarters drained: used is rounded up to 1.
        let drain = Drain::Steady { per_ms: 0.0005 };
        let view = View::new(0, drain, 1, &state(1, 500));
        assert_eq!((view.used(0), view.free(0), view.retry_ms(0, 1)), (1, 0, 500));
        assert_eq!((view.used(499), view.free(499), view.retry_ms(499, 1)), (1, 0, 1));
        assert_eq!((view.used(500), view.free(500)), (0, 1));
    }

    #[test]
    fn a7_what_the_ledger_said_of_a_refusal_holds_until_its_time() {
        let mut refused = state(1, 900);
        refused.status = pb::LeaseStatus::Denied.into();
        refused.retry_ms = 700;
        let view = View::new(100, Drain::Sliding { per_ms: 0.001 }, 1, &refused);
        assert!(view.is_refused(799, 1) && !view.is_refused(800, 1));
        assert_eq!(view.retry_ms(300, 1), 500);
        assert!(!view.fits_without_reservations(300, 1));
    }
}
