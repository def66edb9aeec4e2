//! What was used: written down before a caller has its answer, reported until it is counted.

mod report;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use sluicegate_journal::{Journal, LeaseTotals, Moment, Numbers, Pressure, Record, Started};
use sluicegate_proto::usage::v1::UsageEvent;

pub use report::{Reporting, recovered_price};

use crate::metrics::Metrics;

/// Where usage is written down.
#[derive(Debug)]
pub struct UsageLog {
    journal: Journal,
    last_request: AtomicU64,
    /// Held while a charge is made and written down: totals of a lease that are written must not hold
    /// a charge whose own event is still to be written, or a crash between would count it twice.
    settling: Mutex<()>,
    metrics: Arc<Metrics>,
}

impl UsageLog {
    pub fn new(journal: Journal, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            journal,
            last_request: AtomicU64::new(0),
            settling: Mutex::new(()),
            metrics,
        })
    }

    /// A number for a request, of this start of the process.
    pub fn next_request(&self) -> u64 {
        self.last_request.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Nobody else settles while the guard lives. Not to be held across an await.
    pub fn settling(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must new requests be refused, because what they use could not be written down?
    pub fn is_full(&self) -> bool {
        self.journal.pressure() == Pressure::Full
    }

    /// An attempt is about to be sent.
    pub fn started(&self, started: &Started, leases: &[LeaseTotals]) {
        let mut records: Vec<_> = leases.iter().map(Record::LeaseTotals).collect();
        records.push(Record::Started(started));
        self.append(&records);
    }

    /// An attempt has cost nothing.
    pub fn dropped(&self, request: u64, attempt: u32) {
        self.append(&[Record::Dropped { request, attempt }]);
    }

    /// An attempt has used this, and its leases stand so.
    pub fn used(&self, request: u64, event: &UsageEvent, leases: &[LeaseTotals]) {
        let mut records: Vec<_> = leases.iter().map(Record::LeaseTotals).collect();
        records.push(Record::Event { request, event });
        self.append(&records);
    }

    /// What running streams have brought so far: request, attempt, tokens of output.
    pub fn progress(&self, running: &[(u64, u32, u64)]) {
        for running in running.chunks(1_000) {
            let records: Vec<_> = running
                .iter()
                .map(|(request, attempt, output_tokens)| Record::Progress {
                    request: *request,
                    attempt: *attempt,
                    output_tokens: *output_tokens,
                })
                .collect();
            self.append(&records);
        }
    }

    /// Leases as they stand after charges that no event tells of.
    pub fn leases_stand(&self, leases: &[LeaseTotals]) {
        if !leases.is_empty() {
            let records: Vec<_> = leases.iter().map(Record::LeaseTotals).collect();
            self.append(&records);
        }
    }

    /// Leases that nothing more will be charged to.
    pub fn leases_over(&self, leases: &[u64]) {
        let records: Vec<_> =
            leases.iter().map(|lease| Record::LeaseClosed { lease: *lease }).collect();
        if !records.is_empty() {
            self.append(&records);
        }
    }

    /// Waits until everything is reported, or the time is over.
    pub async fn flush(&self, patience: std::time::Duration) {
        let drained = async {
            while self.numbers().waiting > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(patience, drained).await.is_err() {
            tracing::info!("some usage is still to be reported; the next start sends it");
        }
    }

    /// How it stands.
    pub fn numbers(&self) -> Numbers {
        self.journal.numbers(Moment::now())
    }

    fn append(&self, records: &[Record<'_>]) {
        // What could not be written is counted by the journal, and said in its log.
        if let Err(error) = self.journal.append(records) {
            tracing::debug!(%error, "the usage journal takes nothing");
            self.metrics
                .usage_dropped
                .set(i64::try_from(self.journal.dropped()).unwrap_or(i64::MAX));
        }
    }
}
