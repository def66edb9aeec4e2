//! Flow control of one data plane: how much goes to a target, who goes next, which target, whether and when
//! again, and what is turned away when the data plane itself is short.
//!
//! State without locks, clocks and tasks: it takes what happened and the time, in monotonic milliseconds, and
//! says what to do. Chance is passed in as well.
//!
//! | file | question |
//! |---|---|
//! | [`capacity`] | how much one target may have in flight |
//! | [`queue`] | who waits for it, and whose turn it is |
//! | [`admission`] | both together |
//! | [`gate`] | the same for tasks |
//! | [`choice`] | which of several targets |
//! | [`budget`], [`backoff`] | whether to try again, and when |

pub mod admission;
pub mod backoff;
pub mod budget;
pub mod capacity;
pub mod choice;
pub mod gate;
pub mod queue;

mod class;
mod leaving;
mod size;

pub use class::Class;
pub use size::{SIZES, size_class};
