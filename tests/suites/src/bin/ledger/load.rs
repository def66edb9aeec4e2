//! Callers, and what became of their requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use sluicegate_testkit::client::{Connection, Request};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::upstream::Order;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(90);
/// A connection that was idle for longer is not used again: the other side may be closing it.
const FRESH: Duration = Duration::from_secs(5);

/// One request that is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Index of the data plane.
    pub(crate) plane: usize,
    /// Number of the caller's key.
    pub(crate) key: usize,
    pub(crate) model: &'static str,
    pub(crate) output: u64,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) delay: Duration,
    pub(crate) stream: bool,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) call: Call,
    pub(crate) sent: Instant,
    pub(crate) over: Instant,
    /// `None`: no answer came.
    pub(crate) status: Option<u16>,
    /// Did a 200 come with everything that belongs to it?
    pub(crate) whole: bool,
    /// The error's code, or what went wrong.
    pub(crate) code: String,
    /// The error's message.
    pub(crate) message: String,
}

impl Outcome {
    pub(crate) fn is_admitted(&self) -> bool {
        self.status == Some(200)
    }

    /// Refused for a limit: it is used up, or it cannot be asked and says deny.
    pub(crate) fn is_refused(&self) -> bool {
        self.status == Some(429) || self.code == "limit_unavailable"
    }

    /// Neither served well nor refused for a limit.
    pub(crate) fn is_failed(&self) -> bool {
        !(self.is_refused() || self.is_admitted() && self.whole)
    }

    pub(crate) fn took(&self) -> Duration {
        self.over - self.sent
    }
}

/// All callers of one cluster.
pub(crate) struct Callers {
    planes: Vec<SocketAddr>,
    idle: Vec<Mutex<Vec<(Instant, Connection)>>>,
    number: AtomicU64,
}

/// The secret of a key.
pub(crate) fn secret(key: usize) -> String {
    format!("sk-ledger-caller-{key:04}")
}

impl Callers {
    pub(crate) fn new(planes: Vec<SocketAddr>) -> Arc<Self> {
        let idle = planes.iter().map(|_| Mutex::default()).collect();
        Arc::new(Self { planes, idle, number: AtomicU64::new(0) })
    }

    /// The bytes of a call with a number of its own.
    pub(crate) fn request(&self, call: &Call) -> Request {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let order = Order { number, key: call.key, output: call.output, delay: call.delay };
        let mut body = json!({
            "model": call.model,
            "messages": [{"role": "user", "content": order.text()}],
        });
        if let Some(max) = call.max_tokens {
            body["max_tokens"] = max.into();
        }
        if call.stream {
            body["stream"] = true.into();
        }
        Request::post("/v1/chat/completions").bearer(&secret(call.key)).body(body.to_string())
    }

    /// Makes a call on a connection that is kept for the next one.
    pub(crate) async fn call(&self, call: Call) -> Outcome {
        let request = self.request(&call);
        let sent = Instant::now();
        let Some(mut connection) = self.connection(call.plane).await else {
            return failed(call, sent, "no connection");
        };
        let exchange = timeout(ANSWER, async {
            connection.send(&request).await;
            connection.read_to_end().await;
        });
        let in_time = exchange.await.is_ok();
        let over = Instant::now();
        let reply = connection.reply();
        if reply.status.is_none() || !in_time {
            let why = format!("in time: {in_time}, end: {:?}", reply.peer_end.map(|(_, how)| how));
            return failed(call, sent, &why);
        }
        let status = reply.status;
        let ended = if call.stream { reply.dones() == 1 } else { reply.finish().is_some() };
        let whole = reply.complete_at.is_some() && ended;
        let (mut code, mut message) = (String::new(), String::new());
        if status != Some(200) {
            let error = reply.json().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (code, message) = (text(&error["error"]["code"]), text(&error["error"]["message"]));
        }
        if reply.complete_at.is_some() && reply.peer_end.is_none() {
            self.keep(call.plane, connection);
        }
        Outcome { call, sent, over, status, whole, code, message }
    }

    /// Begins `rate` calls a second for `length`, whatever became of those before, and waits for the
    /// answer of the last.
    pub(crate) async fn offer(
        self: &Arc<Self>,
        rate: f64,
        length: Duration,
        mut pick: impl FnMut() -> Call,
    ) -> anyhow::Result<Vec<Outcome>> {
        ensure!(rate > 0.0, "nothing to offer");
        let begun = Instant::now();
        let mut running = JoinSet::new();
        for number in 0_u32.. {
            let at = Duration::from_secs_f64(f64::from(number) / rate);
            if at >= length {
                break;
            }
            sleep_until(begun + at).await;
            let (callers, call) = (self.clone(), pick());
            running.spawn(async move { callers.call(call).await });
        }
        Ok(running.join_all().await)
    }

    async fn connection(&self, plane: usize) -> Option<Connection> {
        loop {
            let kept = self.idle[plane].lock().unwrap_or_else(PoisonError::into_inner).pop();
            match kept {
                Some((since, connection)) if since.elapsed() < FRESH => return Some(connection),
                Some(_) => {}
                None => return Connection::open(self.planes[plane]).await.ok(),
            }
        }
    }

    fn keep(&self, plane: usize, connection: Connection) {
        let mut idle = self.idle[plane].lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((Instant::now(), connection));
    }
}

fn failed(call: Call, sent: Instant, why: &str) -> Outcome {
    let (over, code) = (Instant::now(), why.to_owned());
    Outcome { call, sent, over, status: None, whole: false, code, message: String::new() }
}

/// Picks data planes by Zipf's law: the n-th gets a share of 1/n.
#[derive(Debug)]
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    pub(crate) fn new(n: usize) -> Self {
        let mut sum = 0.0;
        let up_to = (1..=n).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self(up_to.collect())
    }

    pub(crate) fn pick(&self) -> usize {
        let at = fastrand::f64() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|up_to| *up_to < at).min(self.0.len() - 1)
    }
}
