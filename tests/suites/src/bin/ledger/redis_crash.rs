//! A Redis that crashes and comes back as it was some seconds before.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep_until};

use crate::Options;
use crate::bucket::{Bucket, Run, skewed};
use crate::overshoot::counted;
use crate::world::World;
use sluicegate_suites::report::{Report, percent};

/// Keys that share the limit.
const KEYS: usize = 20;
/// Time between the dump and the crash.
const DUMPED: Duration = Duration::from_secs(5);
/// Time between the crash and the new start.
const DOWN: Duration = Duration::from_millis(500);

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    reports.push(one(options, false).await?);
    reports.push(one(options, true).await?);
    Ok(())
}

async fn one(options: &Options, strict: bool) -> anyhow::Result<Report> {
    let (planes, length) = (options.planes(10), options.length(60));
    let bucket = Bucket { per_minute: options.rate, burst: options.burst, strict, expected: false };
    let profile = if strict { "strict" } else { "default" };
    let mut report = Report::new(format!(
        "redis-crash ({profile}): {}/minute, burst {}, {planes} data planes, {length:?}",
        bucket.per_minute, bucket.burst,
    ));
    let mut world = World::start(planes, KEYS, bucket.limits()).await?;
    let callers = world.callers.clone();
    let begun = Instant::now();
    let offering =
        tokio::spawn(
            async move { callers.offer(bucket.double(), length, skewed(planes, KEYS)).await },
        );
    let crash = begun + length / 3;
    let dumped = crash.checked_sub(DUMPED.min(length / 6)).unwrap_or(begun);
    sleep_until(dumped).await;
    let saved = world.redis_client().await?.command(&["SAVE"]).await?;
    ensure!(saved.text()? == "OK", "SAVE gave {saved:?}");
    sleep_until(crash).await;
    let redis = world.redis()?;
    redis.kill()?;
    redis.wait_for_exit(crate::world::LIMIT).await?;
    let down = Instant::now();
    sleep_until(down + DOWN).await;
    if let Some(redis) = &mut world.cluster.redis {
        redis.restart().await?;
    }
    let away = down.elapsed();
    let outcomes = offering.await??;
    let mut served = world.upstream.books.all();
    report.row("dump before the crash", format!("{:.1?}", crash - dumped));
    report.row("Redis was away", format!("{away:.1?}"));
    let run = Run { bucket: &bucket, begun, length, served: &mut served, outcomes: &outcomes };
    let judged = run.judge(&mut report);
    let around = outcomes.iter().filter(|it| it.sent >= crash && it.sent < crash + away);
    let (refused, all) =
        around.fold((0, 0), |(refused, all), it| (refused + usize::from(it.is_refused()), all + 1));
    report.row("refused while Redis was away", format!("{refused} of {all}"));
    let part = percent(judged.overshoot, judged.allowed);
    if strict {
        report.bound("overshoot", part, "0", judged.overshoot <= 0.0);
    } else {
        report.bound("overshoot", part, "<= 1 %", judged.overshoot <= 0.01 * judged.allowed);
    }
    counted(&mut report, &world).await?;
    Ok(report)
}
