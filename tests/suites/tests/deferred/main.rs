//! Requests that are kept for later: taken, run, fetched, told, and lost by nobody's death.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail where they panic, and show what they have measured"
)]

mod alone;
mod fleet;
mod kills;
mod refusals;
mod world;
