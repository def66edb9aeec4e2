//! An upstream that answers at once, or streams until it is told to end.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluicegate_testkit::openai;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The model whose streams last; each event of theirs carries its number.
pub(crate) const LONG: &str = "long";
/// What every other model says.
pub(crate) const ANSWER: &str = "ok";

/// Time between two events of a lasting stream.
const TICK: Duration = Duration::from_millis(100);

/// A running upstream. Dropping it ends it.
pub(crate) struct Upstream {
    address: SocketAddr,
    end: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (end, ending) = watch::channel(false);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).ok();
                let ending = ending.clone();
                let service = service_fn(move |request| answer(request, ending.clone()));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Ok(Self { address, end, server })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets every lasting stream come to its proper end.
    pub(crate) fn end_streams(&self) {
        self.end.send_replace(true);
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A body out of the pieces that a channel brings.
struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

async fn answer(
    request: Request<Incoming>,
    ending: watch::Receiver<bool>,
) -> anyhow::Result<Response<Pieces>> {
    let body = request.into_body().collect().await?.to_bytes();
    let asked: Value = serde_json::from_slice(&body)?;
    let streamed = asked["stream"] == true;
    let (pieces, body) = mpsc::channel(4);
    if asked["model"] == LONG {
        tokio::spawn(tick(pieces, ending));
    } else {
        let text = if streamed { openai::stream(ANSWER) } else { openai::completion(ANSWER) };
        // The receiver is at hand and has room.
        pieces.try_send(text.into())?;
    }
    let content_type = if streamed { "text/event-stream" } else { "application/json" };
    Ok(Response::builder().header("content-type", content_type).body(Pieces(body))?)
}

/// Sends numbered events until all streams are to end or the caller leaves.
async fn tick(pieces: mpsc::Sender<Bytes>, mut ending: watch::Receiver<bool>) {
    for number in 0_u64.. {
        if pieces.send(openai::delta(&number.to_string()).into()).await.is_err() {
            return;
        }
        let ended = tokio::time::timeout(TICK, ending.wait_for(|end| *end)).await.is_ok();
        if ended {
            break;
        }
    }
    let end = openai::finish("stop") + openai::USAGE + openai::DONE;
    // A caller who left in the last moment is counted as cut by the other side.
    pieces.send(end.into()).await.ok();
}
