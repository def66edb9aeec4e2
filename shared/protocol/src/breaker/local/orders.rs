//! What the fleet tells a node, and what the node makes of it.

use super::{Local, phase::Phase, probe::Permit};
use crate::breaker::{Changed, Directive, Order, Probe, ProbeResult, Reason, Transition};

/// No directive holds longer without being repeated. Milliseconds.
const MAX_TTL_MS: u64 = 600_000;
/// No operator's word holds longer. Milliseconds.
pub(super) const MAX_FORCED_MS: u64 = 31 * 86_400_000;
/// After so long without a word an older generation is believed: the fleet may count anew.
/// Milliseconds.
const FORGOTTEN_MS: u64 = 30_000;

/// An order in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) order: Order,
    pub(super) until_ms: u64,
}

/// The newest generation that was heard, and how long older ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) generation: u64,
    until_ms: u64,
}

impl Heard {
    fn new(generation: u64, until_ms: u64) -> Self {
        Self { generation, until_ms: until_ms.saturating_add(FORGOTTEN_MS) }
    }

    fn is_newer(self, generation: u64, now_ms: u64) -> bool {
        self.generation > generation && now_ms < self.until_ms
    }
}

impl Local {
    /// Does as the fleet says: its order holds until the time to live is over, and then the node goes
    /// on by itself from there. Repeats change nothing, and what comes late is ignored.
    pub fn obey(&mut self, directive: &Directive, now_ms: u64) -> Changed {
        let changed = self.tick(now_ms);
        let Directive { generation, order, ttl_ms, .. } = *directive;
        if ttl_ms == 0 || self.heard.is_some_and(|heard| heard.is_newer(generation, now_ms)) {
            return changed;
        }
        let longest_ms = if order.is_forced() { MAX_FORCED_MS } else { MAX_TTL_MS };
        let until_ms = now_ms.saturating_add(ttl_ms.min(longest_ms));
        self.heard = Some(Heard::new(generation, until_ms));
        if matches!(order, Order::Ramp { .. }) && self.is_open_by_itself() {
            // Since the ramp began this node has seen what opens a breaker.
            return changed;
        }
        let transition = if self.forced.is_none() { self.apply(order, now_ms) } else { None };
        self.orders = Some(Orders { order, until_ms });
        changed.then(transition.into())
    }

    /// The fleet has nothing more to say: what it said up to this generation is over. What the node
    /// has open by itself stays so.
    pub fn withdraw(&mut self, generation: u64, now_ms: u64) -> Changed {
        let changed = self.tick(now_ms);
        if self.heard.is_some_and(|heard| heard.is_newer(generation, now_ms)) {
            return changed;
        }
        self.heard = Some(Heard::new(generation, now_ms));
        if self.orders.take().is_none() || self.forced.is_some() || self.phase == Phase::Closed {
            return changed;
        }
        changed.then(self.close(Reason::Fleet, now_ms).into())
    }

    /// The fleet lets this node send one probe: the next call is it, whatever the state.
    pub fn grant(&mut self, generation: u64, deadline_ms: u64, now_ms: u64) -> Changed {
        let changed = self.tick(now_ms);
        let old = self.heard.is_some_and(|heard| heard.is_newer(generation, now_ms))
            || self.granted.is_some_and(|granted| {
                granted.generation == generation || granted.is_newer(generation, now_ms)
            });
        if old {
            return changed;
        }
        let deadline_ms = deadline_ms.min(MAX_TTL_MS);
        self.granted = Some(Heard::new(generation, now_ms.saturating_add(deadline_ms)));
        if self.is_forced() {
            let probe = Some(ProbeResult { generation, probe: Probe::Unused });
            return Changed { probe, ..changed };
        }
        self.permits = self.permits.wrapping_add(1);
        self.permit = Some(Permit::granted(self.permits, generation, deadline_ms, now_ms));
        changed
    }

    pub(super) fn is_forced(&self) -> bool {
        self.forced.is_some() || self.orders.is_some_and(|orders| orders.order.is_forced())
    }

    fn is_open_by_itself(&self) -> bool {
        self.is_free() && matches!(self.phase, Phase::Open { .. } | Phase::HalfOpen { .. })
    }

    /// Goes where an order wants it.
    pub(super) fn apply(&mut self, order: Order, now_ms: u64) -> Option<Transition> {
        let used = matches!(self.phase, Phase::Closed | Phase::Suspect { .. });
        if used
            && !order.is_forced()
            && let Some(reason) = self.evidence.is_well(now_ms)
        {
            return self.go(Phase::Suspect { until_ms: now_ms }, reason);
        }
        let forced = self.is_forced();
        match (order, &mut self.phase) {
            (Order::Open { left_ms }, Phase::Open { until_ms }) => {
                *until_ms = now_ms.saturating_add(left_ms.min(MAX_TTL_MS));
                // What the node saw itself tells more.
                if !self.reason.is_seen() {
                    self.reason = Reason::Fleet;
                }
                None
            }
            (Order::Open { left_ms }, _) => {
                self.open(now_ms.saturating_add(left_ms.min(MAX_TTL_MS)), Reason::Fleet)
            }
            (Order::HalfOpen, Phase::HalfOpen { .. }) => None,
            (Order::HalfOpen, _) => self.half_open(Reason::Fleet, now_ms),
            (Order::Ramp { percent }, Phase::Ramping(ramp)) => {
                if ramp.percent != percent {
                    ramp.percent = percent.clamp(1, 100);
                    ramp.since_ms = now_ms;
                }
                None
            }
            (Order::Ramp { percent }, _) => self.ramp_at(percent, Reason::Fleet, now_ms),
            (Order::ForcedOpen { left_ms } | Order::Ill { left_ms }, phase) => {
                let until_ms = now_ms.saturating_add(left_ms.min(MAX_FORCED_MS));
                let ill = matches!(order, Order::Ill { .. });
                let reason = if ill { Reason::Ill } else { Reason::Operator };
                self.permit = None;
                if let Phase::Open { until_ms: end_ms } = phase {
                    *end_ms = until_ms;
                    self.reason = reason;
                    return None;
                }
                self.open(until_ms, reason)
            }
            // A repeat: what is seen meanwhile counts when it ends.
            (Order::ForcedClosed { .. }, Phase::Closed) if forced => None,
            (Order::ForcedClosed { .. }, _) => {
                self.permit = None;
                self.evidence.clear();
                self.close(Reason::Operator, now_ms)
            }
        }
    }
}
