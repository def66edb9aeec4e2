//! Sockets: taking connections in, serving HTTP/1.1 and HTTP/2 on them, and letting them go.

mod io;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use sluicegate_telemetry::task;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{body::Body, pipeline::Gateway};
use io::Paced;

/// A connection that takes no byte for so long is given up.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// Longest wait for the head of a request, idle connections included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// How long connections get after their streams were cut, to take the last event.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves `listener` until `shutdown`, then drains: no new connections, the present requests get
/// `drain` to end, then streams are ended with an error event. Returns when nothing is left.
pub async fn serve(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    drain: Duration,
    shutdown: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => connection(stream, peer, gateway.clone(), &graceful),
            Err(error) => {
                // Out of file descriptors, most likely: give the others a chance to close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let mut closing = std::pin::pin!(graceful.shutdown());
    if tokio::time::timeout(drain, &mut closing).await.is_ok() {
        return;
    }
    tracing::warn!(drain_ms = drain.as_millis(), "ending the streams that are left");
    gateway.cut.cancel();
    if tokio::time::timeout(LAST_WORDS, closing).await.is_err() {
        tracing::warn!("connections that take nothing are closed");
    }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    gateway: Arc<Gateway>,
    graceful: &GracefulShutdown,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let io = TokioIo::new(Paced::new(stream, WRITE_STALL));
    let service = service_fn(move |request: Request<Incoming>| {
        let gateway = gateway.clone();
        async move {
            let response: Response<Body> = gateway.handle(request, Some(peer.ip())).await;
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .max_concurrent_streams(1024)
        .adaptive_window(true);
    let watcher = graceful.watcher();
    task::spawn("connection", async move {
        let connection = watcher.watch(builder.serve_connection(io, service).into_owned());
        if let Err(error) = connection.await {
            // Callers hang up all the time.
            tracing::debug!(%error, %peer, "connection ended");
        }
    });
}
