//! Opening a connection within a bounded time: name lookup, TCP, proxy and TLS together.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
        proxy::matcher::Intercept,
    },
    rt::TokioIo,
};
use sluicegate_model::resource::HttpVersion;
use tokio::net::TcpStream;
use tower_service::Service;

use super::proxy::Proxies;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections, directly or through a forward proxy.
#[derive(Debug, Clone)]
pub struct Connector {
    tls: rustls::ClientConfig,
    version: HttpVersion,
    direct: HttpsConnector<HttpConnector>,
    proxies: Arc<Proxies>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(
        tls: &rustls::ClientConfig,
        proxies: Arc<Proxies>,
        version: HttpVersion,
        timeout: Duration,
    ) -> Self {
        let direct = secured(tls, version, tcp());
        Self { tls: tls.clone(), version, direct, proxies, timeout }
    }

    /// Through a proxy: a tunnel for https, and for http the proxy itself, which is then asked for
    /// whole URLs.
    async fn through(self, intercept: Intercept, uri: Uri) -> Result<Stream, BoxError> {
        if uri.scheme_str() == Some("https") {
            let mut tunnel = Tunnel::new(intercept.uri().clone(), tcp());
            if let Some(auth) = intercept.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            let io = secured(&self.tls, self.version, tunnel).call(uri).await?;
            return Ok(Stream::new(io, false));
        }
        let mut direct = self.direct;
        let io = direct.call(intercept.uri().clone()).await?;
        Ok(Stream::new(io, true))
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    tcp
}

fn secured<C>(tls: &rustls::ClientConfig, version: HttpVersion, inner: C) -> HttpsConnector<C> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
    match version {
        HttpVersion::Auto => builder.enable_all_versions().wrap_connector(inner),
        HttpVersion::Http1 => builder.enable_http1().wrap_connector(inner),
        HttpVersion::H2c => builder.enable_http2().wrap_connector(inner),
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let timeout = self.timeout;
        let mut connector = self.clone();
        let connecting = async move {
            match connector.proxies.intercept(&uri) {
                Some(intercept) => connector.through(intercept, uri).await,
                None => {
                    let io = connector.direct.call(uri).await?;
                    Ok(Stream::new(io, false))
                }
            }
        };
        Box::pin(async move {
            tokio::time::timeout(timeout, connecting).await.unwrap_or_else(|_| {
                let message = format!("no connection within {} ms", timeout.as_millis());
                Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
            })
        })
    }
}

/// Has a connection brought an answer yet? Shared by everyone who uses the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use(Arc<AtomicBool>);

impl Use {
    /// What is known of this connection; `None` when it was not made here.
    pub(crate) fn of(connected: &Connected) -> Option<Self> {
        let mut extras = http::Extensions::new();
        connected.get_extras(&mut extras);
        extras.remove()
    }

    /// The head of an answer came over it.
    pub(crate) fn answered(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Did one ever?
    pub(crate) fn has_answered(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that knows whether its other end is a proxy, and whether it was of use before.
#[derive(Debug)]
pub struct Stream {
    io: MaybeHttpsStream<TokioIo<TcpStream>>,
    to_proxy: bool,
    usage: Use,
}

impl Stream {
    fn new(io: MaybeHttpsStream<TokioIo<TcpStream>>, to_proxy: bool) -> Self {
        Self { io, to_proxy, usage: Use::default() }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.to_proxy).extra(self.usage.clone())
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
