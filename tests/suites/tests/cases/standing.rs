//! Where limits, provider keys and breakers stand after an exchange, as the gateway says it.

use std::time::Duration;

use sluicegate_proto::admin::v1::admin_client::AdminClient;
use sluicegate_proto::admin::v1::{LimitMeter, LimitStatusRequest, PoolStatusRequest};
use sluicegate_testkit::cluster::ADMIN_TOKEN;
use sluicegate_testkit::process::http_get;
use tokio::time::Instant;
use tonic::Request;

use crate::expect::Expect;
use crate::findings::{Findings, short};
use crate::table::Cell;
use crate::world::World;

/// How soon everything must be settled, also what the gateway keeps ready for the next request.
const SETTLED: Duration = Duration::from_secs(8);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(50);

/// How soon it must be known how a key or breaker stands.
const KNOWN: Duration = Duration::from_secs(2);

/// Waits until the cell's keys stand as is expected; adds how those stand that do not.
pub(crate) async fn judge_keys(
    world: &World,
    cell: &Cell,
    expect: &Expect,
    findings: &mut Findings,
) {
    for (name, expected) in &expect.key_states {
        let until = Instant::now() + KNOWN;
        loop {
            let state = key_state(world, &format!("{}-{name}", cell.name)).await;
            if state.as_ref().is_ok_and(|state| state == expected) {
                break;
            }
            if Instant::now() >= until {
                findings.add(format!("key {name} is {}, expected {expected}", short(&state)));
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Waits until the breakers of the cell's providers have opened as often as is expected; adds those
/// that have not.
pub(crate) async fn judge_breakers(
    world: &World,
    cell: &Cell,
    expect: &Expect,
    findings: &mut Findings,
) {
    for (name, &expected) in &expect.opened {
        let until = Instant::now() + KNOWN;
        loop {
            let opened = opened(world, &format!("{}-{name}", cell.name)).await;
            if opened == expected {
                break;
            }
            if Instant::now() >= until {
                findings.add(format!(
                    "the breaker of {name} has opened {opened} times, expected {expected}"
                ));
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// How often a breaker of the provider has opened: one for each of its models.
async fn opened(world: &World, provider: &str) -> u64 {
    let provider = format!("provider=\"{provider}\"");
    let metrics = http_get(world.gateway.ops(), "/metrics").await.text();
    let counts = metrics.lines().filter_map(|line| {
        let labels = line.strip_prefix("sluicegate_breaker_changes_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let is_it = labels.contains(&provider) && labels.contains("state=\"open\"");
        if is_it { count.parse::<u64>().ok() } else { None }
    });
    counts.sum()
}

async fn key_state(world: &World, credential: &str) -> anyhow::Result<String> {
    let mut client = AdminClient::connect(format!("http://{}", world.gateway.admin())).await?;
    let asked =
        PoolStatusRequest { credential: credential.to_owned(), ..PoolStatusRequest::default() };
    let mut request = Request::new(asked);
    request.metadata_mut().insert("authorization", format!("Bearer {ADMIN_TOKEN}").parse()?);
    let credentials = client.pool_status(request).await?.into_inner().credentials;
    Ok(credentials.into_iter().next().map(|status| status.state).unwrap_or_default())
}

/// Waits until the limits stand as is expected; adds how those stand that do not.
pub(crate) async fn judge(world: &World, cell: &Cell, expect: &Expect, findings: &mut Findings) {
    for (name, &(least, most)) in &expect.limits {
        let until = Instant::now() + SETTLED;
        loop {
            let meters = meters(world, &cell.limit(name)).await;
            let holds = meters.as_ref().is_ok_and(|meters| {
                let used: f64 = meters.iter().map(|meter| meter.used).sum();
                (least..=most).contains(&used) && meters.iter().all(|meter| meter.reserved == 0.0)
            });
            if holds {
                break;
            }
            if Instant::now() >= until {
                let stands = short(&meters);
                findings
                    .add(format!("limit {name} stands at {stands}, expected {least} to {most}"));
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn meters(world: &World, limit: &str) -> anyhow::Result<Vec<LimitMeter>> {
    let mut client = AdminClient::connect(format!("http://{}", world.gateway.admin())).await?;
    let mut request = Request::new(LimitStatusRequest { limit: limit.to_owned(), most: 0 });
    request.metadata_mut().insert("authorization", format!("Bearer {ADMIN_TOKEN}").parse()?);
    Ok(client.limit_status(request).await?.into_inner().meters)
}
