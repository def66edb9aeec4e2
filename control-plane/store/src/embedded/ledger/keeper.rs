//! The thread that takes the ledger's meters to the file, a moment after they changed.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::time::Instant;

use super::{Books, RECOVERY, codec, table};
use crate::{StoreError, embedded::unavailable, ledger::LedgerHealth};

/// How long changes are gathered, and lost at most when the process dies.
const GATHER: Duration = Duration::from_millis(200);
/// Between attempts to write when the disk does not take it.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often meters that nobody asks for any more are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How often old usage is.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// The handle to the thread. Dropping it has everything written, and waits for that.
pub(super) struct Keeper {
    books: Arc<Books>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(books: Arc<Books>) -> Result<Self, StoreError> {
        let now = Instant::now();
        let rounds = Rounds { books: books.clone(), gathered: now, tidied: now, forgotten: None };
        let thread = thread::Builder::new()
            .name("sluicegate-ledger".to_owned())
            .spawn(move || rounds.run())
            .map_err(|error| unavailable(format!("no thread for the ledger: {error}")))?;
        Ok(Self { books, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.books.lock().closing = true;
        self.books.news.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of the embedded ledger panicked");
        }
        self.books.shared.has_ledger.store(false, Ordering::Release);
    }
}

struct Rounds {
    books: Arc<Books>,
    /// When the next changes may be written.
    gathered: Instant,
    tidied: Instant,
    forgotten: Option<Instant>,
}

impl Rounds {
    /// Ends when the ledger is closed.
    fn run(mut self) {
        loop {
            let closing = self.wait();
            self.tell_recovered();
            if closing {
                self.write(true);
                return;
            }
            if self.tidied.elapsed() >= TIDY_EVERY {
                self.tidied = Instant::now();
                self.tidy();
            }
            if self.forgotten.is_none_or(|last| last.elapsed() >= FORGET_EVERY) {
                self.forgotten = Some(Instant::now());
                self.forget();
            }
            if Instant::now() >= self.gathered {
                self.write(false);
            }
        }
    }

    /// Waits until there is something to do. True if the ledger is being closed.
    fn wait(&self) -> bool {
        let mut open = self.books.lock();
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        let mut patience = until(self.tidied + TIDY_EVERY);
        if self.forgotten.is_none() {
            patience = Duration::ZERO;
        }
        if *self.books.health.borrow() == LedgerHealth::Recovering {
            patience = patience.min(until(self.books.time.started + RECOVERY));
        }
        let started = Instant::now();
        while !open.closing {
            let left = patience.saturating_sub(started.elapsed());
            // Nothing to write: as long as it takes. Something: when it was gathered.
            let left = if open.dirty.is_empty() { left } else { left.min(until(self.gathered)) };
            if left.is_zero() {
                break;
            }
            let waited = self.books.news.wait_timeout(open, left);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        open.closing
    }

    fn tell_recovered(&self) {
        let recovered = self.books.time.started.elapsed() >= RECOVERY;
        self.books.health.send_if_modified(|health| {
            let news = recovered && *health == LedgerHealth::Recovering;
            if news {
                *health = LedgerHealth::Ready;
            }
            news
        });
    }

    /// Writes the meters that changed.
    fn write(&mut self, close: bool) {
        let mut open = self.books.lock();
        let texts = std::mem::take(&mut open.dirty);
        if texts.is_empty() && !close {
            return;
        }
        let meters: Vec<(String, Option<Vec<u8>>)> = texts
            .into_iter()
            .map(|text| {
                let bytes = open.meters.get(&text).map(codec::encode);
                (text, bytes)
            })
            .collect();
        drop(open);
        let now_ms = self.books.time.now_ms();
        let file = &self.books.shared.file;
        let outcome = file.write(|txn| table::write_meters(txn, &meters, now_ms, close));
        self.gathered = Instant::now() + GATHER;
        if let Err(error) = outcome {
            tracing::error!(%error, "cannot write the embedded ledger");
            self.gathered = Instant::now() + RETRY_AFTER;
            self.books.lock().dirty.extend(meters.into_iter().map(|(text, _)| text));
        }
    }

    /// Drops meters that are as good as new ones.
    fn tidy(&self) {
        let mut open = self.books.lock();
        let now_ms = self.books.time.now_ms();
        let open = &mut *open;
        open.meters.retain(|text, meter| {
            let kept = meter.keep_until_ms >= now_ms;
            if !kept {
                open.dirty.insert(text.clone());
            }
            kept
        });
    }

    fn forget(&self) {
        let now_ms = self.books.time.now_ms();
        if let Err(error) = self.books.shared.file.write(|txn| table::forget(txn, now_ms)) {
            tracing::error!(%error, "cannot drop old usage from the embedded ledger");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        embedded::EmbeddedStore,
        ledger::{LeaseOp, Ledger, MeterKind, MeterSpec, OnExpiry},
    };

    #[tokio::test]
    async fn meters_that_are_as_good_as_new_leave_memory_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = EmbeddedStore::open(dir.path()).unwrap();
        let ledger = store.ledger().unwrap();
        let spec = MeterSpec {
            kind: MeterKind::Slots,
            capacity: 1,
            on_expiry: OnExpiry::Return,
            ttl_ms: 0,
        };
        let op = |meter: &str| LeaseOp {
            meter: meter.to_owned(),
            spec,
            lease: "l".to_owned(),
            seq: 1,
            charged: 0,
            refunded: 0,
            granted: 0,
            wanted: 1,
            minimum: 0,
            close: false,
            window: 0,
        };
        ledger.lease(&[op("old"), op("new")]).await.unwrap();
        ledger.books.lock().meters.get_mut("old").unwrap().keep_until_ms = 1;
        // What is over is not shown, and begins anew when it is asked for.
        assert_eq!(ledger.meters("", 9).await.unwrap().len(), 1);
        let now = Instant::now();
        let mut rounds =
            Rounds { books: ledger.books.clone(), gathered: now, tidied: now, forgotten: None };
        rounds.write(false);
        rounds.tidy();
        assert_eq!(ledger.books.lock().meters.len(), 1);
        rounds.write(false);
        let found = store.shared.file.write(table::open).unwrap();
        assert_eq!(found.meters.keys().collect::<Vec<_>>(), ["new"]);
        assert!(found.crashed, "it is still open");
    }
}
