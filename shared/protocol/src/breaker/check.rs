//! Health probes of targets: what one found, what several in a row come to, and whose turn it is.
//!
//! They are sent whether or not there is traffic, by one node for the whole fleet. (What finds out
//! whether an open target is well again is a [`Probe`](super::Probe), which is something else.)

mod rounds;

use std::time::Duration;

use sluicegate_model::resource::HealthProbe;

use super::TargetKey;
pub use rounds::{Noted, Rounds, Stand};

/// Time until it is noticed that a node is gone, and another has been told to take over. Milliseconds.
const TAKEOVER_MS: u64 = 15_000;

/// How often a target is probed, and what several probes come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckRules {
    pub interval_ms: u64,
    /// So many in a row that go well make it well.
    pub rise: u32,
    /// So many in a row that fail make it ill.
    pub fall: u32,
}

/// What one probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkup {
    Well,
    Ill,
    /// It says nothing of the target: the path is wrong, the key is spent.
    Unclear,
}

/// What probes have come to. Unknown counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    #[default]
    Unknown,
    Well,
    Ill,
}

/// What a node tells of a target that it probes. A newer one takes the place of an older one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Grows with each that the node makes.
    pub seq: u64,
    pub health: Health,
    /// What the last probe found, for people.
    pub reason: String,
}

/// A node is to probe a target for so long; 0: another does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub target: TargetKey,
    pub ttl_ms: u64,
}

/// What a node makes of its own probes while nobody decides for the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// To be left alone, for so long unless it is said again.
    Ill {
        left_ms: u64,
    },
    /// It is ill, but so is everything that could stand in for it.
    Spared,
    Well,
}

impl CheckRules {
    /// As a provider's resource has them.
    #[must_use]
    pub fn of(spec: &HealthProbe) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { interval_ms: ms(spec.interval).max(1), rise: spec.rise, fall: spec.fall }
    }

    /// For how long what was found holds while nothing new is said: as long as another node needs to
    /// take over and to find out. With the usual numbers three intervals and fifteen seconds.
    pub fn held_ms(&self) -> u64 {
        let probes = u64::from(self.rise.max(self.fall));
        self.interval_ms.saturating_mul(probes).saturating_add(TAKEOVER_MS)
    }
}

impl Health {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Well => "well",
            Self::Ill => "ill",
        }
    }
}

/// Counts what probes found in a row.
#[derive(Debug, Clone, Default)]
struct Tally {
    health: Health,
    well: u32,
    ill: u32,
    unclear: u32,
}

impl Tally {
    /// Takes one in. What is unclear neither counts nor breaks a row; but where nothing else comes for
    /// as long as makes a target ill, nothing is known any more.
    fn count(&mut self, checkup: Checkup, rules: &CheckRules) {
        match checkup {
            Checkup::Well => {
                *self = Self { well: self.well.saturating_add(1), ..self.fresh() };
                if self.well >= rules.rise {
                    self.health = Health::Well;
                }
            }
            Checkup::Ill => {
                *self = Self { ill: self.ill.saturating_add(1), ..self.fresh() };
                if self.ill >= rules.fall {
                    self.health = Health::Ill;
                }
            }
            Checkup::Unclear => {
                self.unclear = self.unclear.saturating_add(1);
                if self.unclear >= rules.fall.max(1) {
                    self.health = Health::Unknown;
                }
            }
        }
    }

    fn fresh(&self) -> Self {
        Self { health: self.health, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
