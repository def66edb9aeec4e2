//! Circuit breakers: which targets are left alone because they fail, and how they come back.
//!
//! A target is a provider with one of its models. Each data plane has a [`Local`] breaker for each: it
//! counts what calls show, opens at once when that is enough, and works without anybody else. The
//! elected control plane has a [`Fleet`], which merges the [`Window`]s of all nodes: it opens a target
//! for everybody when enough of them agree, lets one probe at a time find out how it does, and brings
//! traffic back in steps. [`Poison`] is about the other side: a request that kills every engine it is
//! sent to. [`Rounds`] are probes that are sent whether or not there is traffic, each by one node for all;
//! what they find ill, the [`Fleet`] has left alone whatever else is seen.
//!
//! ```text
//! closed ⇄ suspect ─▶ open ─▶ half-open ─▶ ramping ─▶ closed
//!                       ▲          │           │
//!                       └──────────┴───────────┘
//! ```
//!
//! Times are milliseconds of the holder's own monotonic clock; between machines only durations travel.
//! There is no hidden randomness: what is spread is spread from a seed.

mod backoff;
mod check;
mod dice;
mod directive;
mod evidence;
mod fleet;
mod forces;
mod history;
mod local;
mod poison;
mod ring;
mod rules;
mod settings;
mod state;
mod target;
mod wire;

pub use check::{Check, CheckRules, Checked, Checkup, Finding, Health, Noted, Rounds, Stand};
pub use directive::{Action, Directive, Forced, Grant, MAX_COMMENT, Order, Window};
pub use fleet::{Fleet, NotTaken, Standing, emptied};
pub use forces::Forces;
pub use local::{Admission, End, Local, Refused, Ticket};
pub use poison::{Blocked, Death, Fingerprint, Poison, Verdict};
pub use ring::Counts;
pub use settings::{Count, Ramp, Rate, Rules, Settings, SettingsError, SlowAfter, Stalls};
pub use state::{Changed, Probe, ProbeResult, Reason, State, Transition};
pub use target::{InvalidName, TargetKey};
pub use wire::{MAX_REPORT, Malformed, Report, Word};
