//! How to reach a Redis.

use std::{fmt, path::PathBuf, time::Duration};

use ::redis::{Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, TlsCertificates};

use super::failure::misconfigured;
use crate::StoreError;

/// Everything that is needed to use one Redis.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://host:port/db`, with the user before the host where there is one, or `rediss://` for
    /// TLS. Of several, which must be the same Redis and its replicas, the first that takes writes
    /// is used.
    pub urls: Vec<String>,
    /// The password of the user, or of the server where no user is named.
    pub password: Option<String>,
    /// Certificates, for `rediss` URLs. Without them the system's authorities are trusted.
    pub tls: Option<RedisTls>,
    /// Put before every key, so that several installations can share a server.
    pub prefix: String,
    /// Deadlines and intervals.
    pub timeouts: RedisTimeouts,
}

/// PEM files for TLS.
#[derive(Debug, Clone, Default)]
pub struct RedisTls {
    /// Authorities that sign the server's certificate, instead of the system's.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key, where the server asks clients for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct RedisTimeouts {
    /// Until the first connection stands; then the start fails.
    pub start: Duration,
    /// Opening a connection, and as long again for getting acquainted on it.
    pub connect: Duration,
    /// Operations on leases and usage.
    pub call: Duration,
    /// Reading totals and meters.
    pub read: Duration,
    /// Operations on deferred requests, which may be large and wait for the disk.
    pub deferred: Duration,
    /// Between looks at whether the server is there.
    pub probe: Duration,
    /// After the server was restarted or replaced: how long reports are taken and nothing is given.
    pub recovery: Duration,
}

impl Default for RedisTimeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            connect: Duration::from_millis(250),
            call: Duration::from_millis(100),
            read: Duration::from_millis(500),
            deferred: Duration::from_secs(3),
            probe: Duration::from_millis(500),
            recovery: Duration::from_secs(2),
        }
    }
}

impl RedisConfig {
    /// The usual configuration for these URLs.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            password: None,
            tls: None,
            prefix: "sluicegate:".to_owned(),
            timeouts: RedisTimeouts::default(),
        }
    }

    /// Checks what can be checked without the server, and reads the certificates.
    pub(super) async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        if self.urls.is_empty() {
            return Err(misconfigured("no URL is given".to_owned()));
        }
        if self.prefix.is_empty() || self.prefix.contains(['{', '}']) {
            let reason = format!("the prefix {:?} is empty or holds a brace", self.prefix);
            return Err(misconfigured(reason));
        }
        let certificates = match &self.tls {
            Some(tls) => Some(tls.load().await?),
            None => None,
        };
        self.urls.iter().map(|url| self.server(url, certificates.as_ref())).collect()
    }

    fn server(&self, url: &str, tls: Option<&TlsCertificates>) -> Result<Server, StoreError> {
        // The URL is not repeated: it may hold a password that was not meant to be there.
        let unusable = |error: ::redis::RedisError| {
            let reason = error.detail().unwrap_or(error.category()).to_owned();
            misconfigured(format!("a URL cannot be used ({reason}); write redis://host:port/db"))
        };
        let info = url.into_connection_info().map_err(unusable)?;
        if info.redis_settings().password().is_some() {
            let reason = "a URL holds a password; give it separately";
            return Err(misconfigured(reason.to_owned()));
        }
        let encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let scheme = if encrypted { "rediss" } else { "redis" };
        let name = format!("{scheme}://{}/{}", info.addr(), info.redis_settings().db());
        let info = match &self.password {
            Some(password) => {
                let settings = info.redis_settings().clone().set_password(password);
                info.set_redis_settings(settings)
            }
            None => info,
        };
        let client = match tls.filter(|_| encrypted) {
            Some(tls) => Client::build_with_tls(info, tls.clone()),
            None => Client::open(info),
        };
        Ok(Server { name, client: client.map_err(unusable)? })
    }
}

/// One server that may be the one.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// For people, without credentials.
    pub(super) name: String,
    pub(super) client: Client,
}

impl RedisTls {
    async fn load(&self) -> Result<TlsCertificates, StoreError> {
        let root_cert = match &self.ca {
            Some(ca) => Some(read("CA", ca).await?),
            None => None,
        };
        let client_tls = match &self.identity {
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: read("client certificate", certificate).await?,
                client_key: read("client key", key).await?,
            }),
            None => None,
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("servers", &self.urls.len())
            .field("prefix", &self.prefix)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

async fn read(what: &str, path: &PathBuf) -> Result<Vec<u8>, StoreError> {
    tokio::fs::read(path).await.map_err(|error| {
        misconfigured(format!("the {what} file {} cannot be read: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn passwords_are_in_no_message() {
        check("redis://user:hunter2@localhost:6379/0", "give it separately").await;
        check("hunter2", "write redis://").await;
        check("redis://user:hunter2@:x/", "write redis://").await;

        let config = RedisConfig { password: Some("hunter2".into()), ..RedisConfig::new(["x"]) };
        assert!(!format!("{config:?}").contains("hunter2"));

        async fn check(url: &str, expected: &str) {
            let error = RedisConfig::new([url]).servers().await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("hunter2"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_server_is_named_without_its_user() {
        let config = RedisConfig {
            password: Some("hunter2".into()),
            ..RedisConfig::new(["redis://someone@localhost:1234/3"])
        };
        let servers = config.servers().await.unwrap();
        assert_eq!(servers[0].name, "redis://localhost:1234/3");
        assert!(!format!("{servers:?}").contains("hunter2"));
    }
}
