//! Wall clocks that are an hour wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use sluicegate_testkit::clock;
use sluicegate_testkit::cluster::Cluster;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::Options;
use crate::load::Call;
use crate::upstream::USUAL;
use crate::world::{World, key_name};
use sluicegate_suites::report::{Report, percent};

/// Requests a second of each key; each limit allows fewer.
const RATE: f64 = 25.0;
/// Requests a second that the bucket and the sliding window allow.
const ALLOWED: f64 = 10.0;
const BURST: f64 = 30.0;
/// Window of the sliding limit in seconds.
const WINDOW_S: f64 = 5.0;
/// Requests a day.
const DAILY: f64 = 100.0;
/// A limit may give so much less than it allows: what data planes hold at the end.
const LEAST: f64 = 0.85;

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    for who in ["no one", "data plane", "control plane", "redis"] {
        let offsets: &[i64] = if who == "no one" { &[0] } else { &[3600, -3600] };
        for offset in offsets {
            reports.push(one(options, who, *offset).await?);
        }
    }
    Ok(())
}

async fn one(options: &Options, who: &str, offset: i64) -> anyhow::Result<Report> {
    let (planes, length) = (options.planes(2), options.length(12));
    let mut report =
        Report::new(format!("clocks: {who} {offset:+} s, {planes} data planes, {length:?}"));
    let limits = json!([
        {"name": "bucket", "scope": {"key": key_name(0)}, "dimension": "requests",
         "rate": format!("{ALLOWED}/second"), "burst": BURST},
        {"name": "sliding", "scope": {"key": key_name(1)}, "dimension": "requests",
         "rate": format!("{}/{WINDOW_S}s", ALLOWED * WINDOW_S), "algorithm": "sliding"},
        {"name": "day", "scope": {"key": key_name(2)}, "dimension": "requests",
         "window": "day", "amount": DAILY},
    ]);
    let folder = TempDir::new()?;
    let variables = clock::off_by(offset, folder.path())?;
    let builder = Cluster::builder().redis().control_planes(1).data_planes(planes);
    let builder = match who {
        "data plane" => builder.first_data_plane_variables(&variables),
        "control plane" => builder.control_plane_variables(&variables),
        "redis" => builder.redis_variables(&variables),
        _ => builder,
    };
    let world = World::start_with(builder, planes, 3, limits).await?;
    if let Some(seconds) = wrong(&world, who).await? {
        report.row("clock is wrong by", format!("{seconds:.0} s"));
    }
    let begun = Instant::now();
    let mut number = 0;
    let pick = || {
        number += 1;
        call(number % planes, (number / planes) % 3)
    };
    let outcomes = world.callers.offer(3.0 * RATE, length, pick).await?;
    let ran = begun.elapsed().as_secs_f64();
    let sliding = ALLOWED * WINDOW_S * (1.0 + (ran / WINDOW_S).ceil());
    for (key, name, most, usual) in [
        (0, "bucket", BURST + ALLOWED * ran, BURST + ALLOWED * length.as_secs_f64()),
        (1, "sliding", sliding, ALLOWED * length.as_secs_f64()),
        (2, "day", DAILY, DAILY),
    ] {
        let of = outcomes.iter().filter(|it| it.call.key == key);
        let (admitted, all) = of.fold((0_u32, 0_u32), |(admitted, all), it| {
            (admitted + u32::from(it.is_admitted()), all + 1)
        });
        let admitted = f64::from(admitted);
        let usual = usual.min(f64::from(all));
        let holds = admitted <= most && admitted >= LEAST * usual;
        report.bound(
            &format!("{name}: admitted of {all}"),
            format!("{admitted} ({} of {usual:.0})", percent(admitted, usual)),
            &format!("{:.0} to {most:.0}", LEAST * usual),
            holds,
        );
    }
    let failed: Vec<_> = outcomes.iter().filter(|it| it.is_failed()).collect();
    report.bound("failed", failed.len(), "0", failed.is_empty());
    for one in failed.iter().take(2) {
        report.note(format!("  failed: {:?} {} {}", one.status, one.code, one.message));
    }
    crate::overshoot::counted(&mut report, &world).await?;
    Ok(report)
}

/// By how many seconds the process' wall clock is ahead, as it says itself. `None`: of whom nobody
/// can tell; the library is in it at least.
async fn wrong(world: &World, who: &str) -> anyhow::Result<Option<f64>> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64());
    match who {
        "redis" => {
            let said = world.redis_client().await?.command(&["TIME"]).await?;
            let seconds = said.array()?.first().context("TIME was empty")?.text()?;
            Ok(Some(seconds.parse::<f64>()? - now()?))
        }
        "control plane" => {
            let said = world.cluster.cli(&["history", "-o", "json"]).await?;
            let said: Value = serde_json::from_str(&said.stdout)?;
            let time = said["entries"][0]["time"].as_str();
            let time: Timestamp = time.with_context(|| format!("no time in {said}"))?.parse()?;
            Ok(Some(time.as_millisecond() as f64 / 1000.0 - now()?))
        }
        "data plane" => {
            let pid = world.cluster.data_planes[0].pid();
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
            ensure!(maps.contains("clock.so"), "the data plane's clock is right");
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn call(plane: usize, key: usize) -> Call {
    Call {
        plane,
        key,
        model: USUAL,
        output: 1,
        max_tokens: Some(4),
        delay: Duration::from_millis(5),
        stream: false,
    }
}
