//! What the gateway does about upstreams that fail, are full, slow or away.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail where they panic, and show what they have measured"
)]

mod breaker;
mod faults;
mod fleet;
mod holding;
mod probes;
mod shedding;
mod tasks;
mod world;
