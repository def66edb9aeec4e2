//! A limit that is lowered for one key in the middle of its traffic, and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::json;
use sluicegate_proto::admin::v1::Change;
use sluicegate_proto::resource::v1::resource::Spec;
use sluicegate_proto::resource::v1::{LimitScope, Override};
use sluicegate_suites::admin;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Options;
use crate::load::{Call, Callers, Outcome};
use crate::upstream::USUAL;
use crate::world::{LIMIT, World, key_name};
use sluicegate_suites::report::{Report, Spread};

/// The key whose limit is lowered, and the one that must not notice.
const LOUD: usize = 0;
const CALM: usize = 1;
/// Pause between two requests of the loud key to one data plane.
const PAUSE: Duration = Duration::from_millis(2);
/// Requests a second of the calm key.
const CALM_RATE: f64 = 30.0;
/// How many answers in a row show that a data plane has changed its mind.
const SURE: usize = 5;
/// How long an override that ends by itself lasts.
const LASTS: Duration = Duration::from_secs(3);

/// What one data plane last said to the loud key.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// How many answers in a row were alike.
    alike: usize,
    admitted: bool,
    /// When the first of them was there.
    since: Instant,
}

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let planes = options.planes(3);
    let trials = options.trials;
    let mut report = Report::new(format!("lowered: {trials} times, {planes} data planes"));
    let limits = json!([
        {"name": "rpm", "scope": {"key": "*"}, "dimension": "requests", "rate": "600000/minute"},
    ]);
    let mut world = World::start(planes, 2, limits).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut loud = Vec::new();
    let mut running = JoinSet::new();
    for plane in 0..planes {
        let now = Instant::now();
        let (seen, watched) = watch::channel(Seen { alike: 0, admitted: false, since: now });
        loud.push(watched);
        running.spawn(shout(world.callers.clone(), plane, seen, stop.clone()));
    }
    let calm = tokio::spawn(speak(world.callers.clone(), planes, stop.clone()));
    everywhere(&mut loud, true).await?;

    let (mut enforced, mut applied, mut lifted) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..trials {
        let begun = Instant::now();
        world.admin.apply(vec![admin::put(lower(String::new()))]).await?;
        applied.push(begun.elapsed());
        enforced.push(everywhere(&mut loud, false).await?.saturating_duration_since(begun));
        let begun = Instant::now();
        world.admin.apply(vec![lift()]).await?;
        lifted.push(everywhere(&mut loud, true).await?.saturating_duration_since(begun));
    }
    let ended = by_itself(&mut world, &mut loud).await?;
    stop.store(true, Ordering::Relaxed);
    let mut failed = Vec::new();
    for outcomes in running.join_all().await {
        failed.extend(outcomes);
    }
    let calm = calm.await??;

    report.row("Apply returned", Spread::of(applied));
    let spread = Spread::of(enforced);
    report.row("Apply sent to the last data plane refusing", spread);
    report.bound("  p99", format!("{:.1} ms", spread.p99), "<= 1000 ms", spread.p99 <= 1000.0);
    report.row("Delete sent to the last data plane admitting", Spread::of(lifted));
    report.row("override's own end to the last data plane admitting", format!("{ended:.0} ms"));
    report.bound("loud key: answers that were neither", failed.len(), "0", failed.is_empty());
    let bad: Vec<_> = calm.iter().filter(|it| !it.is_admitted() || !it.whole).collect();
    report.bound("calm key: refused or failed", bad.len(), "0", bad.is_empty());
    for one in failed.iter().chain(bad).take(3) {
        report.note(format!("  {:?} {} {}", one.status, one.code, one.message));
    }
    report.row("calm key: latency", Spread::of(calm.iter().map(Outcome::took)));
    reports.push(report);
    Ok(())
}

/// Almost nothing for the loud key.
fn lower(expires_at: String) -> Spec {
    Spec::Override(Override {
        name: "quiet".into(),
        limit: "rpm".into(),
        subject: Some(LimitScope { key: key_name(LOUD), ..LimitScope::default() }),
        rate: "1/minute".into(),
        burst: Some(1.0),
        expires_at,
        ..Override::default()
    })
}

fn lift() -> Change {
    admin::delete("override", "quiet")
}

/// An override that ends by itself: milliseconds from its end until everyone admits again; below 0
/// if that was too early.
async fn by_itself(world: &mut World, loud: &mut [watch::Receiver<Seen>]) -> anyhow::Result<f64> {
    let (wall, begun) = (SystemTime::now(), Instant::now());
    let end = Timestamp::try_from(wall + LASTS)?;
    world.admin.apply(vec![admin::put(lower(end.to_string()))]).await?;
    everywhere(loud, false).await?;
    let admitting = everywhere(loud, true).await?;
    Ok(((admitting - begun).as_secs_f64() - LASTS.as_secs_f64()) * 1000.0)
}

/// Waits until every data plane admits, or refuses, for good; gives when the last one began to.
async fn everywhere(loud: &mut [watch::Receiver<Seen>], admitted: bool) -> anyhow::Result<Instant> {
    let mut last = None;
    for plane in loud {
        let sure = plane.wait_for(|seen| seen.admitted == admitted && seen.alike >= SURE);
        let seen = tokio::time::timeout(LIMIT, sure).await;
        let what = if admitted { "admit" } else { "refuse" };
        let seen = seen.with_context(|| format!("a data plane did not {what} in {LIMIT:?}"))?;
        last = last.max(Some(seen?.since));
    }
    last.context("no data plane")
}

/// Asks one data plane again and again; gives the answers that were neither yes nor no.
async fn shout(
    callers: Arc<Callers>,
    plane: usize,
    seen: watch::Sender<Seen>,
    stop: Arc<AtomicBool>,
) -> Vec<Outcome> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let outcome = callers.call(short(plane, LOUD)).await;
        let admitted = outcome.is_admitted();
        seen.send_modify(|seen| {
            if seen.admitted == admitted {
                seen.alike += 1;
            } else {
                *seen = Seen { alike: 1, admitted, since: outcome.over };
            }
        });
        if outcome.is_failed() {
            failed.push(outcome);
        }
        sleep(PAUSE).await;
    }
    failed
}

/// Asks all data planes in turn.
async fn speak(
    callers: Arc<Callers>,
    planes: usize,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Vec<Outcome>> {
    let mut all = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut plane = 0;
        let pick = || {
            plane += 1;
            short(plane % planes, CALM)
        };
        all.extend(callers.offer(CALM_RATE, Duration::from_secs(1), pick).await?);
    }
    ensure!(!all.is_empty(), "the calm key said nothing");
    Ok(all)
}

fn short(plane: usize, key: usize) -> Call {
    Call {
        plane,
        key,
        model: USUAL,
        output: 1,
        max_tokens: Some(4),
        delay: Duration::ZERO,
        stream: false,
    }
}
