//! How to reach an etcd cluster.

use std::{fmt, path::PathBuf, time::Duration};

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::{Limits, StoreError};

/// How often a connection is pinged while a call or a watch is open on it. A server minds pings that
/// come less than `--grpc-keepalive-min-time` apart, 5 s unless it is told otherwise, and any pings
/// on a connection where nothing is open; at the third it closes the connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// How long a ping may stay unanswered. Without pings a watch on a frozen peer is silent for good.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Everything that is needed to use one etcd cluster.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    /// Client URLs of the members, `http://host:port` or `https://host:port`. At least one; they
    /// must belong to the same cluster.
    pub endpoints: Vec<String>,
    /// Put before every key, so that several installations can share a cluster. Ends with `/`.
    pub prefix: String,
    /// Name and password, for a cluster with authentication.
    pub credentials: Option<Credentials>,
    /// Certificates, for `https` endpoints.
    pub tls: Option<EtcdTls>,
    /// Deadlines of the calls.
    pub timeouts: Timeouts,
    /// What the servers take in one transaction (`--max-request-bytes` and `--max-txn-ops`).
    pub limits: Limits,
}

/// A user of the cluster.
#[derive(Clone)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// PEM files for TLS.
#[derive(Debug, Clone, Default)]
pub struct EtcdTls {
    /// Authorities that sign the servers' certificates.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key, where the servers ask clients for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How long a call may take before it fails as [`StoreError::Unavailable`].
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Opening a connection.
    pub connect: Duration,
    /// Every call but a listing.
    pub call: Duration,
    /// A whole listing with all its pages.
    pub list: Duration,
}

impl EtcdConfig {
    /// The usual configuration for these endpoints.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/sluicegate/".to_owned(),
            credentials: None,
            tls: None,
            timeouts: Timeouts::default(),
            limits: Limits { bytes: 1_572_864, ops: 128 },
        }
    }

    /// Checks what can be checked without the cluster, and reads the certificates.
    pub(super) async fn connect_options(&self) -> Result<ConnectOptions, StoreError> {
        if self.endpoints.is_empty() {
            return Err(misconfigured("no endpoint is given".to_owned()));
        }
        // Endpoints are shown to people and logged.
        if self.endpoints.iter().any(|endpoint| endpoint.contains('@')) {
            let reason = "an endpoint holds a user name or password; give them as credentials";
            return Err(misconfigured(reason.to_owned()));
        }
        if !self.prefix.ends_with('/') {
            return Err(misconfigured(format!("the prefix {:?} does not end with /", self.prefix)));
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeouts.connect)
            .with_keep_alive(KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT)
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        if let Some(Credentials { user, password }) = &self.credentials {
            options = options.with_user(user, password).with_auto_token_refresh(true);
        }
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls.load().await?);
        }
        Ok(options)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            call: Duration::from_secs(2),
            list: Duration::from_secs(10),
        }
    }
}

impl EtcdTls {
    async fn load(&self) -> Result<TlsOptions, StoreError> {
        let mut tls = TlsOptions::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read("CA", ca).await?));
        }
        if let Some((certificate, key)) = &self.identity {
            let certificate = read("client certificate", certificate).await?;
            tls = tls.identity(Identity::from_pem(certificate, read("client key", key).await?));
        }
        Ok(tls)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

async fn read(what: &str, path: &PathBuf) -> Result<Vec<u8>, StoreError> {
    tokio::fs::read(path).await.map_err(|error| {
        misconfigured(format!("the {what} file {} cannot be read: {error}", path.display()))
    })
}

pub(super) fn misconfigured(reason: String) -> StoreError {
    StoreError::Misconfigured { store: super::KIND, reason }
}
