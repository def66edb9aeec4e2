//! What a data plane turns away to stay alive.
//!
//! Pressure is the highest of several gauges, each from 0 to 1, where 1 is what the process cannot stand. It is
//! sampled now and then; a request only looks at the [`Standing`] that came of it. What is done at which
//! pressure is how Envoy's overload manager does it; requests per second say nothing of what a process
//! can stand.

pub mod lag;
pub mod system;

use crate::class::Class;

/// What may run short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gauge {
    /// Bodies and buffers in memory.
    Bodies,
    /// All memory of the process.
    Memory,
    OpenFiles,
    /// How late the runtime's tasks run.
    Lag,
    /// Streams that are open.
    Streams,
    /// The usage journal's place on disk.
    Journal,
}

impl Gauge {
    /// Its name in logs, metrics and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::Memory => "memory",
            Self::OpenFiles => "open_files",
            Self::Lag => "lag",
            Self::Streams => "streams",
            Self::Journal => "journal",
        }
    }
}

/// How much of `most` is used, from 0 to 1. Nothing is known of a gauge without a most (0).
pub fn share(used: u64, most: u64) -> f64 {
    if most == 0 { 0.0 } else { (used as f64 / most as f64).min(1.0) }
}

/// What is done; each level does what those below it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    #[default]
    Calm,
    /// No request is tried again.
    NoRetries,
    /// No batch requests.
    NoBatch,
    /// Default requests by chance, fewer as pressure rises.
    Thinned,
    /// Critical requests only.
    CriticalOnly,
}

impl Level {
    const RISING: [(Self, f64); 4] = [
        (Self::NoRetries, 0.70),
        (Self::NoBatch, 0.80),
        (Self::Thinned, THINNED),
        (Self::CriticalOnly, CRITICAL_ONLY),
    ];

    /// The level that begins at or below such a pressure.
    fn at(pressure: f64) -> Self {
        let reached = Self::RISING.into_iter().rev().find(|(_, from)| pressure >= *from);
        reached.map_or(Self::Calm, |(level, _)| level)
    }
}

const THINNED: f64 = 0.90;
const CRITICAL_ONLY: f64 = 0.95;
/// A level is left when pressure is so much below where it begins.
const SLACK: f64 = 0.05;
/// And was for so long. Milliseconds.
const CALM_FOR_MS: u64 = 1_000;

/// A request that is turned away.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the gateway is short of {}, at {:.0} % of what it stands", gauge.name(), pressure * 100.0)]
pub struct Shed {
    pub gauge: Gauge,
    /// From 0 to 1.
    pub pressure: f64,
}

/// How things stand until the next sample. Small and `Copy`: keep it where requests see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub level: Level,
    /// The gauge that is highest, and how high, from 0 to 1.
    pub gauge: Gauge,
    pub pressure: f64,
}

impl Default for Standing {
    fn default() -> Self {
        Self { level: Level::Calm, gauge: Gauge::Memory, pressure: 0.0 }
    }
}

impl Standing {
    /// Whether requests may be tried again.
    pub fn may_retry(&self) -> bool {
        self.level < Level::NoRetries
    }

    /// Whether a request of such a class comes in, with `random` anything evenly spread.
    ///
    /// # Errors
    /// What is short.
    pub fn admit(&self, class: Class, random: u64) -> Result<(), Shed> {
        let admitted = match class {
            Class::Critical => true,
            Class::Interactive => self.level < Level::CriticalOnly,
            Class::Default => self.level < Level::CriticalOnly && !self.thinned(random),
            Class::Batch => self.level < Level::NoBatch,
        };
        if admitted { Ok(()) } else { Err(Shed { gauge: self.gauge, pressure: self.pressure }) }
    }

    /// From none where thinning begins to all where it ends.
    fn thinned(&self, random: u64) -> bool {
        let part = ((self.pressure - THINNED) / (CRITICAL_ONLY - THINNED)).clamp(0.0, 1.0);
        self.level >= Level::Thinned && (random as f64) < part * u64::MAX as f64
    }
}

/// Turns samples into a standing. A level is entered at once, and left one at a time, when pressure has been
/// clearly below it for a while.
#[derive(Debug, Clone, Default)]
pub struct Pressure {
    standing: Standing,
    below_since_ms: Option<u64>,
}

impl Pressure {
    /// Takes a sample: each gauge from 0 to 1 (what is not a number is not known). About every 100 ms; never
    /// for each request.
    pub fn sample(&mut self, gauges: &[(Gauge, f64)], now_ms: u64) -> Standing {
        let known = gauges.iter().filter(|(_, value)| !value.is_nan());
        let highest = known.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let (gauge, value) = highest.copied().unwrap_or((self.standing.gauge, 0.0));
        let pressure = value.clamp(0.0, 1.0);
        let level = self.level(pressure, now_ms);
        self.standing = Standing { level, gauge, pressure };
        self.standing
    }

    /// How things stand.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    fn level(&mut self, pressure: f64, now_ms: u64) -> Level {
        let before = self.standing.level;
        if Level::at(pressure) >= before {
            self.below_since_ms = None;
            return Level::at(pressure);
        }
        let lower = Level::at(pressure + SLACK);
        if lower >= before {
            self.below_since_ms = None;
            return before;
        }
        let since_ms = *self.below_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) < CALM_FOR_MS {
            return before;
        }
        self.below_since_ms = Some(now_ms);
        let down = Level::RISING.into_iter().rev().map(|(level, _)| level).find(|of| *of < before);
        down.unwrap_or(Level::Calm)
    }
}

#[cfg(test)]
mod tests;
