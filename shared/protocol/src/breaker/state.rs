//! The states of a breaker, and why it goes from one to another.

use std::fmt;

/// How a target stands, the graver the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Closed,
    /// It gets half of its traffic: half of what opens it has happened, or the fleet has it open and
    /// this node sees it well.
    Suspect,
    /// It gets a growing share of its traffic.
    Ramping,
    /// One probe at a time.
    HalfOpen,
    Open,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Closed, Self::Suspect, Self::Ramping, Self::HalfOpen, Self::Open];

    /// Its place in [`State::ALL`], for metrics.
    pub fn number(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Suspect => 1,
            Self::Ramping => 2,
            Self::HalfOpen => 3,
            Self::Open => 4,
        }
    }

    /// What people and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Suspect => "suspect",
            Self::Ramping => "ramping",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a state changed, or a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    FailuresInARow {
        count: u32,
    },
    FailureRate {
        failed: u32,
        of: u32,
        window_ms: u64,
    },
    SlowRate {
        slow: u32,
        of: u32,
        window_ms: u64,
    },
    SlowInARow {
        count: u32,
        window_ms: u64,
    },
    Stalls {
        stalled: u32,
        of: u32,
        window_ms: u64,
    },
    MemoryErrors {
        count: u32,
        window_ms: u64,
    },
    EngineDead,
    /// A node says that the engine is dead or its memory used up, and a probe or a ramp agrees.
    Confirmed,
    ProbeFailed,
    /// Traffic that came back failed.
    RampFailed {
        failed: u32,
        of: u32,
    },
    /// So many nodes of those with traffic have it open.
    Nodes {
        open: u32,
        of: u32,
    },
    OpenTimeOver,
    ProbeSucceeded,
    /// All traffic is back.
    RampDone,
    /// Nothing speaks against it (any more).
    Well,
    /// The fleet says so.
    Fleet,
    /// The fleet has it open; this node sees it well.
    SplitView {
        answered: u32,
        failed: u32,
    },
    /// An operator says so.
    Operator,
    /// Its health probes fail.
    Ill,
    /// Its health probes go well again.
    HealthBack,
    /// A probe has to succeed first.
    AwaitsProbe,
    /// The call is not of the share that the target gets.
    Share {
        percent: u8,
    },
    /// Too much of a group of targets is left out already.
    GroupSpent,
}

impl Reason {
    /// Does every later call fail, too, until the upstream is restarted?
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::EngineDead | Self::MemoryErrors { .. })
    }
}

impl Reason {
    /// Has the node seen it by itself?
    pub(super) fn is_seen(self) -> bool {
        matches!(
            self,
            Self::FailuresInARow { .. }
                | Self::FailureRate { .. }
                | Self::SlowRate { .. }
                | Self::SlowInARow { .. }
                | Self::Stalls { .. }
                | Self::MemoryErrors { .. }
                | Self::EngineDead
                | Self::RampFailed { .. }
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |window_ms: u64| window_ms.div_ceil(1_000);
        match *self {
            Self::FailuresInARow { count } => write!(f, "{count} calls in a row failed"),
            Self::FailureRate { failed, of, window_ms } => {
                write!(f, "{failed} of {of} calls failed in {} s", seconds(window_ms))
            }
            Self::SlowRate { slow, of, window_ms } => {
                write!(f, "{slow} of {of} first events were slow in {} s", seconds(window_ms))
            }
            Self::SlowInARow { count, window_ms } => {
                write!(f, "{count} calls in a row were slow within {} s", seconds(window_ms))
            }
            Self::Stalls { stalled, of, window_ms } => {
                write!(f, "{stalled} of {of} streams stalled in {} s", seconds(window_ms))
            }
            Self::MemoryErrors { count, window_ms } => {
                write!(f, "{count} calls ran out of memory within {} s", seconds(window_ms))
            }
            Self::EngineDead => f.write_str("the engine is dead"),
            Self::Confirmed => f.write_str("the engine is dead or out of memory, as two nodes saw"),
            Self::ProbeFailed => f.write_str("the probe failed"),
            Self::RampFailed { failed, of } => {
                write!(f, "{failed} of {of} calls failed while traffic came back")
            }
            Self::Nodes { open, of } => write!(f, "{open} of {of} nodes have it open"),
            Self::OpenTimeOver => f.write_str("the open time is over"),
            Self::ProbeSucceeded => f.write_str("the probe succeeded"),
            Self::RampDone => f.write_str("all traffic is back"),
            Self::Well => f.write_str("nothing speaks against it"),
            Self::Fleet => f.write_str("other data planes see it fail"),
            Self::SplitView { answered, failed } => {
                write!(
                    f,
                    "the fleet has it open, here {answered} calls went well and {failed} failed"
                )
            }
            Self::Operator => f.write_str("an operator says so"),
            Self::Ill => f.write_str("its health probes fail"),
            Self::HealthBack => f.write_str("its health probes go well again"),
            Self::AwaitsProbe => f.write_str("a probe has to succeed first"),
            Self::Share { percent } => write!(f, "it gets {percent} % of its traffic so far"),
            Self::GroupSpent => f.write_str("too many targets of its group are left out"),
        }
    }
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    pub from: State,
    pub to: State,
    pub reason: Reason,
}

/// What a probe found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A first event came in time.
    Ok,
    Failed,
    /// It was not sent, or its end says nothing of the target.
    Unused,
}

/// The end of a probe that the fleet granted; to be told to the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeResult {
    /// Of the grant.
    pub generation: u64,
    pub probe: Probe,
}

/// What a step did: to be logged, and told to the control plane at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    pub transition: Option<Transition>,
    pub probe: Option<ProbeResult>,
}

impl Changed {
    /// Did nothing happen?
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Both steps, one after the other.
    pub(super) fn then(self, later: Self) -> Self {
        let transition = match (self.transition, later.transition) {
            (Some(first), Some(last)) => Some(Transition { from: first.from, ..last }),
            (first, last) => last.or(first),
        };
        Self { transition, probe: later.probe.or(self.probe) }
    }
}

impl From<Option<Transition>> for Changed {
    fn from(transition: Option<Transition>) -> Self {
        Self { transition, probe: None }
    }
}
