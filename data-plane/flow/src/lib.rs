//! Flow control of one data plane: how much goes to a target, who goes next, which target, whether and when
//! again, and what is turned away when the data plane itself is short.
//!
//! State without locks, clocks and tasks: it takes what happened and the time, in monotonic milliseconds, and
//! says what to do. Chance is passed in as well.
//!
//! | file | question |
//! |---|---|
//! | [`capacity`] | how much one target may have in flight |

pub mod capacity;

mod size;

pub use size::{SIZES, size_class};
