//! The ledger's time, without asking for it each time. Calendar windows and days are told by it, so
//! that no clock of this machine decides when a limit begins anew.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sluicegate_store::{StoreError, ledger::Ledger};
use tokio::time::Instant;

/// How long the last time that was seen is extrapolated. A machine that was suspended has a clock
/// that stood still meanwhile.
const FRESH: Duration = Duration::from_secs(30);

/// The ledger's time as it was last seen, and how long ago that was.
#[derive(Debug)]
pub struct LedgerClock {
    ledger: Arc<dyn Ledger>,
    seen: Mutex<Option<(u64, Instant)>>,
}

impl LedgerClock {
    /// A clock that has seen nothing yet.
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, seen: Mutex::new(None) }
    }

    /// The ledger's time, in milliseconds since the Unix epoch. Asks the ledger when it was not seen
    /// lately.
    ///
    /// # Errors
    /// When it has to be asked and does not answer.
    pub async fn now_ms(&self) -> Result<u64, StoreError> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ms, at)) = seen
            && at.elapsed() < FRESH
        {
            return Ok(ms.saturating_add(millis(at.elapsed())));
        }
        let ms = self.ledger.now_ms().await?;
        self.saw(ms);
        Ok(ms)
    }

    /// An answer of the ledger told its time.
    pub fn saw(&self, ms: u64) {
        let now = Instant::now();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((ms, now));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
