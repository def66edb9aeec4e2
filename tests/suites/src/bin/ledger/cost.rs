//! What limits cost: operations of Redis, calls of the control plane, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::redis::RedisClient;

use crate::Options;
use crate::load::{Call, Outcome};
use crate::upstream::USUAL;
use crate::world::{World, key_name};
use sluicegate_suites::report::{Report, Spread};

/// Requests a second under the leased limit.
const RATE: f64 = 200.0;
/// Requests a second of the key without limits and of the one with a small limit, together.
const PAIRED: f64 = 40.0;
/// Most lease operations for a thousand requests under a limit that is shared out.
const LEASES_MOST: f64 = 100.0;
/// Time for the first leases to find their size.
const WARM: Duration = Duration::from_secs(5);
/// Keys: under the leased limit, under the small limit, under none.
const LEASED: usize = 0;
const DIRECT: usize = 1;
const FREE: usize = 2;

/// Calls and microseconds of each command.
type Commands = BTreeMap<String, (u64, u64)>;

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let (planes, length) = (options.planes(1), options.length(20));
    let leased = json!({"name": "leased", "scope": {"key": key_name(LEASED)},
        "dimension": "tokens", "rate": "60000000/minute"});
    // So few of the largest requests fit that nothing is shared out.
    let direct = json!({"name": "direct", "scope": {"key": key_name(DIRECT)},
        "dimension": "tokens", "rate": "600000/minute", "burst": 1500});
    let world = World::start(planes, 3, json!([leased, direct])).await?;
    reports.push(steady(&world, planes, length).await?);
    let direct = direct_mode(&world, planes, length).await?;
    reports.push(direct);
    Ok(())
}

async fn steady(world: &World, planes: usize, length: Duration) -> anyhow::Result<Report> {
    let mut report = Report::new(format!(
        "cost: leased limit, {RATE} requests/s, {planes} data plane(s), {length:?}"
    ));
    let mut number = 0;
    let mut pick = move || {
        number += 1;
        call(number % planes, LEASED)
    };
    world.callers.offer(RATE, WARM, &mut pick).await?;
    let mut redis = world.redis_client().await?;
    let (before, calls_before) = (commands(&mut redis).await?, quota_calls(world).await?);
    let outcomes = world.callers.offer(RATE, length, &mut pick).await?;
    let (after, calls_after) = (commands(&mut redis).await?, quota_calls(world).await?);
    let thousands = outcomes.len() as f64 / 1000.0;
    let all_well = outcomes.iter().all(Outcome::is_admitted);
    report.bound("all admitted", all_well, "true", all_well);
    let mut scripts = 0.0;
    for (name, (calls, usec)) in &after {
        let (calls_then, usec_then) = before.get(name).copied().unwrap_or_default();
        let (calls, usec) = (calls - calls_then, usec - usec_then);
        if calls == 0 || name == "info" {
            continue;
        }
        let per = calls as f64 / thousands;
        if name.starts_with("eval") {
            scripts += per;
        }
        let each = usec as f64 / calls as f64;
        let text = format!("{per:.1} per 1000 requests, {each:.1} us each");
        report.row(&format!("redis: {name}"), text);
    }
    // Each script has one command that the others have not: HMGET looks whether the data are of one
    // piece, GET reads how far usage is counted.
    let [looked, counted] = ["hmget", "get"].map(|name| {
        let calls = |of: &Commands| of.get(name).map_or(0, |(calls, _)| *calls);
        (calls(&after) - calls(&before)) as f64 / thousands
    });
    let leases = scripts - looked - counted;
    report.row("scripts per 1000 requests, in all", format!("{scripts:.1}"));
    let text = format!("{leases:.1}, {counted:.1}, {looked:.1}");
    report.row("  of them leases, batches of usage, looks at the server", text);
    let per_second = scripts * thousands / length.as_secs_f64();
    report.row("scripts a second", format!("{per_second:.1}"));
    let holds = leases <= LEASES_MOST;
    report.bound("lease scripts per 1000 requests", format!("{leases:.1}"), "<= 100", holds);
    let calls = (calls_after - calls_before) / thousands;
    report.row("Lease calls per 1000 requests", format!("{calls:.1}"));
    report
        .row("latency (upstream answers at once)", Spread::of(outcomes.iter().map(Outcome::took)));
    Ok(report)
}

async fn direct_mode(world: &World, planes: usize, length: Duration) -> anyhow::Result<Report> {
    let mut report = Report::new(format!(
        "cost: limit too small to share out, {PAIRED} requests/s, {planes} data plane(s), {length:?}"
    ));
    let mut number = 0;
    let pick = move || {
        number += 1;
        call((number / 2) % planes, if number % 2 == 0 { DIRECT } else { FREE })
    };
    let mut redis = world.redis_client().await?;
    let (before, calls_before) = (commands(&mut redis).await?, quota_calls(world).await?);
    let outcomes = world.callers.offer(PAIRED, length, pick).await?;
    let (after, calls_after) = (commands(&mut redis).await?, quota_calls(world).await?);
    let of = |key: usize| {
        let of = outcomes.iter().filter(move |it| it.call.key == key && it.is_admitted());
        Spread::of(of.map(Outcome::took))
    };
    let (direct, free) = (of(DIRECT), of(FREE));
    let not = outcomes.iter().filter(|it| !it.is_admitted()).count();
    report.row("not admitted", not);
    report.row("latency without limits", free);
    report.row("latency with the limit", direct);
    let (p50, p99) = (direct.p50 - free.p50, direct.p99 - free.p99);
    report.row("added p50, p99", format!("{p50:.2}, {p99:.2} ms"));
    let scripts = |commands: &Commands| -> u64 {
        commands.iter().filter(|(name, _)| name.starts_with("eval")).map(|(_, (n, _))| n).sum()
    };
    let each = (scripts(&after) - scripts(&before)) as f64 / direct.n as f64;
    report.row("redis: scripts per limited request", format!("{each:.2}"));
    let calls = (calls_after - calls_before) / direct.n as f64;
    report.row("Lease calls per limited request", format!("{calls:.2}"));
    Ok(report)
}

async fn commands(redis: &mut RedisClient) -> anyhow::Result<Commands> {
    let said = redis.command(&["INFO", "commandstats"]).await?;
    let read = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field = |wanted: &str| {
            let value = rest.split(',').find_map(|pair| pair.strip_prefix(wanted))?;
            value.strip_prefix('=')?.parse::<u64>().ok()
        };
        Some((name.to_owned(), (field("calls")?, field("usec")?)))
    };
    Ok(said.text()?.lines().filter_map(read).collect())
}

/// Calls of all data planes for leases, as their metrics have it.
async fn quota_calls(world: &World) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for plane in &world.cluster.data_planes {
        let text = http_get(plane.ops(), "/metrics").await.text();
        let line = text.lines().find(|line| line.contains("quota_call") && line.contains("_count"));
        let line = line.context("no metric of Lease calls")?;
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        sum += value.with_context(|| line.to_owned())?;
    }
    Ok(sum)
}

fn call(plane: usize, key: usize) -> Call {
    Call {
        plane,
        key,
        model: USUAL,
        output: 20,
        max_tokens: Some(80),
        delay: Duration::ZERO,
        stream: false,
    }
}
