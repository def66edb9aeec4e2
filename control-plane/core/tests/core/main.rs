//! The core over an embedded store: what changes, what is refused, what is told.

mod apply;
mod auth;
mod concurrency;
mod fixture;
mod fleet;
mod history;
mod outage;
mod publish;
mod secrets;
mod state;
