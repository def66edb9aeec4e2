//! Provider keys that are limited, spent or refused, on real processes: control planes, data planes,
//! and an upstream that treats each key as a test says.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

mod fleet;
mod keys;
mod operators;
mod script;
mod world;
