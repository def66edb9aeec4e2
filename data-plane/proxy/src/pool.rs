//! Provider keys as this data plane knows them: which may be sent, which is next, what their upstreams
//! have said.
//!
//! What an upstream says of a key holds here at once and in the fleet a moment later. A choice is a
//! look at memory.

mod client;
mod outbox;
mod pass;
mod verdict;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_protocol::pool::{
    Balance, Cell, CellKey, Cells, Change, Down, Failed, Failure, Permit, Standing, State,
};

use crate::{
    metrics::Metrics,
    policy::{Credential, Provider},
};
use outbox::Outbox;

pub use client::PoolClient;
pub use pass::Pass;
pub use verdict::{Verdict, verdict};

/// Cells that are kept, as in the ledger.
const MAX_CELLS: usize = 20_000;

/// Every provider key.
#[derive(Debug)]
pub struct Pool {
    cells: RwLock<Cells>,
    /// By provider.
    balances: Mutex<HashMap<String, Balance>>,
    outbox: Outbox,
    metrics: Arc<Metrics>,
    node_id: String,
}

impl Pool {
    pub fn new(metrics: Arc<Metrics>, node_id: String) -> Arc<Self> {
        Arc::new(Self {
            cells: RwLock::default(),
            balances: Mutex::default(),
            outbox: Outbox::default(),
            metrics,
            node_id,
        })
    }

    /// Leave to use one of the keys that are untried, by weight among those that are up.
    ///
    /// # Errors
    /// When none is up: why, of the one that callers can hope for soonest. `None`: none is untried.
    pub fn choose(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        untried: &[Arc<Credential>],
        model: &str,
    ) -> Result<Pass, Option<Down>> {
        loop {
            let now_ms = boottime_ms();
            let mut down: Option<Down> = None;
            let mut up = Vec::with_capacity(untried.len());
            {
                let cells = self.read();
                for credential in untried {
                    match cells.standing(&credential.name, model, now_ms) {
                        Standing::Down(one) => down = Some(sooner(down, one)),
                        Standing::Up | Standing::Trial => up.push(credential),
                    }
                }
            }
            let chosen = match up.as_slice() {
                [] => return Err(down),
                // Without others to choose from there is nothing to balance.
                [only] if provider.credentials.len() == 1 => (*only).clone(),
                _ => self.balanced(provider, &up).ok_or(down)?,
            };
            let entered = {
                let cells = self.read();
                match cells.standing(&chosen.name, model, now_ms) {
                    Standing::Up => Some(cells.permit(&chosen.name, model)),
                    Standing::Trial | Standing::Down(_) => None,
                }
            };
            let entered = match entered {
                Some(permit) => Ok(permit),
                None => self.write().enter(&chosen.name, model, now_ms),
            };
            // Another request was faster to try it: then it is down, and the next look says so.
            if let Ok(permit) = entered {
                return Ok(Pass::new(self.clone(), provider.clone(), chosen, permit));
            }
        }
    }

    /// Leave to use the untried key whose rest ends first, where nothing but its upstream's limit of
    /// the rate stands in the way.
    pub fn soonest(
        self: &Arc<Self>,
        provider: &Arc<Provider>,
        untried: &[Arc<Credential>],
        model: &str,
    ) -> Option<Pass> {
        let now_ms = boottime_ms();
        let cells = self.read();
        let resting = untried.iter().filter_map(|credential| {
            match cells.standing(&credential.name, model, now_ms) {
                Standing::Down(down) if down.only_limited => Some((down.left_ms, credential)),
                Standing::Down(_) | Standing::Up | Standing::Trial => None,
            }
        });
        let (_, credential) = resting.min_by_key(|(left_ms, _)| *left_ms)?;
        let permit = cells.permit(&credential.name, model);
        Some(Pass::new(self.clone(), provider.clone(), credential.clone(), permit))
    }

    /// Is any of these keys up?
    pub fn any_up(&self, credentials: &[Arc<Credential>], model: &str) -> bool {
        let (cells, now_ms) = (self.read(), boottime_ms());
        credentials.iter().any(|credential| {
            !matches!(cells.standing(&credential.name, model, now_ms), Standing::Down(_))
        })
    }

    fn balanced(&self, provider: &Provider, up: &[&Arc<Credential>]) -> Option<Arc<Credential>> {
        let all: Vec<_> = provider
            .credentials
            .iter()
            .map(|credential| (credential.name.as_str(), credential.weight))
            .collect();
        let at = |one: &&Arc<Credential>| {
            provider.credentials.iter().position(|known| Arc::ptr_eq(known, one))
        };
        let up: Vec<_> = up.iter().filter_map(at).collect();
        let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        if !balances.contains_key(&provider.name) {
            balances.insert(provider.name.clone(), Balance::default());
        }
        let index = balances.get_mut(&provider.name)?.choose(&all, &up)?;
        provider.credentials.get(index).cloned()
    }

    /// The request that had this leave went well.
    fn succeeded(&self, permit: &Permit) {
        if !self.read().knows(&permit.credential) {
            return;
        }
        let clears = self.write().succeeded(permit, boottime_ms());
        for clear in clears {
            tracing::info!(
                credential = clear.key.credential,
                model = clear.key.model,
                "a provider key works again"
            );
            self.metrics.credential_changed(&clear.key.credential, "up");
            self.outbox.put(Change::Clear(clear));
        }
    }

    /// The request that had this leave has shown nothing of the key.
    fn released(&self, permit: &Permit) {
        if permit.trial {
            self.write().released(permit);
        }
    }

    /// An upstream has said something of these cells.
    fn failed(&self, provider: &Provider, keys: &[CellKey], verdict: Verdict) {
        let Verdict { state, told_ms, reason, .. } = verdict;
        let failure = Failure { state, told_ms, reason, by: self.node_id.clone() };
        let now_ms = boottime_ms();
        let failed: Vec<_> = {
            let mut cells = self.write();
            keys.iter()
                .filter_map(|key| cells.failed(key, &failure, &provider.waits, now_ms))
                .collect()
        };
        for Failed { cell, began } in failed {
            if began {
                self.metrics.credential_changed(&cell.key.credential, state.name());
                tell(&provider.name, &cell);
            }
            self.outbox.put(Change::Merge(cell));
        }
    }

    /// What the fleet knows.
    fn learn(&self, told: &[Cell]) {
        let now_ms = boottime_ms();
        let mut cells = self.write();
        for cell in told {
            if cells.learn(cell, now_ms) {
                tracing::debug!(?cell, "told of a provider key");
            }
        }
    }

    /// The fleet has told everything that it knows: what it lacks is told in return.
    fn answer(&self, told: &[Cell]) {
        let lacking = self.read().lacking(told, boottime_ms());
        lacking.into_iter().for_each(|change| self.outbox.put(change));
    }

    /// Drops what has been remembered long enough.
    fn tidy(&self) {
        let mut cells = self.write();
        cells.forget(boottime_ms());
        cells.shrink(MAX_CELLS);
    }

    fn read(&self) -> RwLockReadGuard<'_, Cells> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Cells> {
        self.cells.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of two keys that are down, the one that callers can hope for: one that only rests before others,
/// then what ends first.
pub fn sooner(one: Option<Down>, other: Down) -> Down {
    let rank = |down: &Down| (down.state != State::Resting || down.operator, down.left_ms);
    match one {
        Some(one) if rank(&one) <= rank(&other) => one,
        _ => other,
    }
}

/// For operators: what somebody has to look after is a warning, once.
fn tell(provider: &str, cell: &Cell) {
    let Cell { key, state, left_ms, strikes, reason, .. } = cell;
    let CellKey { credential, model, .. } = key;
    let state = state.name();
    if cell.state == State::Resting || *strikes > 1 {
        tracing::info!(
            provider,
            credential,
            model,
            state,
            left_ms,
            strikes,
            reason,
            "a provider key"
        );
    } else {
        tracing::warn!(
            provider,
            credential,
            model,
            state,
            left_ms,
            reason,
            "a provider key is out of use until it works again"
        );
    }
}

#[cfg(test)]
mod tests;
