//! Connections to providers: pooled, timed, HTTP/1.1 or HTTP/2, TLS where the URL says so.

pub mod auth;
mod connect;
pub mod decode;
mod proxy;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Uri};
use http_body_util::Full;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use sluicegate_model::resource::HttpVersion;

use connect::Connector;
pub(crate) use connect::Use;
use proxy::Proxies;

pub(crate) type Http = legacy::Client<Connector, Full<Bytes>>;

/// HTTP for one way of connecting. Cheap to clone; clones share the pool.
#[derive(Debug, Clone)]
pub struct Client {
    /// Keeps connections and uses them again.
    pub pooled: Http,
    /// Makes a new connection for each request.
    pub fresh: Http,
}

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// HTTP/2 pings on connections that are in use, and how long their answer may take: a path that
/// died silently is found in this time.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// What tells one client from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClientKind {
    version: HttpVersion,
    connect: Duration,
    max_idle: usize,
}

/// Every client that a policy ever needed. They outlive policies, so that a change of policy
/// keeps connections.
#[derive(Debug, Clone)]
pub struct Clients {
    tls: rustls::ClientConfig,
    proxies: Arc<Proxies>,
    known: Arc<Mutex<HashMap<ClientKind, Client>>>,
    tokens: auth::Tokens,
}

impl Clients {
    /// Clients that trust `tls`'s authorities and use the proxies of the environment.
    pub fn new(tls: rustls::ClientConfig) -> Self {
        Self {
            tls,
            proxies: Arc::new(Proxies::from_env()),
            known: Arc::default(),
            tokens: auth::Tokens::default(),
        }
    }

    /// Clients that trust the web's authorities.
    pub fn with_web_roots() -> Self {
        use hyper_rustls::ConfigBuilderExt;
        Self::new(rustls::ClientConfig::builder().with_webpki_roots().with_no_client_auth())
    }

    /// The client for this way of connecting.
    pub fn get(&self, version: HttpVersion, connect: Duration, max_idle: usize) -> Client {
        let kind = ClientKind { version, connect, max_idle };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(kind).or_insert_with(|| self.build(kind)).clone()
    }

    /// What a forward proxy wants to be told with each request for this URL: nothing, unless it
    /// asks for a name and is spoken to in plain HTTP. Tunnels tell theirs when they are made.
    pub fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme_str() == Some("https") {
            return None;
        }
        self.proxies.intercept(uri)?.basic_auth().cloned()
    }

    fn build(&self, kind: ClientKind) -> Client {
        Client { pooled: self.http(kind), fresh: self.http(ClientKind { max_idle: 0, ..kind }) }
    }

    fn http(&self, kind: ClientKind) -> Http {
        legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(kind.max_idle)
            .http1_max_headers(256)
            .http2_only(kind.version == HttpVersion::H2c)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_adaptive_window(true)
            .set_host(true)
            .build(Connector::new(&self.tls, self.proxies.clone(), kind.version, kind.connect))
    }
}
