//! Measures limits and usage of a whole fleet against the truth, while parts of it fail.
//!
//! `cargo build --release -p sluicegate -p sluicegate-suites`, then
//! `target/release/ledger --binary target/release/sluicegate all`. Real Redis, a control plane, data
//! planes; the upstream is in this process and keeps books of what it served. Prints a table for each
//! scenario and ends with 1 when a stated bound does not hold.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for people that runs outside the gateway, whose spawn helper counts tasks"
)]

mod bucket;
mod clocks;
mod cost;
mod keys;
mod load;
mod lowered;
mod node_crash;
mod outage;
mod overshoot;
mod redis_crash;
mod upstream;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sluicegate_testkit::cluster::use_gateway;

use sluicegate_suites::report::{Broken, Report};

/// Measures limits and usage of a whole fleet
#[derive(Debug, Clone, Parser)]
struct Options {
    scenario: Scenario,
    /// The gateway's binary; default: SLUICEGATE_BIN, or the debug build of this workspace
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How long load is offered; default: as each scenario needs
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of data planes; default: as each scenario needs
    #[arg(long)]
    planes: Option<usize>,
    /// How often something is tried that is tried again and again
    #[arg(long, default_value_t = 50)]
    trials: usize,
    /// Tokens a minute of the limit under load
    #[arg(long, default_value_t = 600_000)]
    rate: u64,
    /// Burst of that limit in tokens
    #[arg(long, default_value_t = 120_000)]
    burst: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    All,
    /// Twice the load that a limit holds
    Overshoot,
    /// Redis is killed and comes back with an older dump
    RedisCrash,
    /// A data plane is killed in the middle of many streams
    NodeCrash,
    /// A limit is lowered for one key in the middle of its traffic
    Lowered,
    /// Redis, then the control plane, stops answering
    Outage,
    /// Wall clocks that are an hour wrong
    Clocks,
    /// Operations and time that limits cost
    Cost,
    /// Every key in Redis and how long it lives
    Keys,
}

impl Scenario {
    const EACH: [Self; 8] = [
        Self::Overshoot,
        Self::RedisCrash,
        Self::NodeCrash,
        Self::Lowered,
        Self::Outage,
        Self::Clocks,
        Self::Cost,
        Self::Keys,
    ];

    /// Adds what was seen to `reports`, also when something fails later.
    async fn run(self, options: &Options, reports: &mut Vec<Report>) -> anyhow::Result<()> {
        match self {
            Self::All => Ok(()),
            Self::Overshoot => overshoot::run(options, reports).await,
            Self::RedisCrash => redis_crash::run(options, reports).await,
            Self::NodeCrash => node_crash::run(options, reports).await,
            Self::Lowered => lowered::run(options, reports).await,
            Self::Outage => outage::run(options, reports).await,
            Self::Clocks => clocks::run(options, reports).await,
            Self::Cost => cost::run(options, reports).await,
            Self::Keys => keys::run(options, reports).await,
        }
    }
}

impl Options {
    fn length(&self, default: u64) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(default).max(1))
    }

    fn planes(&self, default: usize) -> usize {
        self.planes.unwrap_or(default).max(1)
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
