//! Suites that judge a built gateway from outside, with `sluicegate-testkit`.
//!
//! `cargo build -p sluicegate && cargo test -p sluicegate-suites`. The binary is taken from
//! `target/debug`, or from wherever `SLUICEGATE_BIN` points.
//!
//! - `tests/cases`: faults that users have met, as a table. The table is in `cases/*.json`; the
//!   structs in `tests/cases/{table,request,script,expect}.rs` say what each member means.
//!   `SLUICEGATE_CASES=PART` plays only the cases whose id has that part.
