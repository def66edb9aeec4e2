//! A model server in this process: everything under way goes at full speed up to so many tokens, and
//! beyond that more slowly, all alike. It may be out of order in several ways.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Between two looks at what is under way.
const STEP: Duration = Duration::from_millis(2);
/// Bytes of a request's body that are one token, about.
const BYTES_A_TOKEN: usize = 5;

/// How a server behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Tokens under way up to which all goes at full speed.
    pub(crate) full_speed: f64,
    /// Requests under way beyond which it answers 503.
    pub(crate) most: usize,
    /// What it does instead of answering, and how often: a share of connections or requests.
    pub(crate) fault: Fault,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Resets so many of its connections, half of them before they have said anything. Each connection is
    /// for one request.
    Resets(f64),
    /// Takes requests and says nothing.
    Silent,
    /// Answers 429, with this wait in seconds.
    Limited(u32),
    /// Answers 500.
    Broken,
}

impl Default for Manner {
    fn default() -> Self {
        Self { full_speed: f64::INFINITY, most: usize::MAX, fault: Fault::None }
    }
}

/// What it has counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connections or requests that reached it.
    pub(crate) reached: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Callers that left before they were served.
    pub(crate) left: AtomicU64,
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    manner: Manner,
    counts: Arc<Counts>,
    jobs: Mutex<HashMap<u64, Job>>,
    next: AtomicU64,
}

struct Job {
    tokens: f64,
    left_ms: f64,
    done: Option<oneshot::Sender<()>>,
}

/// A request under way; dropped, it has left.
struct UnderWay<'a> {
    id: u64,
    shared: &'a Shared,
    served: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.id);
        let counts = &self.shared.counts;
        let counter = if self.served { &counts.served } else { &counts.left };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(crate) async fn start(manner: Manner) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let shared = Arc::new(Shared {
            manner,
            counts: counts.clone(),
            jobs: Mutex::default(),
            next: AtomicU64::new(0),
        });
        let clock = tokio::spawn(work(shared.clone()));
        let door = tokio::spawn(accept(listener, shared));
        Ok(Self { address, counts, tasks: vec![clock, door] })
    }

    pub(crate) fn reached(&self) -> u64 {
        self.counts.reached.load(Ordering::Relaxed)
    }

    pub(crate) fn served(&self) -> u64 {
        self.counts.served.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn work(shared: Arc<Shared>) {
    let mut before = Instant::now();
    loop {
        sleep(STEP).await;
        let now = Instant::now();
        let passed = (now - before).as_secs_f64() * 1000.0;
        before = now;
        let mut jobs = shared.lock();
        let tokens: f64 = jobs.values().map(|job| job.tokens).sum();
        let speed = (shared.manner.full_speed / tokens.max(1.0)).min(1.0);
        for job in jobs.values_mut() {
            job.left_ms -= passed * speed;
            if job.left_ms <= 0.0
                && let Some(done) = job.done.take()
            {
                // Whoever left has been taken out, or will be.
                let _gone = done.send(());
            }
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let shared = shared.clone();
        tokio::spawn(serve(stream, shared));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let resets = match shared.manner.fault {
        Fault::Resets(share) => fastrand::f64() < share,
        _ => false,
    };
    if resets {
        shared.counts.reached.fetch_add(1, Ordering::Relaxed);
        shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        if fastrand::bool() {
            drop(stream.readable().await);
        }
        // A zero linger makes the close a reset.
        stream.set_zero_linger().ok();
        return;
    }
    let once = matches!(shared.manner.fault, Fault::Resets(_));
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.keep_alive(!once);
    // Callers may leave at any time.
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    shared.counts.reached.fetch_add(1, Ordering::Relaxed);
    let Ok(body) = request.into_body().collect().await else {
        return error(400, "the request broke off", None);
    };
    let body = body.to_bytes();
    let refuse = |status, message, wait| {
        shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        error(status, message, wait)
    };
    match shared.manner.fault {
        Fault::Silent => std::future::pending().await,
        Fault::Limited(wait) => return refuse(429, "Rate limit reached for requests", Some(wait)),
        Fault::Broken => return refuse(500, "The server had an error", None),
        Fault::None | Fault::Resets(_) => {}
    }
    let (done, finished) = oneshot::channel();
    let tokens = body.len() / BYTES_A_TOKEN;
    let under_way = {
        let mut jobs = shared.lock();
        if jobs.len() >= shared.manner.most {
            drop(jobs);
            return refuse(503, "The server is overloaded", None);
        }
        let id = shared.next.fetch_add(1, Ordering::Relaxed);
        let job = Job { tokens: tokens as f64, left_ms: takes_ms(&body), done: Some(done) };
        jobs.insert(id, job);
        UnderWay { id, shared, served: false }
    };
    let mut under_way = under_way;
    under_way.served = finished.await.is_ok();
    let answer = json!({
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": "served" },
        }],
        "usage": { "prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1 },
    });
    json_answer(StatusCode::OK, answer.to_string())
}

/// How long a request takes at full speed: what its `seed` says, which gateways pass on.
fn takes_ms(body: &[u8]) -> f64 {
    const SEED: &[u8] = b"\"seed\":";
    // Behind the messages, which may be long.
    let found = body.windows(SEED.len()).rposition(|window| window == SEED);
    let digits = found.map_or(&[][..], |at| &body[at + SEED.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let ms = digits.fold(0_u32, |sum, digit| sum.saturating_mul(10) + u32::from(digit - b'0'));
    f64::from(ms)
}

fn error(status: u16, message: &str, wait: Option<u32>) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = json!({ "error": { "message": message, "type": "x", "param": null, "code": null } });
    let mut response = json_answer(status, body.to_string());
    if let Some(wait) = wait {
        response.headers_mut().insert(RETRY_AFTER, wait.into());
    }
    response
}

fn json_answer(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
