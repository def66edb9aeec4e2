//! Connections that are reset, and packets that are lost.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::json;
use sluicegate_suites::report::{Report, Spread};

use crate::Options;
use crate::beside::codes;
use crate::load::{Outcome, chat};
use crate::server::{Fault, Manner, Server};
use crate::world::{World, model};

/// Part of connections or packets that are lost, in percent.
const LOST: u32 = 15;

/// Connections to the upstream are reset.
pub(crate) async fn resets(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    let mut report = Report::new(format!("{LOST} % of connections to the upstream are reset"));
    let fault = Fault::Resets(f64::from(LOST) / 100.0);
    let server = Server::start(Manner { fault, ..Manner::default() }).await?;
    measure(options, server, &mut report).await?;
    reports.push(report);
    Ok(())
}

/// Packets to and from the upstream are lost: in a network namespace of this process's own, where the
/// kernel drops them.
pub(crate) async fn packets(options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
    if !options.in_namespace {
        let own = std::env::current_exe()?;
        let arguments = std::env::args().skip(1);
        let mut command = tokio::process::Command::new("unshare");
        command.arg("--net").arg(own).args(arguments).arg("--in-namespace");
        let status = command.status().await.context("unshare (util-linux) cannot be run")?;
        ensure!(status.success(), "the run in a network namespace failed; it needs root");
        return Ok(());
    }
    run("ip", "link set lo up")?;
    let mut report = Report::new(format!("{LOST} % of packets to and from the upstream are lost"));
    let server = Server::start(Manner::default()).await?;
    let port = server.address.port();
    run("nft", "add table ip loss")?;
    run("nft", "add chain ip loss input { type filter hook input priority 0; }")?;
    for side in ["sport", "dport"] {
        let rule = format!("tcp {side} {port} numgen random mod 100 < {LOST} counter drop");
        run("nft", &format!("add rule ip loss input {rule}"))?;
    }
    measure(options, server, &mut report).await?;
    let dropped = Command::new("nft").args(["list", "table", "ip", "loss"]).output()?;
    for line in String::from_utf8_lossy(&dropped.stdout).lines().filter(|it| it.contains("drop")) {
        report.note(line.trim());
    }
    reports.push(report);
    Ok(())
}

fn run(program: &str, arguments: &str) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .with_context(|| format!("{program} cannot be run; install iproute2 and nftables"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments}: {said}");
    Ok(())
}

async fn measure(options: &Options, server: Server, report: &mut Report) -> anyhow::Result<()> {
    let more = json!({ "timeouts": { "connect_ms": 3_000, "first_event_ms": 15_000 } });
    let models =
        json!([model("m", "p", json!({ "retry": { "max_attempts": 4, "backoff_ms": 200 } }))]);
    let world = World::start(&[("p", server.address, more)], models).await?;
    let outcomes = world.callers.offer(100.0, options.length(60), || chat("m", 50, "hello")).await;
    let served = outcomes.iter().filter(|it| it.is_served()).count();
    let success = 100.0 * served as f64 / outcomes.len() as f64;
    let text = format!("{success:.3} % ({served} of {})", outcomes.len());
    report.bound("final success", text, ">= 99.8 %", success >= 99.8);
    report.row("latency", Spread::of(outcomes.iter().map(Outcome::took)));
    let attempts: u64 = outcomes.iter().map(|it| it.attempts).sum();
    report
        .row("attempts for one request", format!("{:.3}", attempts as f64 / outcomes.len() as f64));
    report.row("reached, served", format!("{}, {}", server.reached(), server.served()));
    report.note(format!("told: {}", codes(&outcomes)));
    Ok(())
}
