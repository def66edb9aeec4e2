//! The core over an embedded store: what changes, what is refused, what is told.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod apply;
mod auth;
mod breaker;
mod concurrency;
mod election;
mod fixture;
mod fleet;
mod history;
mod ledger;
mod outage;
mod overrides;
mod pool;
mod probe;
mod property;
mod publish;
mod quota;
mod secrets;
mod standing;
mod state;
mod usage;
