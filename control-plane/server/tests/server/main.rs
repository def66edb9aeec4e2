//! The control plane over loopback, with generated clients and the data plane's own end of the
//! policy stream.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod admin;
mod changes;
mod deferred;
mod doors;
mod fixture;
mod health;
mod node;
mod policy;
mod pool;
mod probe;
mod quota;
mod stop;
mod usage;
mod watch;
