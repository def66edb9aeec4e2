//! How far an upstream's service is degraded, and for how long that is believed.
//!
//! A [`Machine`] makes levels of readings, in the control plane: each level begins and ends by its own
//! conditions, which must hold for a while; the highest that has begun holds, and what an operator
//! sets outranks them all until it ends. [`Held`] is the other end: a data plane takes the levels it
//! is told for as long as they are repeated, so that a dead control plane lets go. [`effect`] is what
//! they come to for one request. [`Tally`] counts timeouts of tool calls. [`Report`] is what data planes
//! tell of what they see, [`Nodes`] what several of them tell together.
//!
//! Times are milliseconds of the holder's own clock; between machines only durations travel.

mod effect;
mod held;
mod machine;
mod nodes;
mod report;
mod tally;

pub use effect::{Effect, effect};
pub use held::{Directive, Held, MAX_TTL_MS};
pub use machine::{Machine, Manual, Reason, Standing, Transition};
pub use nodes::{Nodes, Seen};
pub use report::{
    InvalidMessage, MAX_BREAKERS, MAX_TENANTS, MAX_TIMEOUTS, Report, TargetBreaker, ToolTimeouts,
};
pub use tally::Tally;
