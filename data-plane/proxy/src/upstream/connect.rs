//! Opening a connection within a bounded time, TLS included.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use sluicegate_model::resource::HttpVersion;
use tokio::net::TcpStream;
use tower_service::Service;

/// A connector with a clock over name lookup, TCP and TLS together.
#[derive(Debug, Clone)]
pub struct Connector {
    inner: HttpsConnector<HttpConnector>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(tls: &rustls::ClientConfig, version: HttpVersion, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let inner = match version {
            HttpVersion::Auto => builder.enable_all_versions().wrap_connector(tcp),
            HttpVersion::Http1 => builder.enable_http1().wrap_connector(tcp),
            HttpVersion::H2c => builder.enable_http2().wrap_connector(tcp),
        };
        Self { inner, timeout }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let timeout = self.timeout;
        Box::pin(async move {
            tokio::time::timeout(timeout, connecting).await.unwrap_or_else(|_| {
                let message = format!("no connection within {} ms", timeout.as_millis());
                Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
            })
        })
    }
}
