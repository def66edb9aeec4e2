//! What a node's own health probes say while nobody decides for the fleet.

use super::{
    Local,
    orders::{MAX_FORCED_MS, Orders},
    phase::Phase,
};
use crate::breaker::{Changed, Checked, Order, Reason};

impl Local {
    /// What the node's own health probes say of the target; to be repeated as often as one likes. It
    /// says nothing while the fleet decides, and an operator's word is above it. What is well again
    /// comes back in steps.
    pub fn checked(&mut self, checked: Checked, now_ms: u64) -> Changed {
        let changed = self.tick(now_ms);
        if !self.away {
            return changed;
        }
        let transition = match checked {
            Checked::Ill { left_ms: 0 } => None,
            Checked::Ill { left_ms } => {
                let left_ms = left_ms.min(MAX_FORCED_MS);
                let order = Order::Ill { left_ms };
                let transition =
                    if self.forced.is_none() { self.apply(order, now_ms) } else { None };
                self.orders = Some(Orders { order, until_ms: now_ms.saturating_add(left_ms) });
                transition
            }
            Checked::Spared | Checked::Well if !self.is_ill() => None,
            Checked::Spared | Checked::Well => {
                self.orders = None;
                match (&self.phase, checked) {
                    _ if self.forced.is_some() => None,
                    // Several probes have just gone well: that is more than one would say.
                    (Phase::Open { .. }, Checked::Well) => self.ramp(Reason::HealthBack, now_ms),
                    (Phase::Open { .. }, _) => self.close(Reason::GroupSpent, now_ms),
                    _ => None,
                }
            }
        };
        changed.then(transition.into())
    }

    fn is_ill(&self) -> bool {
        self.orders.is_some_and(|orders| matches!(orders.order, Order::Ill { .. }))
    }
}
