//! Sends the events of one source, as a state machine: batches out, acknowledgements in.

use std::time::Duration;

use sluicegate_proto::usage::v1::{UsageAck, UsageBatch};

use crate::{clock::Moment, error::JournalError, journal::Journal, record::Cursor};

/// Most events of one batch.
pub const MAX_BATCH_EVENTS: usize = 500;
/// Most bytes of one batch, encoded: 256 KiB. A single event that is larger goes alone.
pub const MAX_BATCH_BYTES: usize = 256 << 10;

/// Time between batches without events while acknowledged events are kept: a store that fell back
/// to an older copy can ask for them.
const ALIVE_RETAINED_MS: u64 = 2_000;
/// Time between them otherwise.
const ALIVE_IDLE_MS: u64 = 30_000;
/// First and longest wait after a failure, before jitter.
const BACKOFF_MS: u64 = 100;
const BACKOFF_MAX_MS: u64 = 5_000;

/// The sending end of one source. One batch is in flight at most; whoever takes one says what became
/// of it, with [`Outbox::on_ack`] or [`Outbox::on_failure`].
#[derive(Debug)]
pub struct Outbox {
    journal: Journal,
    source: u64,
    node_id: String,
    /// Number of the next event to be sent.
    next: u64,
    in_flight: Option<InFlight>,
    /// Nothing is sent for this long after that.
    pause: Option<(Moment, u64)>,
    /// In a row, without anything having been counted.
    setbacks: u32,
    last_sent: Option<Moment>,
}

#[derive(Debug)]
struct InFlight {
    /// Number that the batch was to begin with.
    asked: u64,
    first_seq: u64,
    has_events: bool,
}

impl Outbox {
    pub(crate) fn new(journal: Journal, source: u64) -> Result<Self, JournalError> {
        let mut state = journal.shared.lock();
        let found = state.source_mut(source).ok_or(JournalError::NoSource(source))?;
        let (node_id, next) =
            (found.node_id.clone(), found.book.retention.acknowledged().saturating_add(1));
        drop(state);
        Ok(Self {
            journal,
            source,
            node_id,
            next,
            in_flight: None,
            pause: None,
            setbacks: 0,
            last_sent: None,
        })
    }

    /// Incarnation whose events these are.
    pub fn source(&self) -> u64 {
        self.source
    }

    /// Is everything of a dead source counted and deleted? There will be no batch any more.
    pub fn is_over(&self) -> bool {
        self.journal.shared.lock().source_mut(self.source).is_none()
    }

    /// The next batch, if it is time for one. Reads from the disk: blocks for some milliseconds.
    pub fn next_batch(&mut self, now: Moment) -> Option<UsageBatch> {
        if self.in_flight.is_some() || self.pause_left(now) > 0 {
            return None;
        }
        let run = match self.journal.shared.read(self.source, self.next, now) {
            Ok(run) => run?,
            Err(error) => {
                let mut state = self.journal.shared.lock();
                self.journal.shared.complain(&mut state, &format!("cannot be read: {error}"));
                drop(state);
                self.set_back(now);
                return None;
            }
        };
        let nothing_before = run.first_seq > self.next;
        if nothing_before {
            tracing::warn!(
                source = format!("{:016x}", self.source),
                from = self.next,
                to = run.first_seq - 1,
                "the control plane has not counted events that the usage journal has no more"
            );
        }
        if run.events.is_empty() && !nothing_before && self.alive_left(now)? > 0 {
            return None;
        }
        if let Some(oldest) = run.oldest
            && let Some(source) = self.journal.shared.lock().source_mut(self.source)
        {
            source.oldest_waiting = Some(oldest);
        }
        self.in_flight = Some(InFlight {
            asked: self.next,
            first_seq: run.first_seq,
            has_events: !run.events.is_empty(),
        });
        self.last_sent = Some(now);
        Some(UsageBatch {
            node_id: self.node_id.clone(),
            source: self.source,
            first_seq: run.first_seq,
            events: run.events,
            nothing_before,
        })
    }

    /// The batch was answered.
    pub fn on_ack(&mut self, now: Moment, ack: &UsageAck) {
        let Some(flight) = self.in_flight.take() else { return };
        let counted = match ack.resend_from {
            0 => ack.applied_through,
            from => from - 1,
        };
        let cursor =
            Cursor { at: now, through: counted, durable: ack.durable, store: ack.store.clone() };
        let Some(counted) = self.journal.shared.acknowledge(self.source, cursor) else { return };
        self.next = counted.saturating_add(1);
        // A store that does not move on is not to be asked in a tight loop.
        let moved = if flight.has_events {
            self.next > flight.first_seq
        } else {
            self.next >= flight.first_seq
        };
        self.pause = None;
        if moved {
            self.setbacks = 0;
        } else if self.setbacks == 0 {
            // To be asked for older events is no failure the first time.
            self.setbacks = 1;
        } else {
            self.set_back(now);
        }
        let pause = u64::from(ack.pause_ms);
        if pause > self.pause_left(now) {
            self.pause = Some((now, pause));
        }
    }

    /// The batch was not answered: it will be sent again after a while.
    pub fn on_failure(&mut self, now: Moment) {
        let Some(flight) = self.in_flight.take() else { return };
        self.next = flight.asked;
        self.set_back(now);
    }

    /// How long until there may be a batch, if no more events come: [`Journal::commits`] tells when
    /// they do. `None`: not before the one in flight is answered, or never.
    pub fn due_in(&self, now: Moment) -> Option<Duration> {
        if self.in_flight.is_some() {
            return None;
        }
        let left = if self.has_events()? { 0 } else { self.alive_left(now)? };
        Some(Duration::from_millis(left.max(self.pause_left(now))))
    }

    /// Is there something to send? `None`: the source is gone.
    fn has_events(&self) -> Option<bool> {
        let mut state = self.journal.shared.lock();
        let source = state.source_mut(self.source)?;
        // What is missing is to be said, too.
        let missing = source.find(self.next).is_none() && source.book.next_seq > self.next;
        Some(missing || source.find(self.next).is_some_and(|(_, seq)| seq <= source.synced_seq))
    }

    /// Milliseconds until a batch without events is due. `None`: never.
    fn alive_left(&self, now: Moment) -> Option<u64> {
        let mut state = self.journal.shared.lock();
        let is_living = state.is_living(self.source);
        let retention = &state.source_mut(self.source)?.book.retention;
        let every = if retention.acknowledged() > retention.released() {
            ALIVE_RETAINED_MS
        } else if is_living {
            ALIVE_IDLE_MS
        } else {
            return None;
        };
        Some(self.last_sent.map_or(0, |last| every.saturating_sub(now.since(last))))
    }

    fn pause_left(&self, now: Moment) -> u64 {
        self.pause.map_or(0, |(since, ms)| ms.saturating_sub(now.since(since)))
    }

    fn set_back(&mut self, now: Moment) {
        let longest = (BACKOFF_MS << self.setbacks.min(8)).min(BACKOFF_MAX_MS);
        self.setbacks = self.setbacks.saturating_add(1);
        self.pause = Some((now, longest / 2 + fastrand::u64(0..=longest / 2)));
    }
}
