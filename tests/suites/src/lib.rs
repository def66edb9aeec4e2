//! Suites that judge a built gateway from outside, with `sluicegate-testkit`.
//!
//! `cargo build -p sluicegate && cargo test -p sluicegate-suites`. The binary is taken from
//! `target/debug`, or from wherever `SLUICEGATE_BIN` points.
//!
//! - `tests/cases`: faults that users have met, as a table. The table is in `cases/*.json`; the
//!   structs in `tests/cases/{table,request,script,expect}.rs` say what each member means.
//!   `SLUICEGATE_CASES=PART` plays only the cases whose id has that part.
//! - `tests/sdk`: the official OpenAI SDKs against a gateway that was started without configuration.
//! - `tests/sdk_providers`: the official SDKs of the providers against the fakes that other suites
//!   use in their place.
//! - `tests/cluster`: etcd, a control plane and three data planes, while parts of them are changed,
//!   cut off, frozen and killed.
//! - `tests/quota`: limits and usage: what is admitted, what is said, what is counted, through crashes
//!   and outages, on one and several data planes.
//! - `tests/pool`: provider keys that are limited, spent, refused, and how the fleet shares what it
//!   knows of them, through crashes of everything.
//! - `tests/probe`: what `sluicegate probe` says of sound and of broken upstreams, and what saving that
//!   changes for callers.
//! - `tests/durability`: kill -9 during a stream of changes. `SLUICEGATE_APPLIES=N` makes it longer.
//! - `tests/start`: wrong input at start and in requests, and what is said about it.
//! - `src/bin/fleet`: measures how fast changes reach data planes under traffic; no test.
//! - `src/bin/ledger`: measures limits and usage under load and faults; no test.
//! - `src/bin/immune`: measures what becomes of traffic while upstreams are dead, full, limited or behind
//!   bad networks; no test.
//!
//! What several of them need is here.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run outside the gateway, whose spawn helper counts tasks for its drain"
)]

pub mod admin;
pub mod config;
pub mod report;
pub mod sdk;
