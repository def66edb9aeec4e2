//! Where the fleet is with a target.

use crate::breaker::{Probe, State};

/// A probe that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) generation: u64,
    /// Without an answer by then the next node has its turn.
    pub(super) until_ms: u64,
    pub(super) answer: Option<Probe>,
}

/// Where the fleet is with a target, and what is only known there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Closed,
    /// A node tells of a dead engine: another finds out whether that is so.
    Confirming {
        grants: u8,
        granted: Option<Granted>,
    },
    Open {
        until_ms: u64,
    },
    HalfOpen {
        granted: Option<Granted>,
        not_before_ms: u64,
    },
    Ramping {
        percent: u8,
        since_ms: u64,
    },
}

impl Stage {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Confirming { .. } => State::Suspect,
            Self::Open { .. } => State::Open,
            Self::HalfOpen { .. } => State::HalfOpen,
            Self::Ramping { .. } => State::Ramping,
        }
    }

    /// Is the target, or a part of its traffic, left out? Also while it comes back: it may have to go
    /// again.
    pub(super) fn is_ejected(&self) -> bool {
        match self {
            Self::Closed | Self::Confirming { .. } => false,
            Self::Open { .. } | Self::HalfOpen { .. } | Self::Ramping { .. } => true,
        }
    }

    pub(super) fn granted(&mut self) -> Option<&mut Granted> {
        match self {
            Self::Confirming { granted, .. } | Self::HalfOpen { granted, .. } => granted.as_mut(),
            Self::Closed | Self::Open { .. } | Self::Ramping { .. } => None,
        }
    }

    /// The nearer to being closed, the greater.
    pub(super) fn health(&self) -> (u8, u64) {
        match self {
            Self::Closed | Self::Confirming { .. } => (3, 0),
            Self::Ramping { percent, .. } => (2, u64::from(*percent)),
            Self::HalfOpen { .. } => (1, 0),
            Self::Open { until_ms } => (0, u64::MAX - until_ms),
        }
    }
}
