//! The usage journal of a data plane: what was used is written here before it is reported, and
//! kept until it is counted for good.
//!
//! One folder holds **segments**, files of one *source* each; a source is one start of one data
//! plane. A segment begins with a checkpoint (which attempts are open, what every lease has
//! charged, what was acknowledged), so that older ones may go as soon as their events are counted.
//! What one call of [`Journal::append`] writes is one **frame**: after a crash all of it is there or
//! nothing.
//!
//! What survives what:
//!
//! - kill -9 of the process: everything whose `append` returned. One write has put it into the
//!   kernel's hands.
//! - A power cut: everything but the last few tens of milliseconds, which the group commit had not
//!   reached. Nothing is sent before it is on the disk, so that no number is ever given twice.
//!
//! At the next start [`Journal::open`] ends what a dead process has left open, as estimates, under
//! further numbers of the same source. An [`Outbox`] for each source sends its events, counted from
//! 1 without gaps, and learns from the acknowledgements what may be deleted.

pub mod clock;

mod book;
mod bounds;
mod error;
mod frame;
mod journal;
mod outbox;
mod read;
mod record;
mod recover;
mod retention;
mod segment;
mod source;
mod syncer;

pub use bounds::{DEFAULT_LIMIT_BYTES, Numbers, Options, Pressure};
pub use clock::Moment;
pub use error::JournalError;
pub use journal::Journal;
pub use outbox::{MAX_BATCH_BYTES, MAX_BATCH_EVENTS, Outbox};
pub use record::{Hold, LeaseTotals, Record, Started};
pub use recover::{DeadLease, Interrupted, Priced, Recovered};
