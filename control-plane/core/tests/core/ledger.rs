//! A ledger that says what a test tells it to, and remembers what it was asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_protocol::pool::{Cell, Cells, Change};
use sluicegate_store::{
    StoreError,
    ledger::{
        Counted, LeaseOp, LeaseState, LeaseStatus, Ledger, LedgerHealth, MeterKind, MeterView,
        Note, TotalsQuery, UsageBatch, UsageRow,
    },
};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Scripted {
    inner: Mutex<Script>,
    health: watch::Sender<LedgerHealth>,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) now_ms: u64,
    pub(crate) away: bool,
    /// Every call of `lease`, in order.
    pub(crate) leases: Vec<Vec<LeaseOp>>,
    pub(crate) meters: Vec<MeterView>,
    pub(crate) rows: Vec<UsageRow>,
    pub(crate) cells: Cells,
    pub(crate) notes: BTreeMap<String, Bytes>,
    pub(crate) queries: Vec<TotalsQuery>,
    /// How often the time was asked for.
    pub(crate) asked_time: usize,
}

impl Scripted {
    /// One whose time is `now_ms`.
    pub(crate) fn at(now_ms: u64) -> Arc<Self> {
        let script = Script { now_ms, ..Script::default() };
        Arc::new(Self {
            inner: Mutex::new(script),
            health: watch::Sender::new(LedgerHealth::Ready),
        })
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.inner.lock().unwrap()
    }

    fn reached(&self) -> Result<MutexGuard<'_, Script>, StoreError> {
        let script = self.script();
        if script.away {
            return Err(StoreError::Unavailable { store: "scripted", reason: "told so".into() });
        }
        Ok(script)
    }
}

#[async_trait]
impl Ledger for Scripted {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn location(&self) -> String {
        "here".into()
    }

    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError> {
        let mut script = self.reached()?;
        script.leases.push(ops.to_vec());
        let now_ms = script.now_ms;
        Ok(ops.iter().map(|op| granted(op, now_ms)).collect())
    }

    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError> {
        drop(self.reached()?);
        Ok(Counted {
            applied_through: batch.last_seq,
            resend_from: None,
            durable: true,
            lost: 0,
            store: "scripted".into(),
        })
    }

    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError> {
        let mut script = self.reached()?;
        script.queries.push(query.clone());
        Ok(script.rows.clone())
    }

    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError> {
        let script = self.reached()?;
        let matching = script.meters.iter().filter(|view| view.meter.starts_with(prefix));
        Ok(matching.take(most).cloned().collect())
    }

    async fn cells(&self, changes: &[Change]) -> Result<Vec<Cell>, StoreError> {
        let mut script = self.reached()?;
        let now_ms = script.now_ms;
        for change in changes {
            script.cells.change(change, now_ms);
        }
        Ok(script.cells.told(now_ms))
    }

    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError> {
        let mut script = self.reached()?;
        if let Some(note) = put {
            script.notes.insert(note.name.clone(), note.value.clone());
        }
        Ok(script.notes.clone().into_iter().collect())
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        let mut script = self.reached()?;
        script.asked_time += 1;
        Ok(script.now_ms)
    }

    fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.health.subscribe()
    }
}

/// All that is wanted, in the window that the time is in.
fn granted(op: &LeaseOp, now_ms: u64) -> LeaseState {
    let mut state = LeaseState {
        status: LeaseStatus::Granted,
        granted: op.wanted,
        used: op.charged,
        reserved: op.wanted - op.charged,
        holders: 1,
        retry_ms: 0,
        reset_ms: 7,
        window: 0,
        window_left_ms: 0,
        only_reserved: false,
        now_ms,
    };
    if let MeterKind::Calendar { windows } = op.spec.kind {
        let present = windows.iter().find(|one| (one.start_ms..one.end_ms).contains(&now_ms));
        match present {
            Some(present) => {
                (state.window, state.window_left_ms) = (present.id, present.end_ms - now_ms);
            }
            None => state.status = LeaseStatus::OtherWindow,
        }
    }
    state
}
