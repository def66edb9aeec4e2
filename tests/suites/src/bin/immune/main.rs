//! Measures what becomes of traffic while upstreams are dead, full, limited or behind bad networks.
//!
//! `cargo build --release -p sluicegate -p sluicegate-suites`, then
//! `target/release/immune --binary target/release/sluicegate all`. The upstreams are in this process and
//! keep books. Prints a table for each scenario and ends with 1 when a stated bound does not hold.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for people that runs outside the gateway, whose spawn helper counts tasks"
)]

mod beside;
mod load;
mod loss;
mod overload;
mod server;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sluicegate_suites::report::{Broken, Report};
use sluicegate_testkit::cluster::use_gateway;

/// Measures a gateway among ill upstreams
#[derive(Debug, Clone, Parser)]
struct Options {
    scenario: Scenario,
    /// The gateway's binary; default: SLUICEGATE_BIN, or the debug build of this workspace
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How long load is offered; default: as each scenario needs
    #[arg(long)]
    seconds: Option<u64>,
    /// It runs in a network namespace of its own already
    #[arg(long, hide = true)]
    in_namespace: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// All but packet loss, which needs root
    All,
    /// A dead target under 200 requests a second
    Storm,
    /// A provider that answers 429 to everything
    Isolation,
    /// Three times what a server can do
    Burst,
    /// The same, where what does not fit is kept for later
    Defer,
    /// A request of a million tokens each second beside small ones
    Million,
    /// 15 % of connections are reset
    Resets,
    /// 15 % of packets are lost; needs root, ip, nft and unshare
    PacketLoss,
}

impl Scenario {
    const EACH: [Self; 6] =
        [Self::Storm, Self::Isolation, Self::Burst, Self::Defer, Self::Million, Self::Resets];

    /// Adds what was seen to `reports`, also when something fails later.
    async fn run(self, options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
        match self {
            Self::All => Ok(()),
            Self::Storm => beside::storm(options, reports).await,
            Self::Isolation => beside::isolation(options, reports).await,
            Self::Burst => overload::burst(options, reports).await,
            Self::Defer => overload::defer(options, reports).await,
            Self::Million => overload::million(options, reports).await,
            Self::Resets => loss::resets(options, reports).await,
            Self::PacketLoss => loss::packets(options, reports).await,
        }
    }
}

impl Options {
    fn length(&self, default: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(default).max(1))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let Some(binary) = &options.binary {
        use_gateway(binary)?;
    }
    let all = options.scenario == Scenario::All;
    let scenarios = if all { Scenario::EACH.to_vec() } else { vec![options.scenario] };
    let mut broken = Broken::default();
    for scenario in scenarios {
        let mut reports = Vec::new();
        let outcome = Box::pin(scenario.run(&options, &mut reports)).await;
        broken.scenario(scenario, reports, outcome);
    }
    Ok(broken.verdict())
}
