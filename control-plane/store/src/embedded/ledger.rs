//! The ledger of a single machine. Meters live in memory and are written to the file a moment
//! later; usage is durable when it is answered.

mod cells;
mod codec;
mod keeper;
mod notes;
mod table;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_protocol::pool::{Cell, Change};
use sluicegate_telemetry::clock;
use tokio::{sync::watch, time::Instant};

use super::{EmbeddedStore, NAME, Shared, blocking, table as store_table};
use crate::{
    StoreError,
    ledger::{
        Counted, LeaseOp, LeaseState, Ledger, LedgerHealth, MeterView, Note, TotalsQuery,
        UsageBatch, UsageRow, check,
        meter::{Meter, Phase},
    },
};
use cells::KeptCells;
use keeper::Keeper;
use notes::Notes;

/// After a crash: how long reports are taken and nothing is given.
const RECOVERY: Duration = Duration::from_secs(2);

/// A ledger in the file of an [`EmbeddedStore`].
///
/// Dropping it writes what is not written yet. A process that dies before that loses the changes
/// of a fraction of a second; the next one then recovers from what data planes report.
pub struct EmbeddedLedger {
    books: Arc<Books>,
    /// Dropped with the ledger, and waits then.
    _keeper: Keeper,
}

/// What the ledger and the thread that writes for it have in common.
struct Books {
    shared: Arc<Shared>,
    open: Mutex<Open>,
    cells: KeptCells,
    notes: Notes,
    /// There is something to write, or nothing more to come.
    news: Condvar,
    health: watch::Sender<LedgerHealth>,
    time: Time,
    /// The process before did not close the ledger.
    crashed: bool,
    /// Identity of the file.
    id: String,
}

#[derive(Default)]
struct Open {
    meters: HashMap<String, Meter>,
    /// Meters that are not in the file as they are here.
    dirty: HashSet<String>,
    closing: bool,
}

/// The ledger's own time: the wall clock's when it was opened, and from then on the monotonic
/// clock's, so that a clock that is set ends and opens no window.
#[derive(Debug, Clone, Copy)]
struct Time {
    start_ms: u64,
    started: Instant,
}

impl Time {
    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(passed)
    }
}

impl EmbeddedStore {
    /// Opens the ledger in the store's file; there can be one at a time. Blocks while it is read.
    pub fn ledger(&self) -> Result<EmbeddedLedger, StoreError> {
        if self.shared.has_ledger.swap(true, Ordering::AcqRel) {
            let reason = "its ledger is open already; use that one".to_owned();
            return Err(StoreError::Misconfigured { store: NAME, reason });
        }
        let opened = Books::open(self.shared.clone()).and_then(|books| {
            let books = Arc::new(books);
            let keeper = Keeper::start(books.clone())?;
            Ok(EmbeddedLedger { books, _keeper: keeper })
        });
        if opened.is_err() {
            self.shared.has_ledger.store(false, Ordering::Release);
        }
        opened
    }
}

impl Books {
    fn open(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let found = shared.file.write(table::open)?;
        let id = format!("{:?}", shared.file.read(store_table::epoch)?);
        for meter in &found.unreadable {
            tracing::error!(meter, "a meter in the state file cannot be read and starts anew");
        }
        // The ledger's time begins when everything is read.
        let cells = KeptCells::open(&shared.file)?;
        let time = Time { start_ms: clock::unix_ms().max(found.time_ms), started: Instant::now() };
        let health = if found.crashed { LedgerHealth::Recovering } else { LedgerHealth::Ready };
        let dirty = found.unreadable.into_iter().collect();
        Ok(Self {
            shared,
            open: Mutex::new(Open { meters: found.meters, dirty, closing: false }),
            cells,
            notes: Notes::default(),
            news: Condvar::new(),
            health: watch::Sender::new(health),
            time,
            crashed: found.crashed,
            id,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the meters can be trusted, for leases that live `ttl_ms`.
    fn phase(&self, ttl_ms: u64) -> Phase {
        let passed = self.time.started.elapsed();
        if !self.crashed || passed >= RECOVERY + Duration::from_millis(ttl_ms) {
            Phase::Normal
        } else if passed >= RECOVERY {
            Phase::Settling
        } else {
            Phase::Recovering
        }
    }

    fn lease(&self, ops: &[LeaseOp]) -> Vec<LeaseState> {
        let mut open = self.lock();
        let now_ms = self.time.now_ms();
        let mut operate = |op: &LeaseOp| {
            let phase = self.phase(op.spec.ttl_ms);
            let Open { meters, dirty, .. } = &mut *open;
            let state = match meters.get_mut(&op.meter) {
                Some(meter) if meter.keep_until_ms >= now_ms => meter.apply(now_ms, op, phase),
                _ => {
                    let mut meter = Meter::default();
                    let state = meter.apply(now_ms, op, phase);
                    meters.insert(op.meter.clone(), meter);
                    state
                }
            };
            if !dirty.contains(&op.meter) {
                dirty.insert(op.meter.clone());
            }
            state
        };
        let states = ops.iter().map(&mut operate).collect();
        drop(open);
        self.news.notify_one();
        states
    }

    fn meters(&self, prefix: &str, most: usize) -> Vec<MeterView> {
        let open = self.lock();
        let now_ms = self.time.now_ms();
        let found = open
            .meters
            .iter()
            .filter(|(text, meter)| text.starts_with(prefix) && meter.keep_until_ms >= now_ms);
        let mut views: Vec<MeterView> =
            found.map(|(text, meter)| meter.view(text, now_ms)).collect();
        drop(open);
        views.sort_by(|a, b| a.meter.cmp(&b.meter));
        views.truncate(most);
        views
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    fn kind(&self) -> &'static str {
        super::KIND
    }

    fn location(&self) -> String {
        self.books.shared.file.path().display().to_string()
    }

    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError> {
        check::leases(NAME, ops)?;
        Ok(self.books.lease(ops))
    }

    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError> {
        check::usage(NAME, batch)?;
        let (books, batch) = (self.books.clone(), batch.clone());
        blocking(move || {
            let now_ms = books.time.now_ms();
            books.shared.file.write(|txn| table::count(txn, &batch, now_ms, books.id.clone()))
        })
        .await
    }

    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError> {
        let days = check::days(NAME, query)?;
        let (books, query) = (self.books.clone(), query.clone());
        blocking(move || books.shared.file.read(|txn| table::totals(txn, &query, &days))).await
    }

    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError> {
        Ok(self.books.meters(prefix, most))
    }

    async fn cells(&self, changes: &[Change]) -> Result<Vec<Cell>, StoreError> {
        check::cells(NAME, changes)?;
        let (books, changes) = (self.books.clone(), changes.to_vec());
        blocking(move || books.cells.change(&changes, books.time.now_ms(), &books.shared.file))
            .await
    }

    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError> {
        put.map_or(Ok(()), |note| check::note(NAME, note))?;
        Ok(self.books.notes.exchange(put, self.books.time.now_ms()))
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        Ok(self.books.time.now_ms())
    }

    fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.books.health.subscribe()
    }
}

impl fmt::Debug for EmbeddedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.books.shared.file.path();
        f.debug_struct("EmbeddedLedger").field("file", &file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall clock may stand before the newest time that was seen: time goes on from there, as
    /// fast as the monotonic clock goes, whatever the wall clock does.
    #[tokio::test]
    async fn a13_time_goes_on_from_the_newest_that_was_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = EmbeddedStore::open(dir.path()).unwrap();
        drop(store.ledger().unwrap());
        let newest_ms = clock::unix_ms() + 3_600_000;
        let write = |txn| table::write_meters(txn, &[], newest_ms, true);
        store.shared.file.write(write).unwrap();
        let opened = Instant::now();
        let ledger = store.ledger().unwrap();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let passed = ledger.now_ms().await.unwrap() - newest_ms;
            assert!(u128::from(passed) <= opened.elapsed().as_millis(), "{passed}");
        }
        assert!(ledger.now_ms().await.unwrap() >= newest_ms + 60);
    }
}
