//! What an operator has put into the policy: it holds without any control plane.

use super::{
    Local,
    orders::{MAX_FORCED_MS, Orders},
    phase::Phase,
};
use crate::breaker::{Changed, Order, Reason, Transition};

impl Local {
    /// The policy wants it open or closed whatever anybody sees, for `left_ms`; `None`: it does not
    /// (any more). To be repeated as often as one likes. What was open is tried by a probe first.
    pub fn force(&mut self, forced: Option<(bool, u64)>, now_ms: u64) -> Changed {
        let changed = self.tick(now_ms);
        let Some((open, left_ms)) = forced.filter(|(_, left_ms)| *left_ms > 0) else {
            return changed.then(self.unforced(now_ms).into());
        };
        let left_ms = left_ms.min(MAX_FORCED_MS);
        let order =
            if open { Order::ForcedOpen { left_ms } } else { Order::ForcedClosed { left_ms } };
        let transition = self.apply(order, now_ms);
        self.forced = Some(Orders { order, until_ms: now_ms.saturating_add(left_ms) });
        changed.then(transition.into())
    }

    /// The policy's word is over: orders hold again, or the node goes on by itself.
    pub(super) fn unforced(&mut self, now_ms: u64) -> Option<Transition> {
        self.forced.take()?;
        match (self.orders, &self.phase) {
            (Some(orders), _) => self.apply(orders.order, now_ms),
            (None, Phase::Open { .. }) => self.half_open(Reason::OpenTimeOver, now_ms),
            (None, _) => None,
        }
    }

    /// Nobody tells it what to do.
    pub(super) fn is_free(&self) -> bool {
        self.orders.is_none() && self.forced.is_none()
    }
}
