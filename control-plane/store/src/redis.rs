//! The ledger and the deferred requests of a cluster: Redis. Each operation is one script inside the server, which reads the
//! server's clock; every key that it writes has an expiry.

mod cells;
mod config;
mod deferred;
mod failure;
mod lease;
mod link;
mod meters;
mod notes;
mod scripts;
mod session;
mod usage;

use std::{fmt, sync::Arc};

use ::redis::{Pipeline, RedisResult, aio::MultiplexedConnection};
use async_trait::async_trait;
use bytes::Bytes;
use sluicegate_protocol::pool::{Cell, Change};
use sluicegate_telemetry::task;
use tokio::{sync::watch, task::JoinHandle};

pub use config::{RedisConfig, RedisTimeouts, RedisTls};
pub use deferred::RedisDeferred;
use failure::unexpected;
use link::Link;

use crate::{
    StoreError,
    ledger::{
        Counted, LeaseOp, LeaseState, Ledger, LedgerHealth, MeterView, Note, TotalsQuery,
        UsageBatch, UsageRow, cells::Unreadable, check,
    },
};

const KIND: &str = "redis";
/// As error messages call it.
const NAME: &str = "the Redis ledger";

/// A ledger whose truth is a Redis.
pub struct RedisLedger {
    link: Arc<Link>,
    supervisor: JoinHandle<()>,
    prefix: String,
    location: String,
    unreadable: Unreadable,
}

impl RedisLedger {
    /// Connects, for as long as [`RedisTimeouts::start`] allows. Fails at once when the
    /// configuration is wrong, the server may throw away keys, or the user may not run scripts.
    pub async fn connect(config: RedisConfig) -> Result<Self, StoreError> {
        let servers = config.servers().await?;
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let location = names.join(",");
        let link = Link::start(servers, config.prefix.clone(), config.timeouts).await?;
        let supervisor = task::spawn("redis-ledger", link.clone().supervise());
        let unreadable = Unreadable::default();
        Ok(Self { link, supervisor, prefix: config.prefix, location, unreadable })
    }

    fn pipeline(&self, ops: &[LeaseOp]) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(ops.len());
        for op in ops {
            let phase = self.link.phase(op.spec.ttl_ms);
            let command = lease::command(&self.prefix, &self.link.scripts, op, phase);
            pipeline.add_command(command);
        }
        pipeline.ignore_errors();
        pipeline
    }
}

impl Drop for RedisLedger {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    async fn lease(&self, ops: &[LeaseOp]) -> Result<Vec<LeaseState>, StoreError> {
        check::leases(NAME, ops)?;
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        let pipeline = &self.pipeline(ops);
        let operate = |mut connection: MultiplexedConnection| async move {
            let answers: Vec<RedisResult<Vec<i64>>> = pipeline.query_async(&mut connection).await?;
            answers.into_iter().collect::<RedisResult<Vec<_>>>()
        };
        let (answers, _) = self.link.call(self.link.timeouts.call, operate).await?;
        let states: Option<Vec<LeaseState>> =
            answers.iter().map(|answer| lease::state(answer)).collect();
        let states = states.filter(|states| states.len() == ops.len());
        states.ok_or_else(|| unexpected("an operation of a lease"))
    }

    async fn count(&self, batch: &UsageBatch) -> Result<Counted, StoreError> {
        check::usage(NAME, batch)?;
        let command = &usage::command(&self.prefix, &self.link.scripts, batch);
        let count = |mut connection: MultiplexedConnection| async move {
            command.query_async::<(u64, u64, u64)>(&mut connection).await
        };
        let (counted, session) = self.link.call(self.link.timeouts.call, count).await?;
        let (applied_through, resend_from, lost) = counted;
        Ok(Counted {
            applied_through,
            resend_from: (resend_from > 0).then_some(resend_from),
            durable: false,
            lost,
            store: session.run_id.clone(),
        })
    }

    async fn totals(&self, query: &TotalsQuery) -> Result<Vec<UsageRow>, StoreError> {
        let days = check::days(NAME, query)?;
        let read = |connection| usage::totals(connection, &self.prefix, &days, query.monthly);
        Ok(self.link.call(self.link.timeouts.read, read).await?.0)
    }

    async fn meters(&self, prefix: &str, most: usize) -> Result<Vec<MeterView>, StoreError> {
        let find = |connection| meters::find(connection, &self.prefix, prefix, most);
        Ok(self.link.call(self.link.timeouts.read, find).await?.0)
    }

    async fn cells(&self, changes: &[Change]) -> Result<Vec<Cell>, StoreError> {
        check::cells(NAME, changes)?;
        let command = &cells::command(&self.prefix, &self.link.scripts, changes);
        let ask = |mut connection: MultiplexedConnection| async move {
            command.query_async::<cells::Answer>(&mut connection).await
        };
        let (answer, _) = self.link.call(self.link.timeouts.read, ask).await?;
        Ok(cells::told(answer, &self.unreadable))
    }

    async fn notes(&self, put: Option<&Note>) -> Result<Vec<(String, Bytes)>, StoreError> {
        put.map_or(Ok(()), |note| check::note(NAME, note))?;
        let command = &notes::command(&self.prefix, &self.link.scripts, put);
        let ask = |mut connection: MultiplexedConnection| async move {
            command.query_async::<notes::Answer>(&mut connection).await
        };
        let (answer, _) = self.link.call(self.link.timeouts.read, ask).await?;
        Ok(notes::told(answer))
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        Ok(self.link.call(self.link.timeouts.call, meters::now_ms).await?.0)
    }

    fn health(&self) -> watch::Receiver<LedgerHealth> {
        self.link.health()
    }
}

impl fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger")
            .field("location", &self.location)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
