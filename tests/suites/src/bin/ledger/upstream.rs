//! An upstream that answers what each request asks for, and keeps truthful books of what it served.
//!
//! The message of a request is an [`Order`] as JSON; the model name picks the behaviour.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Answers with usage.
pub(crate) const USUAL: &str = "usual";
/// Answers without usage.
pub(crate) const SILENT: &str = "silent";
/// Answers 500 and what a broken accelerator says.
pub(crate) const BROKEN: &str = "broken";

/// Text of one token.
const TOKEN: &str = "tok ";
/// Characters of a prompt that are one token here: fewer tokens than any gateway would guess.
const PROMPT_CHARS: u64 = 4;

/// What a request asks this upstream for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// The request's own number.
    pub(crate) number: u64,
    /// Number of the caller's key.
    pub(crate) key: usize,
    /// Output tokens.
    pub(crate) output: u64,
    /// Time until the answer, or, streamed, between two tokens.
    pub(crate) delay: Duration,
}

impl Order {
    pub(crate) fn text(&self) -> String {
        let delay_ms = self.delay.as_millis();
        json!({"number": self.number, "key": self.key, "output": self.output, "delay_ms": delay_ms})
            .to_string()
    }

    fn read(text: &str) -> anyhow::Result<Self> {
        let order: Value = serde_json::from_str(text)?;
        let field = |name: &str| order[name].as_u64().with_context(|| format!("no {name}"));
        Ok(Self {
            number: field("number")?,
            key: usize::try_from(field("key")?)?,
            output: field("output")?,
            delay: Duration::from_millis(field("delay_ms")?),
        })
    }
}

/// One request as it was served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) order: Order,
    /// Did it answer 200?
    pub(crate) well: bool,
    pub(crate) begun: Instant,
    /// When the last byte was handed to the connection; `None` while it runs or when it broke.
    pub(crate) ended: Option<Instant>,
    pub(crate) prompt: u64,
    /// Output tokens that were handed to the connection.
    pub(crate) sent: u64,
}

impl Served {
    /// Input and output tokens in all.
    pub(crate) fn tokens(&self) -> u64 {
        self.prompt + self.sent
    }
}

/// Everything that was served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books(Arc<Mutex<Vec<Served>>>);

impl Books {
    pub(crate) fn all(&self) -> Vec<Served> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn enter(&self, served: Served) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(served);
        all.len() - 1
    }

    fn sent(&self, index: usize, tokens: u64, last: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(served) = all.get_mut(index) {
            served.sent += tokens;
            served.ended = served.ended.or(last.then(Instant::now));
        }
    }
}

/// A running upstream. Dropping it ends it.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) books: Books,
    server: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let books = Books::default();
        let kept = books.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).ok();
                let books = books.clone();
                let service = service_fn(move |request| answer(request, books.clone()));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Ok(Self { address, books: kept, server })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A piece of an answer.
struct Piece {
    bytes: Bytes,
    tokens: u64,
    last: bool,
}

/// A body that enters what it hands to the connection.
struct Pieces {
    pieces: mpsc::Receiver<Piece>,
    books: Books,
    index: usize,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.pieces.poll_recv(context).map(|piece| {
            let piece = piece?;
            self.books.sent(self.index, piece.tokens, piece.last);
            Some(Ok(Frame::data(piece.bytes)))
        })
    }
}

async fn answer(request: Request<Incoming>, books: Books) -> anyhow::Result<Response<Pieces>> {
    let body = request.into_body().collect().await?.to_bytes();
    let asked: Value = serde_json::from_slice(&body)?;
    let text = asked["messages"][0]["content"].as_str().context("no message")?;
    let order = Order::read(text)?;
    let (streamed, model) = (asked["stream"] == true, asked["model"].as_str().unwrap_or_default());
    let prompt = (text.len() as u64).div_ceil(PROMPT_CHARS);
    let (well, begun) = (model != BROKEN, Instant::now());
    let index = books.enter(Served { order, well, begun, ended: None, prompt, sent: 0 });
    let (sender, pieces) = mpsc::channel(1);
    let body = Pieces { pieces, books, index };
    let told = model != SILENT;
    if streamed && well {
        tokio::spawn(stream(sender, order, told.then_some(prompt)));
        return Ok(Response::builder().header("content-type", "text/event-stream").body(body)?);
    }
    sleep(order.delay).await;
    let (status, text) =
        if well { (200, whole(&order, told.then_some(prompt))) } else { (500, broken()) };
    let tokens = if well { order.output } else { 0 };
    // The receiver is at hand and has room.
    sender.try_send(Piece { bytes: text.into(), tokens, last: true }).ok();
    Ok(Response::builder().status(status).header("content-type", "application/json").body(body)?)
}

fn broken() -> String {
    let message = "CUDA error: an illegal memory access was encountered";
    json!({"error": {"message": message, "type": "internal_error"}}).to_string()
}

fn usage(prompt: u64, output: u64) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output})
}

fn whole(order: &Order, prompt: Option<u64>) -> String {
    let text = TOKEN.repeat(usize::try_from(order.output).unwrap_or(0));
    let mut answer = json!({
        "id": format!("c-{}", order.number), "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }],
    });
    if let Some(prompt) = prompt {
        answer["usage"] = usage(prompt, order.output);
    }
    answer.to_string()
}

/// One token each delay, then usage and the end. Ends early when the connection does.
async fn stream(pieces: mpsc::Sender<Piece>, order: Order, prompt: Option<u64>) {
    let event = |delta: Value, finish: Option<&str>| {
        let chunk = json!({
            "id": format!("c-{}", order.number), "object": "chat.completion.chunk", "created": 1,
            "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        });
        format!("data: {chunk}\n\n")
    };
    for _ in 0..order.output {
        let bytes = event(json!({"content": TOKEN}), None).into();
        if pieces.send(Piece { bytes, tokens: 1, last: false }).await.is_err() {
            return;
        }
        sleep(order.delay).await;
    }
    let mut end = event(json!({}), Some("stop"));
    if let Some(prompt) = prompt {
        let usage = usage(prompt, order.output);
        let chunk = json!({
            "id": format!("c-{}", order.number), "object": "chat.completion.chunk", "created": 1,
            "model": "m", "choices": [], "usage": usage,
        });
        end += &format!("data: {chunk}\n\n");
    }
    end += "data: [DONE]\n\n";
    // A caller who left in the last moment is seen by its missing end.
    pieces.send(Piece { bytes: end.into(), tokens: 0, last: true }).await.ok();
}
