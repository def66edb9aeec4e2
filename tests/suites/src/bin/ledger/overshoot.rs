//! Twice the load that a token limit holds, unevenly spread over many data planes.

use std::time::Duration;

use tokio::time::Instant;

use crate::bucket::{Bucket, Run, skewed};
use crate::world::{Difference, World};
use crate::{Options, upstream::Served};
use sluicegate_suites::report::{Report, percent};

/// Keys that share the limit.
const KEYS: usize = 20;
/// How long everything may take until it is counted.
const SETTLES: Duration = Duration::from_secs(30);

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    for (strict, expected) in [(true, false), (false, false), (false, true)] {
        reports.push(one(options, strict, expected).await?);
    }
    Ok(())
}

async fn one(options: &Options, strict: bool, expected: bool) -> anyhow::Result<Report> {
    let (planes, length) = (options.planes(10), options.length(60));
    let bucket = Bucket { per_minute: options.rate, burst: options.burst, strict, expected };
    let profile = match (strict, expected) {
        (true, _) => "strict",
        (false, false) => "default",
        (false, true) => "default, reserve: expected",
    };
    let mut report = Report::new(format!(
        "overshoot ({profile}): {}/minute, burst {}, {planes} data planes, {length:?}",
        bucket.per_minute, bucket.burst,
    ));
    let world = World::start(planes, KEYS, bucket.limits()).await?;
    let begun = Instant::now();
    let outcomes = world.callers.offer(bucket.double(), length, skewed(planes, KEYS)).await?;
    let mut served: Vec<Served> = world.upstream.books.all();
    let run = Run { bucket: &bucket, begun, length, served: &mut served, outcomes: &outcomes };
    let judged = run.judge(&mut report);
    if strict {
        let tokens = format!("{:.0}", judged.overshoot);
        report.bound("overshoot", tokens, "0", judged.overshoot <= 0.0);
    } else {
        let holds = judged.overshoot <= 0.01 * judged.allowed;
        report.bound("overshoot", percent(judged.overshoot, judged.allowed), "<= 1 %", holds);
    }
    let used = percent(judged.used, 1.0);
    report.bound("used of what one counter could give", used, ">= 98 %", judged.used >= 0.98);
    counted(&mut report, &world).await?;
    Ok(report)
}

/// Compares usage with the upstream's books.
pub(crate) async fn counted(report: &mut Report, world: &World) -> anyhow::Result<()> {
    let (difference, took) = world.settled(SETTLES).await?;
    let Difference { lost, doubled } = difference;
    report.row("usage compared after", format!("{took:.1?}"));
    let shown = |totals: crate::world::Totals| {
        let crate::world::Totals { requests, input, output, .. } = totals;
        format!("{requests} requests, {input} input, {output} output")
    };
    let none = |totals: crate::world::Totals| totals.requests + totals.input + totals.output == 0;
    report.bound("usage lost", shown(lost), "0", none(lost));
    report.bound("usage counted twice", shown(doubled), "0", none(doubled));
    report.bound("usage estimated", doubled.estimated, "0", doubled.estimated == 0);
    Ok(())
}
