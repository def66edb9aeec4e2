//! What one provider's trouble costs another's callers.

use std::time::Duration;

use serde_json::json;
use sluicegate_suites::report::{Report, Spread};

use crate::Options;
use crate::load::chat;
use crate::server::{Fault, Manner, Server};
use crate::world::{World, model};

/// Calls a second to the provider that is in trouble.
const STORM: f64 = 200.0;
/// And to the other one.
const OTHERS: f64 = 100.0;
/// How long the other one takes.
const TAKES_MS: u64 = 50;

/// A dead target under a storm of requests.
pub(crate) async fn storm(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    for (what, fault) in [
        ("resets every connection", Fault::Resets(1.0)),
        ("answers 500", Fault::Broken),
        ("says nothing", Fault::Silent),
    ] {
        let mut report = Report::new(format!(
            "{what} under {STORM} requests/s, another provider beside it with {OTHERS}/s"
        ));
        beside(options, fault, 1.1, &mut report).await?;
        reports.push(report);
    }
    Ok(())
}

/// A provider that is limited completely.
pub(crate) async fn isolation(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let mut report = Report::new(format!(
        "answers 429 to everything under {STORM} requests/s, another provider beside it with {OTHERS}/s"
    ));
    beside(options, Fault::Limited(1), 1.1, &mut report).await?;
    reports.push(report);
    Ok(())
}

async fn beside(
    options: &Options,
    fault: Fault,
    most_calls: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let ill = Server::start(Manner { fault, ..Manner::default() }).await?;
    let well = Server::start(Manner::default()).await?;
    let timeouts = json!({ "timeouts": { "answer_ms": 20_000 } });
    let providers = [("ill", ill.address, timeouts), ("well", well.address, json!({}))];
    let models = json!([model("ill", "ill", json!({})), model("well", "well", json!({}))]);
    let world = World::start(&providers, models).await?;
    let length = options.length(30);
    let others = || chat("well", TAKES_MS, "hello");
    // What is there has been used before it is measured.
    world.callers.offer(OTHERS, Duration::from_secs(2), others).await;
    let quiet = world.callers.offer(OTHERS, length, others).await;
    let (stormed, beside) = tokio::join!(
        world.callers.offer(STORM, length, || chat("ill", TAKES_MS, "hello")),
        world.callers.offer(OTHERS, length, others),
    );
    let (before, during) = (
        Spread::of(quiet.iter().map(crate::load::Outcome::took)),
        Spread::of(beside.iter().map(crate::load::Outcome::took)),
    );
    let calls = ill.reached() as f64 / stormed.len() as f64;
    let text = format!("{calls:.3} ({} for {})", ill.reached(), stormed.len());
    report.bound(
        "upstream calls for one request",
        text,
        &format!("<= {most_calls}"),
        calls <= most_calls,
    );
    let clean = stormed.iter().filter(|outcome| outcome.clean).count();
    report
        .row("of the storm's answers are clean refusals", format!("{clean} of {}", stormed.len()));
    report.row(
        "the storm's answers took",
        Spread::of(stormed.iter().map(crate::load::Outcome::took)),
    );
    report.row("the others, quiet", before);
    report.row("the others, beside the storm", during);
    let ratio = during.p99 / before.p99;
    report.bound("their p99", format!("x {ratio:.3}"), "<= x 1.1", ratio <= 1.1);
    let (served, all) = (beside.iter().filter(|it| it.is_served()).count(), beside.len());
    report.bound("of the others served", format!("{served} of {all}"), "all", served == all);
    let codes = codes(&stormed);
    report.note(format!("the storm was told: {codes}"));
    Ok(())
}

/// How often each code came.
pub(crate) fn codes(outcomes: &[crate::load::Outcome]) -> String {
    let mut codes = std::collections::BTreeMap::<_, usize>::new();
    for outcome in outcomes {
        let status = outcome.status.unwrap_or(0);
        *codes.entry((status, outcome.code.as_str())).or_default() += 1;
    }
    let each = codes.iter().map(|((status, code), count)| format!("{status} {code} x {count}"));
    each.collect::<Vec<_>>().join(", ")
}
