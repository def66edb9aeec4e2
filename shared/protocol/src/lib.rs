//! The brains that both planes share, without I/O: state machines that take an input and the time,
//! and return what to do.
//!
//! [`policy`] carries configuration from a control plane to a data plane: full state, then
//! revision-anchored deltas, one unacknowledged change set at a time, newest wins. [`quota`] holds
//! limits: a data plane's leases, and what it does without them. [`pool`] is what is known of provider
//! keys, and which of them is next. [`breaker`] says which targets are left alone, and how they come back.
//! [`degrade`] is how far service is degraded.

pub mod breaker;
pub mod degrade;
pub mod policy;
pub mod pool;
pub mod quota;
