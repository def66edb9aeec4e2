//! What the control plane says of limits and of usage.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use sluicegate_proto::admin::v1::admin_client::AdminClient;
use sluicegate_proto::admin::v1::{LimitMeter, LimitStatusRequest, QueryUsageRequest, UsageTotal};
use sluicegate_testkit::cluster::ADMIN_TOKEN;
use sluicegate_testkit::deadline::within;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(20);

/// A reader of one control plane's books. It connects anew by itself after a restart.
#[derive(Debug, Clone)]
pub(crate) struct Book(AdminClient<Channel>);

impl Book {
    /// For the control plane whose gRPC address this is; connects with the first call.
    pub(crate) fn new(server: SocketAddr) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{server}"))?
            .connect_timeout(Duration::from_secs(2))
            .timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .connect_lazy();
        Ok(Self(AdminClient::new(channel)))
    }

    /// Today's usage, in rows by `group_by`.
    pub(crate) async fn usage(&self, group_by: &[&str]) -> Result<Vec<UsageTotal>, Status> {
        let group_by = group_by.iter().map(|&name| name.to_owned()).collect();
        let query = QueryUsageRequest { group_by, ..QueryUsageRequest::default() };
        let reply = self.0.clone().query_usage(authorized(query)).await?;
        Ok(reply.into_inner().totals)
    }

    /// All meters of a limit.
    pub(crate) async fn meters(&self, limit: &str) -> Result<Vec<LimitMeter>, Status> {
        let query = LimitStatusRequest { limit: limit.to_owned(), most: 0 };
        let reply = self.0.clone().limit_status(authorized(query)).await?;
        Ok(reply.into_inner().meters)
    }

    /// Waits until the ledger says that it is ready. A Redis that has just started is not: it may
    /// have lost what it had granted.
    pub(crate) async fn wait_for_ledger(&self, patience: Duration) -> anyhow::Result<()> {
        within(patience, "a ready ledger", async {
            loop {
                let query = LimitStatusRequest::default();
                let reply = self.0.clone().limit_status(authorized(query)).await;
                if reply.is_ok_and(|reply| reply.into_inner().health == "ready") {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        })
        .await
    }

    /// Waits until today's usage, in one row, is as `done` wants it.
    pub(crate) async fn wait_for_usage(
        &self,
        limit: Duration,
        awaited: &str,
        done: impl Fn(&UsageTotal) -> bool,
    ) -> anyhow::Result<UsageTotal> {
        let mut last = None;
        let waiting = within(limit, awaited, async {
            loop {
                let all = self.usage(&[]).await.map(|rows| rows.first().cloned());
                if let Ok(Some(all)) = &all
                    && done(all)
                {
                    return all.clone();
                }
                last = Some(all);
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
        waiting.with_context(|| format!("the last answer was {last:#?}"))
    }

    /// Waits until the meters of `limit` are as `done` wants them.
    pub(crate) async fn wait_for_meters(
        &self,
        limit: &str,
        patience: Duration,
        awaited: &str,
        done: impl Fn(&[LimitMeter]) -> bool,
    ) -> anyhow::Result<Vec<LimitMeter>> {
        let mut last = None;
        let waiting = within(patience, awaited, async {
            loop {
                let meters = self.meters(limit).await;
                if let Ok(meters) = &meters
                    && done(meters)
                {
                    return meters.clone();
                }
                last = Some(meters);
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
        waiting.with_context(|| format!("{limit}: the last answer was {last:#?}"))
    }

    /// Waits until everything that `limit` counts comes to `used`, and nothing is reserved.
    pub(crate) async fn wait_for_used(
        &self,
        limit: &str,
        patience: Duration,
        used: f64,
    ) -> anyhow::Result<()> {
        let awaited = format!("{limit} with {used} used and nothing reserved");
        let settled = |meters: &[LimitMeter]| {
            let sum: f64 = meters.iter().map(|meter| meter.used).sum();
            (sum - used).abs() < 1e-9 && meters.iter().all(|meter| meter.reserved == 0.0)
        };
        self.wait_for_meters(limit, patience, &awaited, settled).await.map(drop)
    }
}

fn authorized<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {ADMIN_TOKEN}").parse().expect("a token of plain letters");
    request.metadata_mut().insert("authorization", bearer);
    request
}
