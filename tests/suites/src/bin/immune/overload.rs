//! More than a server can do, and one request that is larger than all others together.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::report::{Report, Spread, percent};
use tokio::time::{Instant, sleep_until};

use crate::Options;
use crate::beside::codes;
use crate::load::{Outcome, chat};
use crate::server::{Manner, Server};
use crate::world::{World, model};

/// Requests that the server serves at one time: thirty a second of 2.8 s each.
const SLOTS: usize = 84;
const TAKES_MS: u64 = 2_800;

/// A hundred requests a second onto a server that does thirty.
pub(crate) async fn burst(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let declared = json!({ "capacity": { "max_requests": SLOTS } });
    for (what, provider, unavailable) in [
        (
            "reject, capacity declared",
            declared.clone(),
            json!({ "answer": "reject", "wait_ms": 0 }),
        ),
        (
            "wait up to 8 s, capacity declared",
            declared,
            json!({ "answer": "wait", "wait_ms": 8_000 }),
        ),
        ("reject, capacity found out", json!({}), json!({ "answer": "reject", "wait_ms": 0 })),
        (
            "wait up to 8 s, capacity found out",
            json!({}),
            json!({ "answer": "wait", "wait_ms": 8_000 }),
        ),
    ] {
        let mut report = Report::new(format!("100/s onto 30/s of {TAKES_MS} ms: {what}"));
        one_burst(options, provider, unavailable, &mut report).await?;
        reports.push(report);
    }
    Ok(())
}

/// The same, where what does not fit is kept, and run later.
pub(crate) async fn defer(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let mut report = Report::new(format!("100/s onto 30/s of {TAKES_MS} ms: defer"));
    let server = Server::start(Manner { most: SLOTS, ..Manner::default() }).await?;
    let defer = json!({ "when_unavailable": { "answer": "defer", "wait_ms": 0 } });
    let capacity = json!({ "capacity": { "max_requests": SLOTS } });
    let world =
        World::start(&[("p", server.address, capacity)], json!([model("m", "p", defer)])).await?;
    let begun = Instant::now();
    let outcomes =
        world.callers.offer(100.0, options.length(60), || chat("m", TAKES_MS, "hello")).await;
    let offered = begun.elapsed();
    let served = outcomes.iter().filter(|it| it.is_served()).count();
    let kept: Vec<_> = outcomes.iter().filter_map(|it| it.kept.clone()).collect();
    report.row(
        "asked, served at once, kept",
        format!("{}, {served}, {}", outcomes.len(), kept.len()),
    );
    let neither = outcomes.len() - served - kept.len();
    report.bound("neither", format!("{neither}: {}", codes(&outcomes)), "0", neither == 0);
    let live = outcomes.iter().filter(|it| it.is_served());
    report.row("latency of those served at once", Spread::of(live.map(Outcome::took)));
    let accepted = outcomes.iter().filter(|it| it.kept.is_some());
    report.row("202 took", Spread::of(accepted.map(Outcome::took)));
    let (mut done, mut left) = (0, kept.clone());
    // Three times as long as the server needs for all of it.
    let patience = Duration::from_secs(60 + kept.len() as u64 / 10);
    while !left.is_empty() && begun.elapsed() < offered + patience {
        let mut later = Vec::new();
        for id in left {
            match world.callers.fetch(&id).await.as_deref() {
                Some("done") => done += 1,
                _ => later.push(id),
            }
        }
        left = later;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let text = format!("{done} of {} after {:.0} s", kept.len(), begun.elapsed().as_secs_f64());
    report.bound("kept ones that ended well", text, "all", done == kept.len());
    let (reached, refused) =
        (server.reached(), server.counts.refused.load(std::sync::atomic::Ordering::Relaxed));
    report.row("calls that reached the server, and it refused", format!("{reached}, {refused}"));
    reports.push(report);
    Ok(())
}

async fn one_burst(
    options: &Options,
    provider: Value,
    unavailable: Value,
    report: &mut Report,
) -> anyhow::Result<()> {
    let server = Server::start(Manner { most: SLOTS, ..Manner::default() }).await?;
    let models = json!([model("m", "p", json!({ "when_unavailable": unavailable }))]);
    let world = World::start(&[("p", server.address, provider)], models).await?;
    let length = options.length(60);
    let begun = Instant::now();
    let outcomes = world.callers.offer(100.0, length, || chat("m", TAKES_MS, "hello")).await;
    let took = begun.elapsed();
    let refused: Vec<_> = outcomes.iter().filter(|it| it.code == "target_full").collect();
    let served: Vec<_> = outcomes.iter().filter(|it| it.is_served()).collect();
    let admitted = outcomes.len() - refused.len();
    let success = 100.0 * served.len() as f64 / admitted as f64;
    report.row(
        "asked, admitted, served",
        format!("{}, {admitted}, {}", outcomes.len(), served.len()),
    );
    report.bound(
        "success of the admitted",
        format!("{success:.2} %"),
        ">= 99.2 %",
        success >= 99.2,
    );
    report.row(
        "served of what the server can",
        percent(served.len() as f64, 30.0 * took.as_secs_f64()),
    );
    report.row("their latency", Spread::of(served.iter().map(|it| it.took())));
    report.row("refusals took", Spread::of(refused.iter().map(|it| it.took())));
    let clean = refused.iter().filter(|it| it.clean).count();
    let text = format!("{clean} of {}", refused.len());
    report.bound("refusals that say all they must", text, "all", clean == refused.len());
    let waits = refused.iter().filter_map(|it| it.retry_after_ms).map(Duration::from_millis);
    report.row("told waits", Spread::of(waits));
    report.row(
        "the server refused",
        server.counts.refused.load(std::sync::atomic::Ordering::Relaxed),
    );
    report.note(format!("told: {}", codes(&outcomes)));
    truth(&world, report).await;
    Ok(())
}

/// A full server, and nothing more to come: who was refused and comes back when told is served.
async fn truth(world: &World, report: &mut Report) {
    let fill =
        world.callers.offer(1_000.0, Duration::from_millis(114), || chat("m", TAKES_MS, "x"));
    let late = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let refused = world.callers.offer(50.0, Duration::from_millis(400), || chat("m", 1, "x"));
        let refused: Vec<Outcome> = refused.await;
        let mut again = tokio::task::JoinSet::new();
        for outcome in refused.into_iter().filter(|it| it.code == "target_full") {
            let callers = world.callers.clone();
            again.spawn(async move {
                let told = Duration::from_millis(outcome.retry_after_ms.unwrap_or(0));
                sleep_until(outcome.over + told).await;
                callers.call(&chat("m", 1, "x")).await.is_served()
            });
        }
        again.join_all().await
    };
    let (_, again) = tokio::join!(fill, late);
    let served = again.iter().filter(|served| **served).count();
    report.row("refused, came back when told, and served", format!("{served} of {}", again.len()));
}

/// Tokens that the server has in hand at full speed.
const ROOM: u64 = 1_000_000;

/// A request of a million tokens each second, beside small ones.
pub(crate) async fn million(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let mut report = Report::new("a million tokens each second beside 40 small requests a second");
    let gated = json!({ "capacity": { "max_tokens": ROOM, "adaptive": false } });
    let alone = million_beside(options, gated.clone(), false).await?;
    let beside = million_beside(options, gated, true).await?;
    let open = million_beside(options, json!({ "capacity": { "adaptive": false } }), true).await?;
    let spread = |outcomes: &[Outcome]| Spread::of(outcomes.iter().map(Outcome::took));
    let (before, during, ungated) = (spread(&alone.0), spread(&beside.0), spread(&open.0));
    report.row("small ones alone", before);
    report.row("small ones beside a million each second", during);
    report.row("small ones without a bound", ungated);
    let ratio = during.p99 / before.p99;
    report.bound("p99 of small ones", format!("x {ratio:.2}"), "<= x 1.5", ratio <= 1.5);
    report.row("and without a bound", format!("x {:.1}", ungated.p99 / before.p99));
    report.row("small ones", codes(&beside.0));
    report.row("large ones", codes(&beside.1));
    reports.push(report);
    Ok(())
}

async fn million_beside(
    options: &Options,
    provider: Value,
    large: bool,
) -> anyhow::Result<(Vec<Outcome>, Vec<Outcome>)> {
    let server = Server::start(Manner { full_speed: ROOM as f64, ..Manner::default() }).await?;
    let wait = json!({ "when_unavailable": { "wait_ms": 60_000 } });
    let models = json!([model("m", "p", wait)]);
    let world = World::start(&[("p", server.address, provider)], models).await?;
    let length = options.length(40);
    let text: String = "word ".repeat(1_000_000);
    let small = world.callers.offer(40.0, length, || {
        let tokens = fastrand::usize(2_000..6_000);
        chat("m", 200 + tokens as u64 / 10, text.get(..tokens * 5).unwrap_or_default())
    });
    let big = async {
        if !large {
            return Vec::new();
        }
        world.callers.offer(1.0, length, || chat("m", 8_000, &text)).await
    };
    Ok(tokio::join!(small, big))
}
