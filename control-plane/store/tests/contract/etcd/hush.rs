//! A proxy before an etcd server that can make its watches say nothing, while everything else goes on: pings,
//! reads, writes, and the connections.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http_body_util::BodyExt as _;
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    client::conn::http2::SendRequest,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::net::{TcpListener, TcpStream};

const WATCH: &str = "/etcdserverpb.Watch/Watch";

type Body = http_body_util::combinators::BoxBody<Bytes, hyper::Error>;

/// Streams of watches so far, and how many of the first of them are mute.
#[derive(Debug, Default)]
struct Watches {
    opened: AtomicU64,
    mute: AtomicU64,
}

/// The proxy; ends when it is dropped.
pub struct Hush {
    url: String,
    watches: Arc<Watches>,
    _accepting: AbortOnDrop<()>,
}

impl Hush {
    /// Before the server at this `host:port`.
    pub async fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let watches = Arc::new(Watches::default());
        let accepting = task::spawn("hush", {
            let watches = watches.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    drop(task::spawn("hushed", carry(client, server.clone(), watches.clone())));
                }
            }
        });
        Self { url, watches, _accepting: AbortOnDrop(accepting) }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// What the watches that are open now would say from now on is lost.
    pub fn hush(&self) {
        self.watches.mute.store(self.watches.opened.load(Ordering::Acquire), Ordering::Release);
    }
}

async fn carry(client: TcpStream, server: String, watches: Arc<Watches>) {
    let Ok(upstream) = TcpStream::connect(server).await else { return };
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(upstream));
    let Ok((sender, upstream)) = handshake.await else { return };
    let _upstream = AbortOnDrop(task::spawn("hushed-upstream", async { drop(upstream.await) }));
    let service = service_fn(move |request| pass(request, sender.clone(), watches.clone()));
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    drop(serving.serve_connection(TokioIo::new(client), service).await);
}

async fn pass(
    request: Request<Incoming>,
    mut sender: SendRequest<Incoming>,
    watches: Arc<Watches>,
) -> Result<Response<Body>, hyper::Error> {
    let is_watch = request.uri().path() == WATCH;
    let number = if is_watch { watches.opened.fetch_add(1, Ordering::AcqRel) } else { u64::MAX };
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| {
        body.map_frame(move |frame| {
            if number < watches.mute.load(Ordering::Acquire) && frame.is_data() {
                Frame::data(Bytes::new())
            } else {
                frame
            }
        })
        .boxed()
    }))
}
