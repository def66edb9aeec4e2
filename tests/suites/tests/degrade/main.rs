//! What is taken away from requests while an upstream suffers: a scripted server whose metrics the tests
//! set, a control plane that reads them, and a data plane that obeys.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail where they panic, and show what they have measured"
)]

mod conditions;
mod levels;
mod operators;
mod outages;
mod polite;
mod world;
