//! A cluster of real processes (etcd, one control plane, three data planes) while parts of it are
//! changed, cut off, frozen and killed.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run outside the gateway, and what goes wrong in a helper fails its test"
)]

mod catching_up;
mod changes;
mod outages;
mod poison;
mod traffic;
mod without_etcd;
mod world;
