//! How far an upstream's service is degraded, and for how long that is believed.
//!
//! A [`Machine`] makes levels of readings, in the control plane: each level begins and ends by its own
//! conditions, which must hold for a while; the highest that has begun holds, and what an operator
//! sets outranks them all until it ends. [`Held`] is the other end: a data plane takes the levels it
//! is told for as long as they are repeated, so that a dead control plane lets go. [`effect`] is what
//! they come to for one request. [`Tally`] counts timeouts of tool calls.
//!
//! Times are milliseconds of the holder's own clock; between machines only durations travel.

mod effect;
mod held;
mod machine;
mod tally;

pub use effect::{Effect, effect};
pub use held::{Directive, Held, MAX_TTL_MS};
pub use machine::{Machine, Manual, Reason, Standing, Transition};
pub use tally::Tally;
