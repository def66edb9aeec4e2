//! The journal as its users see it.

use std::{
    collections::BTreeMap,
    fs::File,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    bounds::{Numbers, Options, Pressure, hard_limit, retention_limit},
    clock::Moment,
    error::JournalError,
    frame::FrameBuf,
    outbox::Outbox,
    record::{Cursor, MAX_APPEND_BYTES, Record, Started},
    recover::{self, Priced, Recovered},
    segment,
    source::Source,
    syncer::Syncer,
};

/// Complaints about the disk are made this often at most.
const COMPLAIN_EVERY_MS: u64 = 60_000;

/// The journal in one folder. Cloning gives another handle; when the last one is dropped everything
/// that was written is on the disk.
#[derive(Debug, Clone)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    _syncer: Arc<Syncer>,
}

/// What the handles and the syncing thread have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    limit: u64,
    pub(crate) sync_every: Duration,
    state: Mutex<State>,
    /// Held through a sync.
    pub(crate) syncing: Mutex<()>,
    /// Something is to be synced, or the thread is to end.
    pub(crate) wake: Condvar,
    bytes: AtomicU64,
    dropped: AtomicU64,
    /// Counts syncs.
    pub(crate) commits: watch::Sender<u64>,
    _lock: File,
}

/// What is changed under the lock.
#[derive(Debug)]
pub(crate) struct State {
    living: Source,
    dead: BTreeMap<u64, Source>,
    /// Something was written since the last sync.
    pub(crate) dirty: bool,
    pub(crate) stop: bool,
    complained: Option<Moment>,
}

impl Journal {
    /// Opens the journal. What dead processes have left is read, their open attempts are ended as
    /// estimates with what `price` says they cost (given the attempt and its output tokens), and all
    /// of that is on the disk when this returns. Blocks; about a second for a full journal.
    ///
    /// # Errors
    /// The folder cannot be used, another process uses it, the incarnation is not new, or not even
    /// the first record can be written.
    pub fn open(
        options: Options,
        price: impl FnMut(&Started, u64) -> Priced,
    ) -> Result<(Self, Recovered), JournalError> {
        let now = Moment::now();
        let lock = recover::take_folder(&options.folder)?;
        let (dead, recovered) = recover::recover(&options, now, price)?;
        let mut living = Source::new(
            &options.folder,
            options.incarnation,
            options.node_id,
            options.segment_bytes,
        );
        let disk = |error| JournalError::Disk { folder: options.folder.clone(), error };
        living.rotate(now).map_err(disk)?;
        let state = State { living, dead, dirty: true, stop: false, complained: None };
        let shared = Arc::new(Shared {
            folder: options.folder.clone(),
            limit: options.limit_bytes,
            sync_every: options.sync_every,
            bytes: AtomicU64::new(state.bytes()),
            state: Mutex::new(state),
            syncing: Mutex::new(()),
            wake: Condvar::new(),
            dropped: AtomicU64::new(recovered.lost),
            commits: watch::Sender::new(0),
            _lock: lock,
        });
        let syncer = Syncer::start(shared.clone()).map_err(disk)?;
        Ok((Self { shared, _syncer: Arc::new(syncer) }, recovered))
    }

    /// Writes these records as one: after a crash all of them are there or none. When this returns
    /// they survive the end of the process, and a few tens of milliseconds later a power cut. Gives
    /// the number of the last event among them.
    ///
    /// Takes some microseconds: one write under a lock. Now and then a new file has to be begun,
    /// which takes about a millisecond with thousands of open attempts.
    ///
    /// # Errors
    /// The journal is more than a tenth over its limit, or the disk refuses. Nothing was written;
    /// the events are counted as dropped.
    pub fn append(&self, records: &[Record<'_>]) -> Result<Option<u64>, JournalError> {
        self.append_at(Moment::now(), records)
    }

    /// [`Journal::append`] at a moment that the caller names.
    ///
    /// # Errors
    /// As there.
    pub fn append_at(
        &self,
        now: Moment,
        records: &[Record<'_>],
    ) -> Result<Option<u64>, JournalError> {
        if records.is_empty() {
            return Ok(None);
        }
        let mut frame = FrameBuf::of(now, records);
        let outcome = self.shared.append(&mut frame, now);
        if let Err(error) = &outcome {
            self.shared.dropped.fetch_add(frame.events(), Ordering::Relaxed);
            self.shared.complain(&mut self.shared.lock(), &error.to_string());
        }
        outcome
    }

    /// A lease of a dead source is closed at the ledger: it is not asked for again.
    ///
    /// # Errors
    /// The disk refuses; the next start will name the lease once more.
    pub fn close_dead_lease(&self, source: u64, lease: u64) -> Result<(), JournalError> {
        let mut state = self.shared.lock();
        let Some(dead) = state.dead.get_mut(&source) else { return Ok(()) };
        let outcome = dead.close_lease(lease, Moment::now());
        self.shared.changed(&mut state);
        outcome.map_err(|error| self.shared.disk(error))
    }

    /// The sources that have something here, the living one first.
    pub fn sources(&self) -> Vec<u64> {
        let state = self.shared.lock();
        [state.living.incarnation].into_iter().chain(state.dead.keys().copied()).collect()
    }

    /// What sends the events of one source. There should be one only.
    ///
    /// # Errors
    /// There is no such source.
    pub fn outbox(&self, source: u64) -> Result<Outbox, JournalError> {
        Outbox::new(self.clone(), source)
    }

    /// Changes whenever more events may be sent.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shared.commits.subscribe()
    }

    /// Returns when everything that was written before the call is on the disk. Blocks.
    pub fn sync(&self) {
        self.shared.sync();
    }

    /// Deletes what is no longer needed at this moment. Happens by itself every second. Blocks.
    pub fn tidy(&self, now: Moment) {
        self.shared.tidy(now);
    }

    /// How full the journal is. Free.
    pub fn pressure(&self) -> Pressure {
        Pressure::of(self.shared.bytes.load(Ordering::Relaxed), self.shared.limit)
    }

    /// Events that could not be written or read again, since the start. Free.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The journal in numbers.
    pub fn numbers(&self, now: Moment) -> Numbers {
        let state = self.shared.lock();
        let mut numbers = Numbers { dropped: self.dropped(), ..Numbers::default() };
        for source in state.sources() {
            numbers.sources += 1;
            numbers.bytes += source.bytes();
            numbers.waiting += source.waiting();
            numbers.open += source.book.open.len() as u64;
            let oldest = source.oldest_waiting.map_or(0, |at| now.since(at));
            numbers.oldest_waiting_ms = numbers.oldest_waiting_ms.max(oldest);
        }
        numbers
    }
}

impl Shared {
    /// Everything under the lock is whole at every moment, so that a panic elsewhere does not matter.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, frame: &mut FrameBuf, now: Moment) -> Result<Option<u64>, JournalError> {
        if frame.len() > MAX_APPEND_BYTES {
            return Err(JournalError::TooLarge(frame.len()));
        }
        let mut state = self.lock();
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes + frame.len() as u64 > hard_limit(self.limit) {
            return Err(JournalError::Full { bytes, limit: self.limit });
        }
        let outcome = state.living.append(frame, now);
        self.changed(&mut state);
        outcome.map_err(|error| self.disk(error))?;
        Ok((frame.events() > 0).then(|| state.living.book.last_seq()))
    }

    /// Files were written: the thread is told, the bytes are counted.
    fn changed(&self, state: &mut State) {
        self.bytes.store(state.bytes(), Ordering::Relaxed);
        if !std::mem::replace(&mut state.dirty, true) {
            self.wake.notify_one();
        }
    }

    fn disk(&self, error: std::io::Error) -> JournalError {
        JournalError::Disk { folder: self.folder.clone(), error }
    }

    /// Says what is wrong, at most once a minute.
    pub(crate) fn complain(&self, state: &mut State, what: &str) {
        let now = Moment::now();
        if state.complained.is_none_or(|last| now.since(last) >= COMPLAIN_EVERY_MS) {
            state.complained = Some(now);
            let dropped = self.dropped.load(Ordering::Relaxed);
            tracing::error!(folder = %self.folder.display(), dropped, "the usage journal: {what}");
        }
    }

    /// Events that cannot be read again are lost for the counters.
    pub(crate) fn lose(&self, events: u64) {
        self.dropped.fetch_add(events, Ordering::Relaxed);
    }

    /// Enters an acknowledgement; gives how far it really reaches. `None`: the source is gone.
    pub(crate) fn acknowledge(&self, source: u64, mut cursor: Cursor) -> Option<u64> {
        let mut state = self.lock();
        let source = state.source_mut(source)?;
        cursor.through = cursor.through.min(source.book.last_seq());
        let through = cursor.through;
        source.acknowledge(cursor);
        Some(through)
    }

    /// Lets go of what is no longer needed, and of acknowledged events before their time when the
    /// journal is nearly full: what was never counted needs the room more.
    pub(crate) fn tidy(&self, now: Moment) {
        let mut gone = Vec::new();
        let mut state = self.lock();
        loop {
            if let Err(error) = state.tidy(now, &mut gone) {
                self.complain(&mut state, &format!("cannot be tidied: {error}"));
                break;
            }
            if state.bytes() < retention_limit(self.limit)
                || !state.sources_mut().any(|source| source.book.retention.release_oldest())
            {
                break;
            }
        }
        self.bytes.store(state.bytes(), Ordering::Relaxed);
        drop(state);
        gone.iter().for_each(|path| segment::remove(path));
    }
}

impl State {
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        [&self.living].into_iter().chain(self.dead.values())
    }

    pub(crate) fn sources_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.dead.values_mut().chain([&mut self.living])
    }

    pub(crate) fn source_mut(&mut self, incarnation: u64) -> Option<&mut Source> {
        if incarnation == self.living.incarnation {
            return Some(&mut self.living);
        }
        self.dead.get_mut(&incarnation)
    }

    /// Is this the source that is being written?
    pub(crate) fn is_living(&self, incarnation: u64) -> bool {
        incarnation == self.living.incarnation
    }

    fn bytes(&self) -> u64 {
        self.sources().map(Source::bytes).sum()
    }

    fn tidy(&mut self, now: Moment, gone: &mut Vec<PathBuf>) -> std::io::Result<()> {
        gone.extend(self.living.tidy(now, false)?);
        for source in self.dead.values_mut() {
            gone.extend(source.tidy(now, true)?);
        }
        self.dead.retain(|_, source| !source.segments.is_empty());
        // Acknowledgements and new segments are brought to the disk like everything else.
        self.dirty = true;
        Ok(())
    }
}
