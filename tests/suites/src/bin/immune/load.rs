//! Callers, and what became of their requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Connection, Reply, Request};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// The caller's key.
pub(crate) const KEY: &str = "sk-caller-of-measured-gateways";
/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(120);
/// A connection that was idle for longer is not used again: the other side may be closing it.
const FRESH: Duration = Duration::from_secs(5);

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) sent: Instant,
    pub(crate) over: Instant,
    /// `None`: no answer came.
    pub(crate) status: Option<u16>,
    /// The error's code, or what went wrong.
    pub(crate) code: String,
    /// When to come again, as the header says.
    pub(crate) retry_after_ms: Option<u64>,
    /// Does the refusal say all that it must, and nothing that contradicts?
    pub(crate) clean: bool,
    pub(crate) attempts: u64,
    /// Id of a request that was kept for later.
    pub(crate) kept: Option<String>,
}

impl Outcome {
    pub(crate) fn is_served(&self) -> bool {
        self.status == Some(200)
    }

    pub(crate) fn took(&self) -> Duration {
        self.over - self.sent
    }
}

/// Callers of one gateway.
#[derive(Clone)]
pub(crate) struct Callers {
    gateway: SocketAddr,
    idle: Arc<Mutex<Vec<(Instant, Connection)>>>,
}

/// A chat request that takes so long at its upstream.
pub(crate) fn chat(model: &str, takes_ms: u64, prompt: &str) -> Request {
    let body = json!({
        "model": model,
        "max_tokens": 16,
        "messages": [{ "role": "user", "content": prompt }],
        "seed": takes_ms,
    });
    Request::post("/v1/chat/completions").bearer(KEY).body(body.to_string())
}

impl Callers {
    pub(crate) fn of(gateway: SocketAddr) -> Self {
        Self { gateway, idle: Arc::default() }
    }

    /// Makes a call on a connection that is kept for the next one.
    pub(crate) async fn call(&self, request: &Request) -> Outcome {
        let sent = Instant::now();
        let Some(mut connection) = self.connection().await else {
            return judge(sent, None);
        };
        let exchange = timeout(ANSWER, async {
            connection.send(request).await;
            connection.read_to_end().await;
        });
        let in_time = exchange.await.is_ok();
        let reply = connection.reply();
        let outcome = judge(sent, in_time.then_some(reply));
        if in_time && reply.complete_at.is_some() && reply.peer_end.is_none() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push((Instant::now(), connection));
        }
        outcome
    }

    /// How a request stands that was kept for later.
    pub(crate) async fn fetch(&self, id: &str) -> Option<String> {
        let request = Request::get(&format!("/v1/deferred/{id}")).bearer(KEY);
        let mut connection = self.connection().await?;
        timeout(ANSWER, async {
            connection.send(&request).await;
            connection.read_to_end().await;
        })
        .await
        .ok()?;
        let status = connection.reply().json().ok()?["status"].as_str().map(str::to_owned);
        if connection.reply().peer_end.is_none() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push((Instant::now(), connection));
        }
        status
    }

    /// Begins `rate` calls a second for `length`, whatever became of those before, and waits for the
    /// answer of the last. Outcomes are in the order in which they began.
    pub(crate) async fn offer(
        &self,
        rate: f64,
        length: Duration,
        mut make: impl FnMut() -> Request,
    ) -> Vec<Outcome> {
        let begun = Instant::now();
        let mut running = JoinSet::new();
        for number in 0_u32.. {
            let at = Duration::from_secs_f64(f64::from(number) / rate);
            if at >= length {
                break;
            }
            let (callers, request) = (self.clone(), make());
            sleep_until(begun + at).await;
            running.spawn(async move { callers.call(&request).await });
        }
        let mut outcomes = running.join_all().await;
        outcomes.sort_by_key(|outcome| outcome.sent);
        outcomes
    }

    async fn connection(&self) -> Option<Connection> {
        loop {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match kept {
                Some((since, connection)) if since.elapsed() < FRESH => return Some(connection),
                Some(_) => {}
                None => return Connection::open(self.gateway).await.ok(),
            }
        }
    }
}

fn judge(sent: Instant, reply: Option<&Reply>) -> Outcome {
    let over = Instant::now();
    let status = reply.and_then(|reply| reply.status);
    let (Some(reply), Some(_)) = (reply, status) else {
        let code = "no answer".to_owned();
        return Outcome {
            sent,
            over,
            status: None,
            code,
            retry_after_ms: None,
            clean: false,
            attempts: 0,
            kept: None,
        };
    };
    let number = |name: &str| reply.header(name).and_then(|value| value.parse::<u64>().ok());
    let error = reply.json().unwrap_or_default()["error"].clone();
    let told = error["sluicegate"]["retry_after_ms"].as_u64();
    let retry_after_ms = number("retry-after-ms");
    let whole = ["message", "type", "param", "code"].iter().all(|name| error.get(name).is_some());
    let seconds = number("retry-after");
    let agrees = told == retry_after_ms
        && seconds == retry_after_ms.map(|ms| ms.div_ceil(1000).max(1))
        && error["sluicegate"]["retryable"] == Value::Bool(true)
        && reply.header("x-should-retry") == Some("true");
    Outcome {
        sent,
        over,
        status,
        code: error["code"].as_str().unwrap_or_default().to_owned(),
        retry_after_ms,
        clean: whole && agrees && retry_after_ms.is_some(),
        attempts: number("x-sluicegate-attempts").unwrap_or(0),
        kept: (status == Some(202))
            .then(|| reply.json().unwrap_or_default()["id"].as_str().map(str::to_owned))
            .flatten(),
    }
}
