//! Leave to send one request with one key.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sluicegate_dialect::{Fault, fault::Level};
use sluicegate_protocol::pool::{CellKey, Permit, State};

use super::{Pool, verdict};
use crate::policy::{Credential, Provider};

/// A key in use. Dropped without a word of how it went, it says nothing of the key.
#[derive(Debug)]
pub struct Pass {
    pool: Arc<Pool>,
    provider: Arc<Provider>,
    credential: Arc<Credential>,
    permit: Permit,
    /// Something was said of how it went.
    told: AtomicBool,
}

impl Pass {
    pub(super) fn new(
        pool: Arc<Pool>,
        provider: Arc<Provider>,
        credential: Arc<Credential>,
        permit: Permit,
    ) -> Self {
        Self { pool, provider, credential, permit, told: AtomicBool::new(false) }
    }

    /// The key.
    pub fn credential(&self) -> &Arc<Credential> {
        &self.credential
    }

    /// The upstream takes the key: its answer has begun.
    pub fn succeeded(&self) {
        self.told.store(true, Ordering::Relaxed);
        self.pool.succeeded(&self.permit);
    }

    /// The attempt failed. `chosen`: the caller made the model's name up, so that an upstream which does
    /// not have it says nothing that others need to know.
    pub fn failed(&self, fault: &Fault, chosen: bool) {
        self.released();
        let Some(verdict) = verdict(fault) else { return };
        if chosen && verdict.state == State::ModelMissing {
            return;
        }
        let model = match verdict.level {
            Level::Pair => self.permit.model.as_str(),
            Level::Key | Level::Account | Level::Nobody => "",
        };
        let mut keys = vec![CellKey::new(&self.credential.name, model)];
        if verdict.level == Level::Account && self.credential.account.is_some() {
            let siblings = self.provider.credentials.iter().filter(|other| {
                other.account == self.credential.account && other.name != self.credential.name
            });
            keys.extend(siblings.map(|other| CellKey::new(&other.name, "")));
        }
        self.pool.failed(&self.provider, &keys, verdict);
    }

    fn released(&self) {
        if !self.told.swap(true, Ordering::Relaxed) {
            self.pool.released(&self.permit);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.released();
    }
}
