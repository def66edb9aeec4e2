//! A data plane's end of limits that the fleet shares: what it holds, when to ask for more, when to
//! give back, what to do while nobody answers.
//!
//! A [`Lease`] is an amount that the control plane has granted to this data plane for a while. Its
//! [`Balance`] is taken from by requests without asking anybody. A [`Holder`] keeps one meter's
//! lease: it says which operation to send next and takes in what came of it. Every number that is
//! sent is an absolute total of the lease, so that lost and repeated messages do no harm.
//!
//! Times are milliseconds of a clock that also runs while the machine sleeps; only differences
//! matter, and only this process's.

mod balance;
mod demand;
mod ended;
mod holder;
mod lease;
mod op;
mod share;
mod view;

pub use balance::{Balance, Taken};
pub use holder::{Answer, Holder};
pub use lease::Lease;
pub use op::{Op, Terms};
pub use share::Share;
pub use view::{Drain, View};

/// A lease is not used any more this long before its time is over, for the sake of clocks that run
/// at different speeds. Milliseconds.
pub const GUARD_MS: u64 = 750;
