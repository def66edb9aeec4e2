//! One call to a target, and how it ends.

use crate::breaker::history::Size;

/// Which permit a probe has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PermitId {
    pub(super) id: u64,
    /// The generation that the fleet granted.
    pub(super) granted: Option<u64>,
}

/// Leave to send one call, and what is remembered of it until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub(super) generation: u64,
    pub(super) permit: Option<PermitId>,
    pub(super) started_ms: u64,
    pub(super) slow_after_ms: u64,
    pub(super) size: Size,
    pub(super) first_ms: Option<u64>,
    pub(super) late: bool,
}

impl Ticket {
    /// Does the breaker wait for this call?
    pub fn is_probe(&self) -> bool {
        self.permit.is_some()
    }

    /// The generation of the fleet's grant by which it is a probe.
    pub fn granted(&self) -> Option<u64> {
        self.permit.and_then(|permit| permit.granted)
    }

    /// Of the breaker's state when it was let in.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When it was let in, by the breaker's clock.
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// A first event that takes longer is slow. Milliseconds.
    pub fn slow_after_ms(&self) -> u64 {
        self.slow_after_ms
    }
}

/// How a call ended, as far as a target's breaker is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Success,
    /// No connection, a server error, or a reset before the first event.
    Hard,
    /// No first event came in time.
    TimedOut,
    /// The stream stopped for too long.
    Stalled,
    /// The stream ended without a reason.
    Truncated,
    /// The upstream said that its memory is used up.
    OutOfMemory,
    /// The upstream said that its engine is dead.
    EngineDead,
    /// The upstream limits the rate: concerns the key. Only a probe takes it for a failure.
    RateLimited,
    /// The caller's fault, the key's fault, a caller who left, or a call that was not sent.
    Neutral,
}

impl End {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Success,
        Self::Hard,
        Self::TimedOut,
        Self::Stalled,
        Self::Truncated,
        Self::OutOfMemory,
        Self::EngineDead,
        Self::RateLimited,
        Self::Neutral,
    ];
}
