//! Flow control of one data plane: how much goes to a target, who goes next, which target,
//! and what is turned away when the data plane itself is short.
//!
//! All but [`gate`] and [`pressure::system`] is plain state: it takes what happened and the time, in monotonic
//! milliseconds, and says what to do. Chance is passed in as well. Locks, clocks and tasks are the caller's;
//! [`gate::Gate`] is the one that has them, around an [`admission::Admission`].
//!
//! | file | question |
//! |---|---|
//! | [`capacity`] | how much one target may have in flight |
//! | [`queue`] | who waits for it, and whose turn it is |
//! | [`admission`] | both together |
//! | [`gate`] | the same for tasks |
//! | [`choice`] | which of several targets |
//! | [`pressure`] | what is shed to protect the process |

pub mod admission;
pub mod capacity;
pub mod choice;
pub mod gate;
pub mod pressure;
pub mod queue;

mod class;
mod leaving;
mod size;

pub use class::Class;
pub use size::{SIZES, size_class};
