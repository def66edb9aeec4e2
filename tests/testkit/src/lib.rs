//! What the suites are made of: a scripted upstream, a byte-exact client, a faulty network and real
//! processes.
//!
//! Nothing here knows how the gateway works inside. Every wait is for an event and has a deadline;
//! no port is fixed; whatever a value started ends when the value is dropped.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run outside the gateway, whose spawn helper counts tasks for its drain"
)]

pub mod client;
pub mod clock;
pub mod cluster;
pub mod coding;
pub mod deadline;
pub mod fault;
pub mod net;
pub mod openai;
pub mod port;
pub mod process;
pub mod providers;
pub mod record;
pub mod redis;
pub mod sse;
pub mod upstream;
