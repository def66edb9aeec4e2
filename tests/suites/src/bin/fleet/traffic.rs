//! Requests and streams, and what became of them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use sluicegate_suites::config::KEY;
use sluicegate_testkit::client::{Connection, Reply, Request};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::openai;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::LIMIT;
use crate::upstream::LONG;

/// Failures that are kept word for word.
const EXAMPLES: usize = 5;

/// What became of the requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) failed: usize,
    pub(crate) examples: Vec<String>,
}

/// Requests under way.
pub(crate) struct Running(JoinSet<Requests>);

/// Streams under way.
pub(crate) struct Streams {
    pub(crate) started: Instant,
    open: Vec<Connection>,
}

/// Begins one request each `gap`, by `callers` who keep their connections.
pub(crate) fn requests(planes: &[SocketAddr], n: usize, callers: usize, gap: Duration) -> Running {
    let mut running = JoinSet::new();
    let begun = Instant::now();
    for (caller, &plane) in (0..callers).zip(planes.iter().cycle()) {
        running.spawn(async move {
            let mut seen = Requests::default();
            let mut connection = None;
            for number in (caller..n).step_by(callers) {
                sleep_until(begun + gap * u32::try_from(number).unwrap_or(u32::MAX)).await;
                seen.one(plane, &mut connection, number % 2 == 1).await;
            }
            seen
        });
    }
    Running(running)
}

impl Running {
    /// Waits for the last one.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Requests> {
        let mut all = Requests::default();
        while let Some(one) = self.0.join_next().await {
            let one = one?;
            all.latencies.extend(one.latencies);
            all.failed += one.failed;
            all.examples.extend(one.examples);
        }
        all.examples.truncate(EXAMPLES);
        Ok(all)
    }
}

impl Requests {
    async fn one(&mut self, plane: SocketAddr, kept: &mut Option<Connection>, stream: bool) {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => match Connection::open(plane).await {
                Ok(connection) => connection,
                Err(error) => return self.fail(format!("connect: {error}")),
            },
        };
        let exchange = timeout(LIMIT, async {
            connection.send(&chat("m1", stream)).await;
            connection.read_to_end().await;
        });
        let in_time = exchange.await.is_ok();
        let reply = connection.reply();
        let well = in_time
            && reply.status == Some(200)
            && reply.content().as_deref() == Some(crate::upstream::ANSWER)
            && reply.finish().as_deref() == Some("stop")
            && reply.dones() == usize::from(stream);
        let Some(end) = reply.complete_at.filter(|_| well) else {
            let seen = format!("{:?} {:?} {}", reply.status, reply.problems, reply.text());
            return self.fail(seen);
        };
        self.latencies.push(end - reply.sent_at);
        *kept = reply.peer_end.is_none().then_some(connection);
    }

    fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(what);
        }
    }
}

/// Begins `n` long streams, spread over the data planes, and waits for the first event of each.
pub(crate) async fn streams(planes: &[SocketAddr], n: usize) -> anyhow::Result<Streams> {
    let mut open = Vec::new();
    for &plane in planes.iter().cycle().take(n) {
        let mut stream = Connection::open(plane).await.context("open a stream")?;
        stream.send(&chat(LONG, true)).await;
        within(LIMIT, "the first event of a stream", stream.read_events(1)).await?;
        open.push(stream);
    }
    Ok(Streams { started: Instant::now(), open })
}

impl Streams {
    /// Reads each to its end; gives the number of those that lack something.
    pub(crate) async fn finish(self) -> usize {
        let mut reading = JoinSet::new();
        for mut stream in self.open {
            reading.spawn(async move {
                let ended = timeout(LIMIT, stream.read_to_end()).await.is_ok();
                ended && is_whole(&stream.into_reply())
            });
        }
        reading.join_all().await.into_iter().filter(|whole| !whole).count()
    }
}

/// Whether every numbered event came, in order, and then the proper end.
fn is_whole(reply: &Reply) -> bool {
    let numbers = reply.delta_texts("content");
    let in_order = numbers.iter().enumerate().all(|(n, text)| *text == n.to_string());
    in_order
        && !numbers.is_empty()
        && reply.complete_at.is_some()
        && reply.finish().as_deref() == Some("stop")
        && reply.dones() == 1
}

fn chat(model: &str, stream: bool) -> Request {
    Request::post("/v1/chat/completions").bearer(KEY).body(openai::chat(model, stream))
}
