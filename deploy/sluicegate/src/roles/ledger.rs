//! The ledger that a control plane counts limits and usage in, and the store of deferred requests
//! beside it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_store::{
    StoreError,
    deferred::{Deferred, DeferredLimits},
    embedded::EmbeddedStore,
    ledger::{
        Cell, CellChange, Counted, LeaseOp, LeaseState, Ledger, LedgerHealth, MeterView, Note,
        TotalsQuery, UsageBatch, UsageRow,
    },
    redis::{RedisConfig, RedisDeferred, RedisLedger, RedisTls},
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{sync::watch, time::sleep};

use super::{RedisArgs, state};

/// How long the start waits for a Redis before it goes on without.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between later attempts to reach it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The ledger in the file of an embedded store.
///
/// # Errors
/// When the file cannot be used.
pub(super) fn of(store: &EmbeddedStore) -> anyhow::Result<Arc<dyn Ledger>> {
    Ok(Arc::new(store.ledger().context("the ledger cannot be opened")?))
}

/// Deferred requests in the file of an embedded store.
///
/// # Errors
/// When the file cannot be used.
pub(super) fn deferred_of(store: &EmbeddedStore) -> anyhow::Result<Arc<dyn Deferred>> {
    let jobs = store.deferred(DeferredLimits::default());
    Ok(Arc::new(jobs.context("the deferred requests cannot be opened")?))
}

/// Deferred requests in the Redis that the options name; `None`: they name none. One that does not
/// answer now is used as soon as it does.
///
/// # Errors
/// When the options make no sense, or the Redis is not fit.
pub(super) async fn shared_deferred(args: &RedisArgs) -> anyhow::Result<Option<Arc<dyn Deferred>>> {
    let Some(config) = config(args) else { return Ok(None) };
    let jobs = RedisDeferred::connect(config, DeferredLimits::default()).await;
    Ok(Some(Arc::new(jobs.context("--redis cannot be used")?)))
}

/// The Redis that the options name; `None`: they name none. One that does not answer now is used as
/// soon as it does: policy has to flow meanwhile.
///
/// # Errors
/// When the options make no sense, or the Redis is not fit to be a ledger.
pub(super) async fn shared(args: &RedisArgs) -> anyhow::Result<Option<Arc<dyn Ledger>>> {
    let Some(config) = config(args) else { return Ok(None) };
    match RedisLedger::connect(config.clone()).await {
        Ok(ledger) => Ok(Some(Arc::new(ledger))),
        Err(error @ StoreError::Unavailable { .. }) => {
            tracing::warn!(%error, "starting without the ledger; limits are held as without one");
            Ok(Some(Arc::new(Late::start(config, &error))))
        }
        Err(error) => Err(error).context("--redis cannot be used"),
    }
}

fn config(args: &RedisArgs) -> Option<RedisConfig> {
    if args.redis.is_empty() {
        return None;
    }
    let mut config = RedisConfig::new(args.redis.iter().cloned());
    config.prefix.clone_from(&args.redis_prefix);
    config.password = state::token_from_env("SLUICEGATE_REDIS_PASSWORD")
        .map(|password| password.expose().to_owned());
    if args.redis_ca_file.is_some() || args.redis_cert.is_some() {
        config.tls = Some(RedisTls {
            ca: args.redis_ca_file.clone(),
            identity: args.redis_cert.clone().zip(args.redis_key.clone()),
        });
    }
    config.timeouts.start = PATIENCE;
    Some(config)
}

/// A Redis that has not answered yet.
#[derive(Debug)]
struct Late {
    shared: Arc<Waiting>,
    _connecting: AbortOnDrop<()>,
}

#[derive(Debug)]
struct Waiting {
    ledger: OnceLock<RedisLedger>,
    health: watch::Sender<LedgerHealth>,
}

impl Late {
    fn start(config: RedisConfig, error: &StoreError) -> Self {
        let away = LedgerHealth::Away(error.to_string());
        let shared =
            Arc::new(Waiting { ledger: OnceLock::new(), health: watch::Sender::new(away) });
        let connecting = shared.clone().connect(config);
        Self { shared, _connecting: AbortOnDrop(task::spawn("redis-connect", connecting)) }
    }

    fn ledger(&self) -> Result<&RedisLedger, StoreError> {
        self.shared.ledger.get().ok_or_else(|| {
            let reason = "it has not answered since the start".to_owned();
            StoreError::Unavailable { store: "the Redis ledger", reason }
        })
    }
}

impl Waiting {
    /// Connects, and from then on tells the health that the ledger tells.
    async fn connect(self: Arc<Self>, config: RedisConfig) {
        let ledger = loop {
            sleep(RETRY_AFTER).await;
            match RedisLedger::connect(config.clone()).await {
                Ok(ledger) => break self.ledger.get_or_init(|| ledger),
                Err(error) => {
                    if !matches!(error, StoreError::Unavailable { .. }) {
                        tracing::error!(%error, "--redis cannot be used; trying again");
                    }
                    self.health.send_replace(LedgerHealth::Away(error.to_string()));
                }
            }
        };
        tracing::info!(location = ledger.location(), "the ledger answers");
        let mut health = ledger.health();
        loop {
            self.health.send_replace(health.borrow_and_update().clone());
            if health.changed().await.is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl Ledger for Late {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn location(&self) -> String {
        self.ledger().map_or_else(|_| "not reached yet".to_owned(), Ledger::location)
    }

    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError> {
        self.ledger()?.lease(ops).await
    }

    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError> {
        self.ledger()?.count(batch).await
    }

    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError> {
        self.ledger()?.totals(query).await
    }

    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError> {
        self.ledger()?.meters(prefix, most).await
    }

    async fn cells(&self, changes: &[CellChange]) -> Result<Vec<Cell>, StoreError> {
        self.ledger()?.cells(changes).await
    }

    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.ledger()?.notes(put).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        self.ledger()?.now_ms().await
    }

    fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.shared.health.subscribe()
    }
}
