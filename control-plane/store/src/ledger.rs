//! The contract of a ledger: limits that a whole fleet draws on, and counters of what was used.
//!
//! One meter counts one limit for one subject. Data planes hold leases on it: a lease is granted an
//! amount, charges part of it, gives the rest back. A ledger keeps, for every meter, what was used
//! and what is granted but not charged yet (`reserved`), and never grants more than
//! `capacity - used - reserved`. Every number that a data plane sends is an absolute total of its
//! lease, so that repeating an operation changes nothing.
//!
//! Time is the store's own and only ever moves forward. No caller's clock is asked.

pub(crate) mod cells;
pub(crate) mod check;
pub(crate) mod counter;
pub mod meter;
pub(crate) mod usage;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
pub use sluicegate_protocol::pool::{Cell, Change as CellChange};
use tokio::sync::watch;

use crate::StoreError;

/// How a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterKind {
    /// What was used drains steadily, `amount` in `window_ms`; up to the capacity at once.
    Bucket { amount: u64, window_ms: u64 },
    /// What was used in the present window and, in proportion, in the one before: the two-counter
    /// approximation of a window that slides.
    Sliding { window_ms: u64 },
    /// Counts from nothing in each window. Two windows are given: the one that the store's time is
    /// thought to be in, and the one after it.
    Calendar { windows: [CalendarWindow; 2] },
    /// Things in use at one time. Nothing is ever charged.
    Slots,
}

/// A window of a calendar, on the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalendarWindow {
    /// Grows from window to window; never 0.
    pub id: u64,
    /// Milliseconds since the Unix epoch; inclusive.
    pub start_ms: u64,
    /// Exclusive.
    pub end_ms: u64,
}

/// What becomes of a lease that its data plane stopped refreshing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExpiry {
    /// What is left of it is free again. Charges that are reported later count nevertheless.
    Return,
    /// What is left of it stays reserved: until the charges are reported and the lease is closed,
    /// or until the calendar window ends; a meter without one keeps it for a day.
    Hold,
}

/// The rules of one meter, as the configuration has them now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterSpec {
    pub kind: MeterKind,
    /// Most that is used and reserved at one time; at most [`MAX_AMOUNT`].
    pub capacity: u64,
    pub on_expiry: OnExpiry,
    /// How long a lease lives without being refreshed.
    pub ttl_ms: u64,
}

/// Largest amount that a ledger counts exactly: Redis' scripts have numbers of 53 bits.
pub const MAX_AMOUNT: u64 = 1 << 52;

/// One operation of one lease on one meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOp {
    /// Which meter: a text of at most 1024 bytes, the same wherever it is asked for.
    pub meter: String,
    pub spec: MeterSpec,
    /// Which lease: unique over all data planes and their restarts.
    pub lease: String,
    /// Grows with every operation of the lease.
    pub seq: u64,
    /// Charged under the lease, in all.
    pub charged: u64,
    /// Taken back of what was charged, in all. Merged as the charge is, by its growth, whatever the
    /// lease's state: `used` falls by it, not below 0 (sliding: first the present window's, then the
    /// one before), and nothing becomes part of the lease's grant again. A lease that the store has
    /// lost is adopted with it.
    pub refunded: u64,
    /// Granted under the lease, in all, as far as its holder knows.
    pub granted: u64,
    /// What the grant is to become.
    pub wanted: u64,
    /// A smaller increase is of no use.
    pub minimum: u64,
    /// Ends the lease.
    pub close: bool,
    /// The calendar window of the lease; 0: the present one, or no calendar.
    pub window: u64,
}

/// What became of a [`LeaseOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    /// As wanted; for `close`: closed.
    Granted,
    /// Less than wanted.
    Partial,
    /// Nothing more than before.
    Denied,
    /// The lease has expired or was closed. Its charge was counted.
    Expired,
    /// The lease belongs to a window that is over. Its charge was not counted: it belongs there.
    WindowOver,
    /// The store's time is in neither of the windows given; nothing was done. Compute them anew from
    /// [`LeaseState::now_ms`] and ask again.
    OtherWindow,
    /// A later operation of the lease was there before; only the charge was counted.
    Overtaken,
    /// The store may have lost grants a moment ago: reports are taken, nothing is given.
    Recovering,
}

/// Where a lease and its meter stand after a [`LeaseOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseState {
    pub status: LeaseStatus,
    /// Granted under the lease, in all.
    pub granted: u64,
    /// Rounded up.
    pub used: u64,
    pub reserved: u64,
    /// Leases that are alive.
    pub holders: u32,
    /// When the minimum (at least 1) would be there if no reservation were given back; 0: now.
    pub retry_ms: u64,
    /// When the meter would be at nothing if no more were charged.
    pub reset_ms: u64,
    /// The present calendar window; 0 for others.
    pub window: u64,
    pub window_left_ms: u64,
    /// Without the reservations the minimum would be there.
    pub only_reserved: bool,
    /// The store's time.
    pub now_ms: u64,
}

/// Events of one source that are to be counted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageBatch {
    /// One start of one data plane, at most 256 bytes.
    pub source: String,
    pub first_seq: u64,
    /// `first_seq - 1` for a batch without events.
    pub last_seq: u64,
    /// What comes before `first_seq` no longer exists: the cursor may jump over it.
    pub nothing_before: bool,
    /// What the events come to.
    pub rows: Vec<UsageRow>,
}

/// What was used by one combination of names on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    pub day: Day,
    pub names: UsageNames,
    pub counts: UsageCounts,
}

/// A day of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    pub year: i16,
    /// From 1.
    pub month: i8,
    /// From 1.
    pub day: i8,
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Whom usage is counted for. Empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageNames {
    pub tenant: String,
    pub key: String,
    pub model: String,
    pub provider: String,
    pub credential: String,
}

/// Counters, each of which only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCounts {
    /// Attempts that were counted.
    pub requests: u64,
    /// Those of them whose tokens were estimated.
    pub estimated: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    /// Millionths of a unit.
    pub micro_units: u64,
    /// Nano-dollars.
    pub cost_nano: u64,
}

/// What became of a [`UsageBatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Everything of the source up to here is counted.
    pub applied_through: u64,
    /// Nothing was counted: send from here on.
    pub resend_from: Option<u64>,
    /// What is counted survives a crash of the store.
    pub durable: bool,
    /// How many events the cursor jumped over, because nobody has them any more.
    pub lost: u64,
    /// Identity of the store's running process.
    pub store: String,
}

/// Which counters are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotalsQuery {
    /// First and last day, both included.
    pub from: Day,
    pub to: Day,
    /// Answers by whole months instead of days; `from` and `to` then name their months.
    pub monthly: bool,
}

/// A meter, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterView {
    pub meter: String,
    /// As the latest operation had it.
    pub capacity: u64,
    pub used: u64,
    pub reserved: u64,
    pub holders: u32,
    /// Until it is at nothing.
    pub reset_ms: u64,
}

/// Most cells of provider keys that are kept. Of more, those that upstreams made and that end first
/// go.
pub const MAX_CELLS: usize = 20_000;

/// Something that one replica tells the others for a while. It is lost when the store's process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Takes the place of the one before of this name. At most 256 bytes.
    pub name: String,
    /// At most [`MAX_NOTE_BYTES`].
    pub value: Bytes,
    /// How long it is told, by the store's time: 1 to [`MAX_NOTE_MS`].
    pub ttl_ms: u64,
}

/// Most notes that are kept. Of more, those that end first go.
pub const MAX_NOTES: usize = 64;
/// Largest note, in bytes.
pub const MAX_NOTE_BYTES: usize = 1 << 20;
/// Longest life of a note, in milliseconds.
pub const MAX_NOTE_MS: u64 = 60_000;

/// Can the ledger be used?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerHealth {
    Ready,
    /// It answers, but may have lost its latest grants.
    Recovering,
    /// It does not answer; the reason.
    Away(String),
}

/// Limits and usage of the fleet. Every call ends within its own deadline, and fails at once while
/// the store is known to be away.
#[async_trait]
pub trait Ledger: Send + Sync + fmt::Debug {
    /// Short name for messages: `redis` or `embedded`.
    fn kind(&self) -> &'static str;

    /// Where the state lives, for people, without credentials.
    fn location(&self) -> String;

    /// Does the operations, each atomically by itself, and answers each in turn.
    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError>;

    /// Counts a batch, unless it was counted: counters and the source's cursor move together.
    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError>;

    /// Reads counters. Rows of one day (or month, whose rows name its first day) and one
    /// combination of names are added up. No order is promised.
    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError>;

    /// Meters whose text begins with `prefix`, at most `most` of them. For people: it may look at
    /// every meter there is.
    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError>;

    /// Does the changes in turn, atomically together, and tells every cell of a provider key that is
    /// kept then; without changes it only tells. What has ended is kept for an hour.
    async fn cells(&self, changes: &[CellChange]) -> Result<Vec<Cell>, StoreError>;

    /// Puts a note, if one is given, and tells names and values of all that have not ended, in no
    /// order.
    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError>;

    /// The store's time in milliseconds since the Unix epoch.
    async fn now_ms(&self) -> Result<u64, StoreError>;

    /// Its health, now and as it changes.
    fn health(&self) -> watch::Receiver<LedgerHealth>;
}
