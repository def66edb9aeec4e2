//! A running gateway with limits, and what it says about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_suites::config;
use sluicegate_testkit::cluster::{Builder, Cluster, Redis};
use sluicegate_testkit::redis::RedisClient;
use tokio::time::{Instant, sleep};

use crate::load::{Callers, secret};
use crate::upstream::{self, Upstream};

/// How long the cluster may take for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks at totals.
const POLL: Duration = Duration::from_millis(100);

/// How long totals that agree are given to become wrong again.
const AGAIN: Duration = Duration::from_secs(3);

/// Everything that a scenario works with. The field order ends processes before the upstream.
pub(crate) struct World {
    pub(crate) callers: Arc<Callers>,
    pub(crate) admin: Admin,
    pub(crate) cluster: Cluster,
    pub(crate) upstream: Upstream,
}

/// Requests and tokens of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) estimated: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// A row of `limit status`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    pub(crate) limit: String,
    pub(crate) subject: String,
    pub(crate) used: f64,
    pub(crate) reserved: f64,
    pub(crate) holders: u64,
}

/// Ledger and upstream side by side, by key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What the ledger lacks.
    pub(crate) lost: Totals,
    /// What the ledger has too much.
    pub(crate) doubled: Totals,
}

impl World {
    /// Starts a cluster with a Redis, one control plane and `planes` data planes.
    pub(crate) async fn start(planes: usize, keys: usize, limits: Value) -> anyhow::Result<Self> {
        let builder = Cluster::builder().redis().control_planes(1).data_planes(planes);
        Self::start_with(builder, planes, keys, limits).await
    }

    /// Starts what `builder` says.
    pub(crate) async fn start_with(
        builder: Builder,
        planes: usize,
        keys: usize,
        limits: Value,
    ) -> anyhow::Result<Self> {
        let upstream = Upstream::start().await?;
        let cluster = builder.data_plane_argument("--access-log=none").start().await?;
        let control_plane = cluster.control_planes.first().context("no control plane")?;
        let mut admin = Admin::new(control_plane.grpc())?;
        admin.wait_for_head(planes, LIMIT).await?;
        cluster.apply(&configuration(&upstream, keys, limits).to_string()).await?;
        for plane in &cluster.data_planes {
            plane.wait_ready(LIMIT).await?;
        }
        let planes = cluster.data_planes.iter().map(|plane| plane.traffic()).collect();
        let world = Self { callers: Callers::new(planes), admin, cluster, upstream };
        world.ready().await?;
        Ok(world)
    }

    /// Waits until the ledger gives leases: a Redis that has just been started does not at once.
    async fn ready(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let said = self.json(&["limit", "status", "-o", "json"]).await?;
            if said["health"] == "ready" {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "the ledger is not ready: {said}");
            sleep(POLL).await;
        }
    }

    pub(crate) fn redis(&self) -> anyhow::Result<&Redis> {
        self.cluster.redis.as_ref().context("no Redis")
    }

    pub(crate) async fn redis_client(&self) -> anyhow::Result<RedisClient> {
        RedisClient::connect(self.redis()?.client()).await
    }

    /// Usage as the ledger has it, by key. Yesterday is asked for too, should midnight pass.
    pub(crate) async fn usage(&self) -> anyhow::Result<BTreeMap<String, Totals>> {
        let said = self.json(&["usage", "--last", "2d", "--by", "key", "-o", "json"]).await?;
        let rows = said["totals"].as_array().context("no totals")?;
        let count = |row: &Value, name: &str| {
            row[name].as_u64().with_context(|| format!("no {name} in {row}"))
        };
        rows.iter()
            .map(|row| {
                let totals = Totals {
                    requests: count(row, "requests")?,
                    estimated: count(row, "estimated")?,
                    input: count(row, "input_tokens")?,
                    output: count(row, "output_tokens")?,
                };
                Ok((row["key"].as_str().context("no key")?.to_owned(), totals))
            })
            .collect()
    }

    /// Where limits stand.
    pub(crate) async fn meters(&self) -> anyhow::Result<Vec<Meter>> {
        let said = self.json(&["limit", "status", "-o", "json"]).await?;
        let rows = said["meters"].as_array().context("no meters")?;
        let read = |row: &Value| Meter {
            limit: row["limit"].as_str().unwrap_or_default().to_owned(),
            subject: row["subject"].as_str().unwrap_or_default().to_owned(),
            used: row["used"].as_f64().unwrap_or(f64::NAN),
            reserved: row["reserved"].as_f64().unwrap_or(f64::NAN),
            holders: row["holders"].as_u64().unwrap_or(u64::MAX),
        };
        Ok(rows.iter().map(read).collect())
    }

    /// What the upstream served well, by key, with nothing estimated.
    pub(crate) fn truth(&self) -> BTreeMap<String, Totals> {
        let mut truth = BTreeMap::<String, Totals>::new();
        for served in self.upstream.books.all().iter().filter(|served| served.well) {
            let totals = truth.entry(key_name(served.order.key)).or_default();
            totals.requests += 1;
            totals.input += served.prompt;
            totals.output += served.sent;
        }
        truth
    }

    /// Waits until the ledger has what the upstream has; gives what is different at last, and how
    /// long that took. What is equal is looked at again later, lest something be counted again.
    pub(crate) async fn settled(
        &self,
        patience: Duration,
    ) -> anyhow::Result<(Difference, Duration)> {
        let begun = Instant::now();
        loop {
            let usage = self.usage().await;
            let over = begun.elapsed() > patience;
            // A control plane whose ledger is away says so; it is asked again.
            if let Ok(usage) = usage {
                let difference = difference(&self.truth(), &usage);
                let took = begun.elapsed();
                if difference == Difference::default() {
                    sleep(AGAIN).await;
                    return Ok((difference_now(self).await?, took));
                }
                if over {
                    return Ok((difference, took));
                }
            } else if over {
                usage?;
            }
            sleep(POLL).await;
        }
    }

    async fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let output = self.cluster.cli(arguments).await?;
        ensure!(output.status.success(), "{arguments:?} said {}", output.said());
        serde_json::from_str(&output.stdout).with_context(|| output.stdout.clone())
    }
}

async fn difference_now(world: &World) -> anyhow::Result<Difference> {
    Ok(difference(&world.truth(), &world.usage().await?))
}

/// What two accounts differ in, key by key, so that too much of one does not hide too little of
/// another.
fn difference(truth: &BTreeMap<String, Totals>, ledger: &BTreeMap<String, Totals>) -> Difference {
    let mut found = Difference::default();
    let names: std::collections::BTreeSet<_> = truth.keys().chain(ledger.keys()).collect();
    for name in names {
        let (truth, ledger) = (truth.get(name), ledger.get(name));
        let (truth, ledger) =
            (truth.copied().unwrap_or_default(), ledger.copied().unwrap_or_default());
        let note = |sum: &mut Totals, more: Totals, less: Totals| {
            sum.requests += more.requests.saturating_sub(less.requests);
            sum.estimated += more.estimated.saturating_sub(less.estimated);
            sum.input += more.input.saturating_sub(less.input);
            sum.output += more.output.saturating_sub(less.output);
        };
        note(&mut found.lost, truth, ledger);
        note(&mut found.doubled, ledger, truth);
    }
    found
}

pub(crate) fn key_name(key: usize) -> String {
    format!("key-{key}")
}

fn configuration(upstream: &Upstream, keys: usize, limits: Value) -> Value {
    let model = |name: &str| {
        json!({
            "name": name,
            "targets": [{"provider": "p1"}],
            "prices": {"input": 2500, "output": 10000},
            "units": {"input": 0.001, "output": 0.003},
        })
    };
    let models = [upstream::USUAL, upstream::SILENT, upstream::BROKEN].map(model);
    let keys: Vec<_> = (0..keys).map(|key| config::api_key(&key_name(key), &secret(key))).collect();
    json!({
        "providers": [config::provider(upstream.address)],
        "models": models,
        "tenants": [config::tenant("default")],
        "api_keys": keys,
        "limits": limits,
    })
}
