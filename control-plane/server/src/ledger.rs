//! A ledger whose calls are measured.

use std::sync::Arc;

use bytes::Bytes;
use sluicegate_store::{
    StoreError,
    ledger::{
        Cell, CellChange, Counted, LeaseOp, LeaseState, Ledger, LedgerHealth, MeterView, Note,
        TotalsQuery, UsageBatch, UsageRow,
    },
};
use tokio::{sync::watch, time::Instant};

use crate::metrics::{Call, LedgerMetrics};

/// Passes every call on and tells the metrics how long it took.
#[derive(Debug)]
pub(crate) struct Measured {
    inner: Arc<dyn Ledger>,
    metrics: LedgerMetrics,
}

impl Measured {
    pub(crate) fn new(inner: Arc<dyn Ledger>, metrics: LedgerMetrics) -> Self {
        Self { inner, metrics }
    }

    async fn measure<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let outcome = answer.await;
        self.metrics.called(call, began.elapsed(), &outcome);
        outcome
    }
}

#[tonic::async_trait]
impl Ledger for Measured {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn location(&self) -> String {
        self.inner.location()
    }

    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError> {
        self.measure(Call::Lease, self.inner.lease(ops)).await
    }

    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError> {
        self.measure(Call::Count, self.inner.count(batch)).await
    }

    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError> {
        self.measure(Call::Totals, self.inner.totals(query)).await
    }

    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError> {
        self.measure(Call::Meters, self.inner.meters(prefix, most)).await
    }

    async fn cells(&self, changes: &[CellChange]) -> Result<Vec<Cell>, StoreError> {
        self.measure(Call::Cells, self.inner.cells(changes)).await
    }

    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.measure(Call::Notes, self.inner.notes(put)).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        self.measure(Call::Time, self.inner.now_ms()).await
    }

    fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.inner.health()
    }
}
