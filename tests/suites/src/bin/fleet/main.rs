//! Measures how fast changes reach data planes while they carry traffic, and what that costs.
//!
//! `cargo build --release -p sluicegate`, then
//! `SLUICEGATE_BIN=target/release/sluicegate cargo run --release -p sluicegate-suites --bin fleet`.
//! Real etcd, one control plane, three data planes, an upstream in this process. Prints a table and,
//! as the last line, the same as JSON.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for people that runs outside the gateway, whose spawn helper counts tasks"
)]

mod changes;
mod report;
mod traffic;
mod upstream;

use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use sluicegate_suites::admin::Admin;
use sluicegate_suites::config;
use sluicegate_testkit::cluster::{Cluster, gateway_binary};
use tokio::time::Instant;

use self::report::Report;
use self::upstream::Upstream;

/// Number of data planes.
const DATA_PLANES: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

/// Measures how fast changes reach data planes under traffic
#[derive(Debug, Clone, Parser)]
struct Options {
    /// Changes of one resource each, spread evenly over the time that the requests take
    #[arg(long, default_value_t = 100)]
    changes: usize,
    /// Requests in all, every other one streamed
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Requests that begin in a second, over all data planes
    #[arg(long, default_value_t = 1000)]
    rate: usize,
    /// Callers, each with a connection of its own that it keeps
    #[arg(long, default_value_t = 30)]
    callers: usize,
    /// Streams that last from before the first change until after the last
    #[arg(long, default_value_t = 200)]
    streams: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    ensure!(options.changes > 0 && options.rate > 0 && options.callers > 0, "nothing to measure");
    let upstream = Upstream::start().await?;
    let cluster = Cluster::builder().etcd().control_planes(1).data_planes(DATA_PLANES);
    let cluster = cluster.start().await?;
    let control_plane = &cluster.control_planes[0];
    let mut admin = Admin::new(control_plane.grpc())?;
    admin.wait_for_head(DATA_PLANES, LIMIT).await?;
    let mut base = config::base(upstream.address());
    let mut long = config::model(upstream::LONG);
    long["targets"][0]["model"] = upstream::LONG.into();
    base["models"].as_array_mut().into_iter().for_each(|models| models.push(long.clone()));
    cluster.apply(&base.to_string()).await?;

    let planes: Vec<_> = cluster.data_planes.iter().map(|plane| plane.traffic()).collect();
    let streams = traffic::streams(&planes, options.streams).await?;
    let begun = Instant::now();
    let per_second = u32::try_from(options.rate)?;
    let length = Duration::from_secs(options.requests as u64) / per_second;
    let requests = traffic::requests(
        &planes,
        options.requests,
        options.callers,
        Duration::from_secs(1) / per_second,
    );
    let interval = length / u32::try_from(options.changes)?;
    let changes =
        changes::measure(&mut admin, &upstream, options.changes, interval, DATA_PLANES).await?;
    let requests = requests.finish().await?;
    let took = begun.elapsed();
    let lasted = streams.started.elapsed();
    upstream.end_streams();
    let cut = streams.finish().await;
    // Every data plane must have ended on the newest state, refusing nothing.
    admin.wait_for_head(DATA_PLANES, LIMIT).await?;

    let mut memory = vec![("control plane".to_owned(), control_plane.peak_rss_bytes()?)];
    for plane in &cluster.data_planes {
        memory.push((plane.name().replace("data-plane-", "data plane "), plane.peak_rss_bytes()?));
    }
    if let Some(etcd) = &cluster.etcd {
        memory.push(("etcd".into(), etcd.peak_rss_bytes()?));
    }
    let binary = gateway_binary()?.display().to_string();
    let report = Report { binary, options, took, lasted, changes, requests, cut, memory };
    println!("{}", report.table());
    println!("{}", report.json());
    Ok(())
}
