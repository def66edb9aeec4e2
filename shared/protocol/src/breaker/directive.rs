//! What the fleet and its operators say of a target, and what a node tells of it.

use super::{Counts, State, TargetKey};

/// Longest comment of an operator, in characters.
pub const MAX_COMMENT: usize = 200;

/// What a node shall do with a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To be left alone, unless the node sees it well.
    Open { left_ms: u64 },
    /// To be left alone, but for probes that are granted.
    HalfOpen,
    /// To get so much of its traffic.
    Ramp { percent: u8 },
    /// By an operator: to be left alone whatever a node sees.
    ForcedOpen { left_ms: u64 },
    /// By an operator: to be used whatever a node sees.
    ForcedClosed { left_ms: u64 },
    /// By health probes: to be left alone whatever a node sees.
    Ill { left_ms: u64 },
}

impl Order {
    /// Is it to be obeyed whatever a node sees?
    pub fn is_forced(self) -> bool {
        matches!(self, Self::ForcedOpen { .. } | Self::ForcedClosed { .. } | Self::Ill { .. })
    }
}

/// What the fleet says of one target. Durations only: no two clocks are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    pub target: TargetKey,
    /// Grows with every change of the order, and with every probe.
    pub generation: u64,
    pub order: Order,
    /// Holds for so long unless it is repeated. Then the node decides alone.
    pub ttl_ms: u64,
    /// For people.
    pub reason: String,
}

/// What the merger wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To all nodes, and to be stored for the next merger.
    Publish(Directive),
    /// The target is closed for the fleet: takes back what was published up to this generation.
    Withdraw {
        target: TargetKey,
        generation: u64,
    },
    Grant(Grant),
}

/// Leave for one node to send one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub node: String,
    pub target: TargetKey,
    /// Of this probe alone.
    pub generation: u64,
    /// For the first event. It must begin within a quarter of it.
    pub deadline_ms: u64,
}

/// What an operator wants of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forced {
    pub open: bool,
    /// It ends by itself.
    pub left_ms: u64,
    /// Why; cut at [`MAX_COMMENT`] characters.
    pub comment: String,
}

/// What one node sees of one target. A newer one takes the place of an older one, so that it does no
/// harm when it is lost or comes twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Grows with each window that the node makes.
    pub seq: u64,
    pub state: State,
    /// It is so by what the node saw, not by what it was told.
    pub own: bool,
    /// It is open because the engine is dead or its memory used up.
    pub fatal: bool,
    /// The fleet has it open, and the node sees it well.
    pub split: bool,
    /// Of the node's own state.
    pub generation: u64,
    /// The newest generation that it heard from the fleet.
    pub heard: u64,
    /// A call is refused for want of a probe.
    pub waiting: bool,
    pub in_flight: u32,
    /// Of the last 5 seconds.
    pub recent: Counts,
    /// Of the last minute.
    pub long: Counts,
}
