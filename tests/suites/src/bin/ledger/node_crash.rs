//! A data plane that is killed in the middle of many streams.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use sluicegate_testkit::client::Connection;
use sluicegate_testkit::deadline::within;
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::load::Call;
use crate::upstream::USUAL;
use crate::world::{LIMIT, Totals, World, key_name};
use sluicegate_suites::report::Report;

/// Streams that are under way.
const STREAMS: usize = 200;
/// Time between two tokens of a stream.
const TICK: Duration = Duration::from_millis(100);
/// Events of its stream that each caller has read before the crash.
const EVENTS: usize = 5;
/// How long what is reserved may take to come back by itself: more than any lease lives.
const QUIET: Duration = Duration::from_secs(45);
/// The key whose streams break, and another one that goes on elsewhere.
const KEYS: usize = 2;

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    reports.push(one(options, false).await?);
    reports.push(one(options, true).await?);
    Ok(())
}

async fn one(options: &Options, strict: bool) -> anyhow::Result<Report> {
    let (planes, length) = (options.planes(2).max(2), options.length(10));
    let profile = if strict { "strict" } else { "default" };
    let mut report = Report::new(format!(
        "node-crash ({profile}): {STREAMS} streams, {length:?} before the crash"
    ));
    let limits = json!([
        {"name": "tpm", "scope": {"key": "*"}, "dimension": "tokens", "rate": "6000000/minute", "strict": strict},
        {"name": "running", "scope": {"key": "*"}, "dimension": "concurrency", "amount": 1000},
        {"name": "day", "scope": {"key": "*"}, "dimension": "cost", "window": "day", "amount": 100, "strict": strict},
    ]);
    let mut world = World::start(planes, KEYS, limits).await?;
    let call = |plane: usize| Call {
        plane,
        key: plane.min(KEYS - 1),
        model: USUAL,
        output: 100_000,
        max_tokens: Some(4_000),
        delay: TICK,
        stream: true,
    };
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = Connection::open(world.cluster.data_planes[0].traffic()).await?;
        stream.send(&world.callers.request(&call(0))).await;
        open.push(stream);
    }
    for stream in &mut open {
        within(LIMIT, "events of a stream", stream.read_events(EVENTS)).await?;
        ensure!(stream.reply().status == Some(200), "{:?}", stream.reply().text());
    }
    sleep(length).await;
    let held = reserved(&world).await?;
    world.cluster.data_planes[0].kill()?;
    let killed = Instant::now();
    for mut stream in open {
        within(LIMIT, "the end of a stream", stream.read_to_end()).await?;
    }
    // The upstream counts on until it notices.
    let truth = steady_truth(&world).await;
    let restarting = Instant::now();
    world.cluster.data_planes[0].restart().await?;
    report.row("reserved while the streams ran", format!("{held:?}"));
    report.row("restarted after the crash", format!("{:.1?}", restarting - killed));
    let (usage, counted) = counted(&world, truth.requests).await?;
    report.row("upstream: requests, input, output tokens", shown(truth));
    report.row("ledger: requests, input, output tokens", shown(usage));
    report.row("counted after the restart", format!("{:.1?}", counted - restarting));
    let lost = truth.requests.saturating_sub(usage.requests);
    let doubled = usage.requests.saturating_sub(truth.requests);
    report.bound("requests lost", lost, "0", lost == 0);
    report.bound("requests counted twice", doubled, "0", doubled == 0);
    let marked = usage.estimated == usage.requests;
    report.bound("of them marked as estimated", usage.estimated, "all", marked);
    let difference = usage.output as f64 - truth.output as f64;
    let per_stream = difference / STREAMS as f64;
    report.row(
        "output tokens: ledger less upstream",
        format!(
            "{difference} ({:+.2} %, {per_stream:+.1} tokens or {:+.2} s of each stream)",
            100.0 * difference / truth.output as f64,
            per_stream * TICK.as_secs_f64(),
        ),
    );
    let unasked = freed(&world, QUIET).await?;
    let since = |at: Instant| format!("{:.1?} after the restart", at - restarting);
    let shown = unasked.map_or(format!("not within {QUIET:?}"), since);
    report.row("reserved went back to 0 with no more requests", shown);
    let mut freed_at = unasked;
    if unasked.is_none() {
        report.note(format!("  left: {:?}", reserved(&world).await?));
        // A meter that nobody asks may be looked after by the next request alone.
        let short = Call { output: 1, delay: Duration::ZERO, stream: false, ..call(0) };
        let outcome = world.callers.call(short).await;
        report.row("  one more request", format!("{:?} {}", outcome.status, outcome.message));
        freed_at = freed(&world, LIMIT).await?;
    }
    report.bound(
        "reserved went back to 0",
        freed_at.map_or(format!("never: {:?}", reserved(&world).await?), since),
        "it does",
        freed_at.is_some(),
    );
    Ok(report)
}

fn shown(totals: Totals) -> String {
    format!("{}, {}, {}", totals.requests, totals.input, totals.output)
}

/// What is reserved of each limit.
async fn reserved(world: &World) -> anyhow::Result<Vec<(String, f64)>> {
    let meters = world.meters().await?;
    Ok(meters.into_iter().map(|meter| (meter.limit, meter.reserved)).collect())
}

/// What the first key truly used, once nothing is added any more.
async fn steady_truth(world: &World) -> Totals {
    let read = || world.truth().get(&key_name(0)).copied().unwrap_or_default();
    let mut before = read();
    loop {
        sleep(TICK * 5).await;
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Waits until so many requests of the first key are counted, or the time is over.
async fn counted(world: &World, requests: u64) -> anyhow::Result<(Totals, Instant)> {
    let begun = Instant::now();
    loop {
        let usage = world.usage().await?.get(&key_name(0)).copied().unwrap_or_default();
        if usage.requests >= requests || begun.elapsed() > LIMIT {
            return Ok((usage, Instant::now()));
        }
        sleep(TICK).await;
    }
}

/// Waits until nothing is reserved; `None`: in vain.
async fn freed(world: &World, limit: Duration) -> anyhow::Result<Option<Instant>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if reserved(world).await?.iter().all(|(_, amount)| *amount == 0.0) {
            return Ok(Some(Instant::now()));
        }
        sleep(TICK).await;
    }
    Ok(None)
}
