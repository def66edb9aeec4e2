//! The built binary, from the command line to the exit code.

#![allow(clippy::disallowed_methods, reason = "tests start tasks and processes as they like")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod breaker;
mod change;
mod deferred;
mod degrade;
mod fake;
mod key_pool;
mod ledger;
mod limits;
mod offline;
mod probe;
mod program;
mod read;
mod trouble;
mod upstream;
mod usage;
