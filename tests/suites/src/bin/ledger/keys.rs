//! Every key in Redis must go by itself some day.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::Options;
use crate::load::Call;
use crate::upstream::{BROKEN, SILENT, USUAL};
use crate::world::World;
use sluicegate_suites::report::Report;

/// Requests a second.
const RATE: f64 = 60.0;
const KEYS: usize = 5;
/// Keys of one form that are shown.
const SHOWN: usize = 2;

pub(crate) async fn run(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let (planes, length) = (options.planes(2), options.length(8));
    let mut report =
        Report::new(format!("keys: all kinds of limits, {planes} data planes, {length:?}"));
    let world = World::start(planes, KEYS, limits()).await?;
    let mut number = 0;
    let pick = || {
        number += 1;
        let models = [USUAL, USUAL, USUAL, USUAL, SILENT, SILENT, BROKEN];
        Call {
            plane: number % planes,
            key: number % KEYS,
            model: models[number % models.len()],
            output: 20,
            max_tokens: Some(80),
            delay: Duration::from_millis(50),
            stream: number % 3 == 0 && number % models.len() != models.len() - 1,
        }
    };
    let outcomes = world.callers.offer(RATE, length, pick).await?;
    let mut statuses = BTreeMap::<_, usize>::new();
    outcomes.iter().for_each(|it| *statuses.entry(it.status).or_default() += 1);
    report.row("answers by status", format!("{statuses:?}"));
    let meters = world.meters().await?;
    report.row("meters", meters.len());
    for meter in &meters {
        report.note(format!(
            "  {} {}: used {}, reserved {}, holders {}",
            meter.limit, meter.subject, meter.used, meter.reserved, meter.holders
        ));
    }

    let mut redis = world.redis_client().await?;
    let mut forms = BTreeMap::<String, Vec<(String, i64)>>::new();
    let mut forever = Vec::new();
    let keys = redis.keys().await?;
    for key in &keys {
        let left = redis.command(&["PTTL", key]).await?.integer()?;
        // -2: it is gone already.
        if left == -1 {
            forever.push(key);
        }
        let kind = redis.command(&["TYPE", key]).await?;
        forms
            .entry(format!("{} {}", form(key), kind.text()?))
            .or_default()
            .push((key.clone(), left));
    }
    for (form, keys) in &forms {
        let lefts = keys.iter().map(|(_, left)| *left);
        let (least, most) = (lefts.clone().min(), lefts.max());
        let hours = |ms: Option<i64>| ms.unwrap_or_default() as f64 / 3_600_000.0;
        report.row(
            &format!("{} keys of form {form}", keys.len()),
            format!("live {:.2} to {:.2} h", hours(least), hours(most)),
        );
        for (key, left) in keys.iter().take(SHOWN) {
            report.note(format!("  {left:>12} ms  {key}"));
        }
    }
    let shown = format!("{} of {} {forever:?}", forever.len(), keys.len());
    report.bound("keys without an end", shown, "0", forever.is_empty() && !keys.is_empty());
    reports.push(report);
    Ok(())
}

/// The part of a key that tells what it is for.
fn form(key: &str) -> String {
    key.split(':').take(2).collect::<Vec<_>>().join(":")
}

fn limits() -> serde_json::Value {
    json!([
        {"name": "rps", "scope": {"key": "*"}, "dimension": "requests", "rate": "30/second;1000/minute"},
        {"name": "tpm", "scope": {"tenant": "*", "model": "*"}, "dimension": "tokens", "rate": "600000/minute"},
        {"name": "sliding", "scope": {"key": "*"}, "dimension": "requests", "rate": "500/minute", "algorithm": "sliding"},
        {"name": "running", "scope": {"tenant": "*"}, "dimension": "concurrency", "amount": 100},
        {"name": "budget", "scope": {"tenant": "*"}, "dimension": "cost", "window": "month", "amount": 50},
        {"name": "units", "scope": {"key": "*"}, "dimension": "units", "window": "day", "amount": 1000, "strict": true},
        {"name": "hourly", "scope": {"address": "*"}, "dimension": "requests", "window": "hour", "amount": 100_000},
        {"name": "provider", "scope": {"provider": "*"}, "dimension": "tokens", "rate": "6000000/minute", "reserve": "expected"},
        {"name": "strict", "scope": {"key": "*"}, "dimension": "tokens", "rate": "600000/minute", "strict": true},
        {"name": "only-counts", "scope": {"key": "*"}, "dimension": "requests", "rate": "1/minute", "shadow": true},
    ])
}
