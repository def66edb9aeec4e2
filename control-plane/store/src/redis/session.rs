//! One connection, and what is found out on it before it is used.

use std::time::Duration;

use ::redis::{
    AsyncConnectionConfig, ErrorKind, RedisError, RedisResult, ServerErrorKind,
    aio::MultiplexedConnection, pipe,
};
use tokio::time::{Instant, timeout};

use super::{
    config::Server,
    failure::{misconfigured, reason, store_error, unavailable},
    scripts::Scripts,
};
use crate::StoreError;

/// The note of the data's epoch lives as long as anything else that is kept.
const NOTE_KEPT_MS: u64 = 800 * 86_400_000;

/// What the user of a server with access control has to be allowed, beside its keys.
const RIGHTS: &str = "+info +script|load +evalsha +time +scan +get +set +del +pexpire +hset +hget \
     +hmget +hgetall +hdel +hincrby +hlen +zadd +zrem +zrangebylex +zrevrangebylex \
     +zrangebyscore +zlexcount";

/// A connection to a server that can be used.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: MultiplexedConnection,
    /// Identity of the server's running process.
    pub(super) run_id: String,
}

/// How long the data have been of one piece.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    pub(super) id: String,
    /// Since then the data are here, in this server's process.
    pub(super) since: Instant,
}

impl Session {
    /// Connects, and refuses a server that would lose or not take what is to be kept in it.
    pub(super) async fn open(
        server: &Server,
        prefix: &str,
        scripts: &Scripts,
        patience: Duration,
    ) -> Result<(Self, Epoch), StoreError> {
        let at = |error: StoreError| naming(&server.name, error);
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connect = server.client.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(patience, connect)
            .await
            .map_err(|_| at(unavailable(format!("no connection in {patience:?}"))))?
            .map_err(|error| at(refused_login(&error)))?;
        timeout(patience, Self::greet(connection, prefix, scripts))
            .await
            .map_err(|_| at(unavailable(format!("no answer in {patience:?}"))))?
            .map_err(at)
    }

    async fn greet(
        mut connection: MultiplexedConnection,
        prefix: &str,
        scripts: &Scripts,
    ) -> Result<(Self, Epoch), StoreError> {
        let (server, memory): (String, String) = pipe()
            .cmd("INFO")
            .arg("server")
            .cmd("INFO")
            .arg("memory")
            .query_async(&mut connection)
            .await
            .map_err(|error| lacking(&error, "info", prefix))?;
        keeps_everything(&memory)?;
        let run_id = field(&server, "run_id").unwrap_or_default().to_owned();
        let session = Self { connection, run_id };
        session.load(scripts).await.map_err(|error| lacking(&error, "script|load", prefix))?;
        session.may_run(prefix, scripts).await?;
        let epoch = session.epoch(prefix, scripts).await.map_err(|error| store_error(&error))?;
        Ok((session, epoch))
    }

    /// Gives the server the scripts.
    pub(super) async fn load(&self, scripts: &Scripts) -> RedisResult<()> {
        for script in scripts.all() {
            script.load_async(&mut self.connection.clone()).await?;
        }
        Ok(())
    }

    /// Finds out whether the user may run scripts, and in them what they consist of.
    async fn may_run(&self, prefix: &str, scripts: &Scripts) -> Result<(), StoreError> {
        let failed: Vec<String> = ::redis::cmd("EVALSHA")
            .arg(scripts.rights.get_hash())
            .arg(2)
            .arg(format!("{prefix}{{rights}}:a"))
            .arg(format!("{prefix}{{rights}}:b"))
            .query_async(&mut self.connection.clone())
            .await
            .map_err(|error| lacking(&error, "evalsha", prefix))?;
        let Some([command, why, ..]) = failed.get(..2) else { return Ok(()) };
        if is_forbidden(why) {
            return Err(misconfigured(format!(
                "the user may not use {command:?} in scripts on keys that begin with {prefix:?}: \
                 {why}; {}",
                needed(prefix)
            )));
        }
        Err(unavailable(format!("it does not do {command:?}: {why}")))
    }

    /// Reads, and where needed begins, the note of how long the data have been of one piece.
    pub(super) async fn epoch(&self, prefix: &str, scripts: &Scripts) -> RedisResult<Epoch> {
        let fresh = uuid::Uuid::new_v4().simple().to_string();
        let (id, age_ms): (String, u64) = ::redis::cmd("EVALSHA")
            .arg(scripts.epoch.get_hash())
            .arg(1)
            .arg(format!("{prefix}epoch"))
            .arg(&self.run_id)
            .arg(fresh)
            .arg(NOTE_KEPT_MS)
            .query_async(&mut self.connection.clone())
            .await?;
        let now = Instant::now();
        // Older than a day is older than anything that is waited for.
        let age = Duration::from_millis(age_ms.min(86_400_000));
        Ok(Epoch { id, since: now.checked_sub(age).unwrap_or(now) })
    }
}

/// Every key here has an expiry, so each policy but one may throw away any of them.
fn keeps_everything(memory: &str) -> Result<(), StoreError> {
    let limit = field(memory, "maxmemory").unwrap_or("0");
    match field(memory, "maxmemory_policy") {
        Some("noeviction") => Ok(()),
        _ if limit == "0" => Ok(()),
        Some(policy) => Err(misconfigured(format!(
            "the server may throw away keys when its memory is full (maxmemory {limit}, \
             maxmemory-policy {policy}), and with them limits and usage; set maxmemory-policy \
             noeviction"
        ))),
        None => {
            tracing::warn!(
                "the Redis server does not tell its maxmemory-policy; it must be \
                 noeviction, or limits and usage may be lost"
            );
            Ok(())
        }
    }
}

/// A value in an answer to INFO.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn refused_login(error: &RedisError) -> StoreError {
    let wrong = matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
        || error.kind() == ErrorKind::AuthenticationFailed;
    if wrong {
        misconfigured(format!("it refused the user or the password: {}", reason(error)))
    } else {
        store_error(error)
    }
}

/// The error of a step that needs the right to use `command`.
fn lacking(error: &RedisError, command: &str, prefix: &str) -> StoreError {
    // The client hides the code of a command in a pipeline.
    if error.to_string().contains("NOAUTH") {
        return misconfigured("it wants a password; set SLUICEGATE_REDIS_PASSWORD".to_owned());
    }
    let forbidden = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || is_forbidden(&error.to_string());
    if forbidden {
        let reason = reason(error);
        misconfigured(format!("the user may not use {command:?}: {reason}; {}", needed(prefix)))
    } else {
        store_error(error)
    }
}

fn needed(prefix: &str) -> String {
    format!("it needs the rights ~{prefix}* {RIGHTS}")
}

/// Says which server an error is about.
fn naming(server: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { store, reason } => {
            StoreError::Unavailable { store, reason: format!("{server}: {reason}") }
        }
        StoreError::Misconfigured { store, reason } => {
            StoreError::Misconfigured { store, reason: format!("{server}: {reason}") }
        }
        other => other,
    }
}

fn is_forbidden(reason: &str) -> bool {
    ["NOPERM", "can't run this command", "permission"].iter().any(|text| reason.contains(text))
}
