//! Redis, or the control plane, that stops answering while its connections stay open.

use std::time::Duration;

use serde_json::json;
use sluicegate_testkit::process::Process;
use tokio::time::{Instant, sleep_until};

use crate::Options;
use crate::load::{Call, Outcome};
use crate::upstream::USUAL;
use crate::world::World;
use sluicegate_suites::report::{Report, Spread};

/// Requests a second in all; each limit has half of them and allows twice that.
const RATE: f64 = 120.0;
/// Load before the stop and after it.
const AROUND: Duration = Duration::from_secs(10);
/// Added latency that is bearable while nobody can be asked, at the median.
const BEARABLE_MS: f64 = 5.0;
/// A request that took so long was held up by somebody.
const SLOW: Duration = Duration::from_millis(150);
/// The key of each limit.
const SHARE: usize = 0;
const DENY: usize = 1;

/// Who stops.
#[derive(Debug, Clone, Copy)]
enum Who {
    Redis,
    ControlPlane,
}

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    reports.push(one(options, Who::Redis).await?);
    reports.push(one(options, Who::ControlPlane).await?);
    Ok(())
}

async fn one(options: &Options, who: Who) -> anyhow::Result<Report> {
    let (planes, stopped) = (options.planes(3), options.length(30));
    let mut report =
        Report::new(format!("outage: {who:?} stopped for {stopped:?}, {planes} data planes"));
    let limit = |name: &str, key: usize, on_outage: &str| {
        json!({
            "name": name,
            "scope": {"key": crate::world::key_name(key)},
            "dimension": "requests",
            "rate": format!("{}/minute", RATE * 60.0),
            "on_outage": on_outage,
        })
    };
    let limits = json!([limit("share", SHARE, "last_share"), limit("deny", DENY, "deny")]);
    let world = World::start(planes, 2, limits).await?;
    let process: &Process = match who {
        Who::Redis => world.redis()?,
        Who::ControlPlane => &world.cluster.control_planes[0],
    };
    let callers = world.callers.clone();
    let begun = Instant::now();
    let length = AROUND + stopped + AROUND;
    let mut number = 0;
    let pick = move || {
        number += 1;
        call(number % planes, (number / planes) % 2)
    };
    let offering = tokio::spawn(async move { callers.offer(RATE, length, pick).await });
    sleep_until(begun + AROUND).await;
    process.freeze()?;
    let frozen = Instant::now();
    sleep_until(frozen + stopped).await;
    process.thaw()?;
    let thawed = Instant::now();
    let outcomes = offering.await??;
    for (name, key) in [("last_share", SHARE), ("deny", DENY)] {
        let of: Vec<_> = outcomes.iter().filter(|it| it.call.key == key).collect();
        phases(&mut report, name, &of, [begun, frozen, thawed]);
    }
    crate::overshoot::counted(&mut report, &world).await?;
    Ok(report)
}

/// What happened under one limit before, during and after.
fn phases(report: &mut Report, name: &str, outcomes: &[&Outcome], times: [Instant; 3]) {
    let [begun, frozen, thawed] = times;
    let phase = |from: Instant, to: Instant| {
        let within = outcomes.iter().filter(|it| it.sent >= from && it.sent < to);
        within.copied().collect::<Vec<&Outcome>>()
    };
    // The first seconds are those of cold connections.
    let before = phase(begun + Duration::from_secs(2), frozen);
    let during = phase(frozen, thawed);
    let after = phase(thawed, thawed + AROUND * 10);
    let mut medians = Vec::new();
    for (when, phase) in [("before", &before), ("during", &during), ("after", &after)] {
        let admitted = phase.iter().filter(|it| it.is_admitted());
        let spread = Spread::of(admitted.map(|it| it.took()));
        medians.push(spread);
        let refused = phase.iter().filter(|it| it.is_refused()).count();
        let failed: Vec<_> = phase.iter().filter(|it| it.is_failed()).collect();
        report.row(
            &format!("{name}, {when}: admitted, refused, failed"),
            format!("{}, {refused}, {}  of {}", spread.n, failed.len(), phase.len()),
        );
        let other = Spread::of(phase.iter().filter(|it| !it.is_admitted()).map(|it| it.took()));
        report.row(&format!("{name}, {when}: latency of the admitted"), spread);
        if other.n > 0 {
            report.row(&format!("{name}, {when}: latency of the others"), other);
        }
        for one in failed.iter().take(1) {
            report.note(format!("  failed: {:?} {} {}", one.status, one.code, one.message));
        }
    }
    if name == "last_share" {
        let added = medians[1].p50 - medians[0].p50;
        let tail = medians[1].p99 - medians[0].p99;
        report.row("last_share: added latency p99", format!("{tail:.1} ms"));
        let (added_text, holds) = (format!("{added:.1} ms"), added <= BEARABLE_MS);
        report.bound("last_share: added latency p50", added_text, "<= 5 ms", holds);
        let not_served = during.iter().filter(|it| !it.is_admitted()).count();
        report.bound("last_share: not served during", not_served, "0", not_served == 0);
    }
    let broken = outcomes.iter().filter(|it| it.is_failed()).count();
    report.bound(&format!("{name}: failed"), broken, "0", broken == 0);
    let slow: Vec<_> = after.iter().filter(|it| it.took() >= SLOW).collect();
    let at = |it: &&&Outcome| (it.sent - thawed).as_millis();
    report.row(
        &format!("{name}, after: slower than {SLOW:?}"),
        format!(
            "{} of {}, sent {:?} to {:?} ms after SIGCONT",
            slow.len(),
            after.len(),
            slow.iter().map(at).min(),
            slow.iter().map(at).max(),
        ),
    );
    let last = after.iter().filter(|it| !it.is_admitted()).map(|it| it.over).max();
    let recovered = last.map_or(0, |last| (last - thawed).as_millis());
    report.bound(
        &format!("{name}: last request not admitted after SIGCONT"),
        format!("{recovered} ms"),
        "<= 5000 ms",
        recovered <= 5000,
    );
}

fn call(plane: usize, key: usize) -> Call {
    Call {
        plane,
        key,
        model: USUAL,
        output: 1,
        max_tokens: Some(4),
        delay: Duration::from_millis(20),
        stream: false,
    }
}
