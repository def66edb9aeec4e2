//! Finding out whether what was written is on the server's disk.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ::redis::{
    Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, aio::MultiplexedConnection,
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::sync::Mutex;

use super::super::{
    config::{RedisConfig, Server},
    link::Link,
};
use crate::StoreError;

/// The mark that is written lives as short.
const MARK_KEPT_MS: u64 = 60_000;

/// Asks, once for all that wait at one time. On a connection of its own, since the server answers
/// nothing else on it until its disk has.
pub(super) struct Sync {
    link: Arc<Link>,
    mark: String,
    /// How many have asked.
    asked: AtomicU64,
    found: Mutex<Found>,
    _supervisor: AbortOnDrop<()>,
}

/// What the last question found out, and for whom.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    through: u64,
    durable: bool,
}

impl Sync {
    pub(super) async fn start(
        servers: Vec<Server>,
        config: &RedisConfig,
    ) -> Result<Self, StoreError> {
        let link = Link::begin(servers, config.prefix.clone(), config.timeouts).await?;
        let supervisor = AbortOnDrop(task::spawn("redis-deferred-sync", link.clone().supervise()));
        let mark = format!("{}d2:{{deferred}}:mark", config.prefix);
        let (asked, found) = (AtomicU64::new(0), Mutex::default());
        Ok(Self { link, mark, asked, found, _supervisor: supervisor })
    }

    /// Is everything that the server answered before this call on its disk?
    pub(super) async fn is_durable(&self) -> bool {
        let mine = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut found = self.found.lock().await;
        if found.through >= mine {
            return found.durable;
        }
        // For all who have been answered until now.
        let through = self.asked.load(Ordering::Acquire);
        let within = self.link.timeouts.deferred;
        let patience_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX) / 2;
        let ask = |connection| self.ask(connection, patience_ms);
        let durable = match self.link.call(within, ask).await {
            Ok((durable, _)) => durable,
            Err(error) => {
                tracing::debug!(%error, "whether deferred requests are on disk is not known");
                false
            }
        };
        *found = Found { through, durable };
        durable
    }

    async fn ask(
        &self,
        mut connection: MultiplexedConnection,
        patience_ms: u64,
    ) -> RedisResult<bool> {
        // The server waits for what this connection has written, which comes after all that is
        // asked about.
        let mut mark = ::redis::cmd("SET");
        mark.arg(&self.mark).arg(1).arg("PX").arg(MARK_KEPT_MS);
        mark.exec_async(&mut connection).await?;
        let mut wait = ::redis::cmd("WAITAOF");
        wait.arg(1).arg(0).arg(patience_ms);
        if let Some((local, _)) = asked::<(u64, u64)>(&wait, &mut connection).await? {
            return Ok(local >= 1);
        }
        for (name, wanted) in [("appendonly", "yes"), ("appendfsync", "always")] {
            let mut config = ::redis::cmd("CONFIG");
            config.arg("GET").arg(name);
            match asked::<(String, String)>(&config, &mut connection).await? {
                Some((_, value)) if value == wanted => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The answer to a command that the server may not know or the user may not use: then none.
async fn asked<T: ::redis::FromRedisValue>(
    command: &Cmd,
    connection: &mut MultiplexedConnection,
) -> RedisResult<Option<T>> {
    match command.query_async(connection).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if is_refused(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_refused(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::NoPerm)
            | ErrorKind::UnexpectedReturnType
    )
}
