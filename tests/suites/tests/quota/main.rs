//! Limits that the fleet shares and usage that is counted once, on real processes: a control plane,
//! data planes, and a scripted upstream that says what it was asked.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

mod admission;
mod book;
mod cancelled;
mod changes;
mod counting;
mod kinds;
mod long;
mod outages;
mod pacing;
mod providers;
mod refusals;
mod scopes;
mod script;
mod settling;
mod world;
mod wrong;
