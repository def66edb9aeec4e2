//! A store whose history was set back: a backup was restored, a file copied back.
//!
//! A data plane that proves to have seen a later revision than the store has is the witness. Going on
//! in the same epoch would keep it on what it has until the store has caught up in numbers, with
//! other content; a new epoch makes it take the full state.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sluicegate_protocol::policy::Point;
use sluicegate_store::{ConfigStore, Epoch, StoreError};
use tokio::time::Instant;

/// Shortest time between two renewals, whatever data planes say they have seen.
const PAUSE: Duration = Duration::from_secs(60);

/// Renews the epoch of a store that was set back.
#[derive(Debug)]
pub struct Setback {
    store: Arc<dyn ConfigStore>,
    renewed: Mutex<Option<Instant>>,
}

impl Setback {
    pub fn new(store: Arc<dyn ConfigStore>) -> Self {
        Self { store, renewed: Mutex::new(None) }
    }

    /// Somebody has seen `seen`. If the store itself has not got as far, it begins a new epoch, and
    /// every replica reads it anew. True: it did.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn witnessed(&self, seen: &Point) -> Result<bool, StoreError> {
        let has = self.store.revision().await?;
        // This replica alone is behind.
        if has >= seen.revision || !self.may_renew() {
            return Ok(false);
        }
        self.store.renew_epoch(&Epoch(seen.epoch.clone())).await?;
        tracing::error!(
            store = has,
            witness = seen.revision,
            "the store was set back to an earlier revision; a new epoch begins, and data planes take its state"
        );
        Ok(true)
    }

    fn may_renew(&self) -> bool {
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if renewed.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        *renewed = Some(Instant::now());
        true
    }
}
