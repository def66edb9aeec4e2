//! The brains that both planes share, without I/O: state machines that take an input and the time,
//! and return what to do.
//!
//! [`policy`] carries configuration from a control plane to a data plane: full state, then
//! revision-anchored deltas, one unacknowledged change set at a time, newest wins. [`quota`] holds
//! limits: a data plane's leases, and what it does without them.

pub mod policy;
pub mod quota;
