//! What is known of a provider's keys, and which of them is next.
//!
//! A **cell** is one key with one upstream model, or with all of them. It rests, is exhausted, refused
//! or suspended, for as long as the provider says or by a table of waits. [`Cells`] is the table of
//! both planes and of the ledger: what is learned anywhere is merged everywhere, in any order and any
//! number of times, with one result. [`Balance`] spreads requests over the keys that are up.
//!
//! Times are milliseconds of the holder's own clock; between machines only durations travel.

mod balance;
mod cell;
mod cells;
mod permit;
mod record;
mod waits;

pub use balance::Balance;
pub use cell::{Cell, CellKey, Change, Clear, InvalidCell, MAX_REASON, State, short};
pub use cells::{Cells, Down, Standing};
pub use permit::{Failed, Failure, Permit};
pub use record::Record;
pub use waits::{LONGEST_MS, Waits};

/// What has ended or was cleared is remembered for so long: its strikes, and that it was cleared.
/// Milliseconds.
pub const KEPT_MS: u64 = 3_600_000;
