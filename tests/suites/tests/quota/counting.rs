//! Usage is counted once, whatever dies meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_proto::admin::v1::UsageTotal;
use sluicegate_testkit::client::{Connection, exchange};
use sluicegate_testkit::deadline::within;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::script::TICKS;
use crate::world::{IDLE, LIMIT, Ledger, World, chat, chat_with, metric};

/// One caller for each data plane, who asks again and again.
pub(crate) struct Callers {
    stop: watch::Sender<bool>,
    answered: Arc<AtomicUsize>,
    running: Vec<JoinHandle<Vec<String>>>,
}

/// What the callers saw.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) answered: usize,
    pub(crate) failures: Vec<String>,
}

impl Callers {
    /// At the data planes with these numbers.
    pub(crate) fn start(world: &World, key: &'static str, planes: &[usize]) -> Self {
        let (stop, answered) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
        let call = |&plane: &usize| {
            let address = world.planes[plane].traffic();
            tokio::spawn(call(address, key, stop.subscribe(), answered.clone()))
        };
        let running = planes.iter().map(call).collect();
        Self { stop, answered, running }
    }

    /// Waits until so many more requests have been answered well.
    pub(crate) async fn some(&self, n: usize) {
        let enough = self.answered.load(Ordering::SeqCst) + n;
        let there = async {
            while self.answered.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(LIMIT, &format!("{n} answers"), there).await.unwrap();
    }

    /// Lets everybody finish the present request.
    pub(crate) async fn stop(self) -> Served {
        self.stop.send_replace(true);
        let mut failures = Vec::new();
        for one in self.running {
            failures.extend(one.await.unwrap());
        }
        Served { answered: self.answered.load(Ordering::SeqCst), failures }
    }
}

impl Served {
    /// Checks that there was traffic and that nothing of it failed.
    pub(crate) fn all_well(&self) {
        assert!(self.answered >= 20, "only {} answers", self.answered);
        let failed = self.failures.len();
        assert!(self.failures.is_empty(), "{failed} failed, such as {}", self.failures[0]);
    }
}

async fn call(
    address: SocketAddr,
    key: &'static str,
    stop: watch::Receiver<bool>,
    answered: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut stream = false;
    while !*stop.borrow() {
        stream = !stream;
        let request = chat_with(key, "hi", json!({"stream": stream, "max_tokens": 10}));
        let reply = exchange(address, &request, &[], LIMIT).await;
        if reply.status == Some(200) && reply.complete_at.is_some() {
            answered.fetch_add(1, Ordering::SeqCst);
        } else {
            failures.push(format!("{:?} {:?} {}", reply.status, reply.problems, reply.text()));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    failures
}

/// A limit that lets everything through unasked, and hears of it later.
fn counted() -> Value {
    json!([{
        "name": "sum", "scope": {"tenant": "*"}, "dimension": "tokens", "amount": 10_000_000,
        "window": "month", "on_outage": "allow",
    }])
}

/// Waits until every data plane has reported everything; gives the totals, which then must not move.
async fn all_reported(world: &World, requests: std::ops::RangeInclusive<u64>) -> UsageTotal {
    let awaited = format!("{requests:?} requests in the totals");
    let all = world.book.wait_for_usage(LIMIT, &awaited, |all| requests.contains(&all.requests));
    all.await.unwrap();
    let drained = async {
        for plane in &world.planes {
            while metric(plane, "sluicegate_usage_events_waiting", &[]).await > 0.0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    within(LIMIT, "nothing waiting to be counted", drained).await.unwrap();
    let all = world.book.usage(&[]).await.unwrap().remove(0);
    assert!(requests.contains(&all.requests), "{requests:?} expected: {all:?}");
    for plane in &world.planes {
        assert_eq!(metric(plane, "sluicegate_usage_events_dropped", &[]).await, 0.0);
    }
    all
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap()
}

fn tokens(all: &UsageTotal) -> f64 {
    f64::from(u32::try_from(all.input_tokens + all.output_tokens).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_a_killed_control_plane_counts_everything_once() {
    killed_control_plane(Ledger::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_a_killed_control_plane_counts_everything_once_with_redis() {
    killed_control_plane(Ledger::Redis).await;
}

async fn killed_control_plane(ledger: Ledger) {
    let mut world = World::start(ledger, 2, json!({"limits": counted()})).await;
    let callers = Callers::start(&world, "alice", &[0, 1, 0, 1]);
    for _ in 0..3 {
        callers.some(20).await;
        world.control.kill().unwrap();
        world.control.wait_for_exit(LIMIT).await.unwrap();
        callers.some(20).await;
        world.control.restart().await.unwrap();
    }
    world.admin.wait_for_head(2, LIMIT).await.unwrap();
    callers.some(20).await;
    let served = callers.stop().await;
    served.all_well();
    assert_eq!(served.answered, world.upstream.count());
    let count = whole(served.answered);
    let all = all_reported(&world, count..=count).await;
    assert_eq!((all.input_tokens, all.output_tokens), (7 * count, 2 * count), "{all:?}");
    assert_eq!((all.estimated, all.cost_nano), (0, 11_000_000 * count), "{all:?}");
    world.book.wait_for_used("sum", LIMIT, tokens(&all)).await.unwrap();
}

/// Requests that were under way when it died are counted by estimate.
#[tokio::test(flavor = "multi_thread")]
async fn d4_a_killed_data_plane_counts_everything_once() {
    let limits = json!({"limits": counted()});
    let mut world = World::start(Ledger::Embedded, 2, limits).await;
    world.admin.wait_for_disk(2, LIMIT).await.unwrap();
    let callers = Callers::start(&world, "alice", &[0, 1]);
    callers.some(40).await;
    callers.stop().await.all_well();
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = Connection::open(world.planes[0].traffic()).await.unwrap();
        stream.send(&chat_with("bob", TICKS, json!({"stream": true}))).await;
        within(LIMIT, "three events", stream.read_events(3)).await.unwrap();
        streams.push(stream);
    }
    let calls = whole(world.upstream.count());
    world.planes[0].kill().unwrap();
    world.planes[0].wait_for_exit(LIMIT).await.unwrap();
    world.planes[0].restart().await.unwrap();
    world.planes[0].wait_ready(LIMIT).await.unwrap();

    let all = all_reported(&world, calls..=calls).await;
    assert_eq!(all.estimated, 5, "{all:?}");
    let finished = calls - 5;
    assert!(all.input_tokens > 7 * finished && all.output_tokens >= 2 * finished, "{all:?}");
    let rows = world.book.usage(&["key"]).await.unwrap();
    let by_key: Vec<_> = rows.iter().map(|row| (row.key.as_str(), row.requests)).collect();
    assert_eq!(by_key, [("alice", finished), ("bob", 5)]);
    world.book.wait_for_used("sum", LIMIT, tokens(&all)).await.unwrap();
}

/// Killed in the middle of traffic, again and again. What was written down and did not go out any
/// more is at most the request of each caller.
#[tokio::test(flavor = "multi_thread")]
async fn d4_a_data_plane_killed_under_traffic_loses_nothing_and_doubles_nothing() {
    let limits = json!({"limits": counted()});
    let mut world = World::start(Ledger::Embedded, 1, limits).await;
    world.admin.wait_for_disk(1, LIMIT).await.unwrap();
    let callers = Callers::start(&world, "alice", &[0, 0, 0]);
    for _ in 0..3 {
        callers.some(15).await;
        world.planes[0].kill().unwrap();
        world.planes[0].wait_for_exit(LIMIT).await.unwrap();
        world.planes[0].restart().await.unwrap();
        world.planes[0].wait_ready(LIMIT).await.unwrap();
    }
    callers.some(15).await;
    let served = callers.stop().await;
    let calls = whole(world.upstream.count());
    assert!(whole(served.answered) <= calls);
    let all = all_reported(&world, calls..=calls + 9).await;
    assert!(all.requests - all.estimated >= whole(served.answered), "{all:?}");
    let exact = world.book.wait_for_used("sum", IDLE, tokens(&all)).await;
    exact.unwrap_or_else(|error| panic!("{calls} calls, {served:?}, {all:?}: {error:#}"));
}

/// What was under way when a data plane died is priced, even if its policy died with it.
#[tokio::test(flavor = "multi_thread")]
async fn c12_an_interrupted_request_has_its_price_though_the_policy_was_lost() {
    let limits = json!({"limits": counted()});
    let mut world = World::start(Ledger::Embedded, 1, limits).await;
    let mut stream = Connection::open(world.planes[0].traffic()).await.unwrap();
    stream.send(&chat_with("alice", TICKS, json!({"stream": true}))).await;
    within(LIMIT, "three events", stream.read_events(3)).await.unwrap();
    world.planes[0].kill().unwrap();
    world.planes[0].wait_for_exit(LIMIT).await.unwrap();
    for name in ["policy.lkg", "policy.lkg.1"] {
        let path = world.folder().join("data-plane-0").join(name);
        assert!(!path.exists() || std::fs::remove_file(&path).is_ok(), "{}", path.display());
    }
    world.planes[0].restart().await.unwrap();
    world.planes[0].wait_ready(LIMIT).await.unwrap();
    let all = all_reported(&world, 1..=1).await;
    world.book.wait_for_used("sum", IDLE, tokens(&all)).await.unwrap();
    let price = all.input_tokens * 1_000_000 + all.output_tokens * 2_000_000;
    assert_eq!((all.estimated, all.cost_nano), (1, price), "{all:?}");
}

/// What a data plane used while nobody could count it is counted afterwards, even if it is killed in
/// between.
#[tokio::test(flavor = "multi_thread")]
async fn d4_what_was_used_while_nobody_counted_survives_a_kill() {
    let limits = json!({"limits": counted()});
    let mut world = World::start(Ledger::Embedded, 1, limits).await;
    world.admin.wait_for_disk(1, LIMIT).await.unwrap();
    world.control.kill().unwrap();
    world.control.wait_for_exit(LIMIT).await.unwrap();
    for _ in 0..25 {
        let reply = world.ask(&chat("alice", "hi")).await;
        assert_eq!(reply.status, Some(200), "{}", reply.text());
    }
    world.planes[0].kill().unwrap();
    world.planes[0].wait_for_exit(LIMIT).await.unwrap();
    world.control.restart().await.unwrap();
    world.planes[0].restart().await.unwrap();
    let all = all_reported(&world, 25..=25).await;
    assert_eq!((all.input_tokens, all.output_tokens, all.estimated), (175, 50, 0), "{all:?}");
    world.book.wait_for_used("sum", LIMIT, 225.0).await.unwrap();
}
