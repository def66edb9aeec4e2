//! Telling a control plane what was seen here, and being told what was seen elsewhere.

use std::{sync::Arc, time::Duration};

use sluicegate_model::secret::Secret;
use sluicegate_proto::pool::v1::{PoolState, WatchRequest, pool_client::PoolClient as Grpc};
use sluicegate_protocol::pool::Cell;
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use super::{Pool, outbox};
use crate::sync::bearer;

/// What happens within this time goes together in one report.
const GATHER: Duration = Duration::from_millis(50);
/// Changes in one report.
const REPORT: usize = 1_000;
/// Longest wait for the answer to a report, and for the beginning of a watch.
const CALL: Duration = Duration::from_secs(5);
/// Shortest and longest wait before another try; random between nothing and the bound, which doubles.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A watch that stood so long counts as good.
const HEALTHY: Duration = Duration::from_secs(30);
/// How often what is over is dropped.
const TIDY: Duration = Duration::from_secs(60);

/// The running exchange; dropping it ends it.
#[derive(Debug)]
pub struct PoolClient {
    _tasks: [AbortOnDrop<()>; 3],
}

/// Whom to talk to.
#[derive(Debug)]
struct Link {
    pool: Arc<Pool>,
    channels: Vec<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl PoolClient {
    /// Begins to tell and to be told, by the first of the control planes that answers.
    pub fn start(pool: &Arc<Pool>, endpoints: &[Endpoint], token: &Secret) -> Self {
        let link = || Link {
            pool: pool.clone(),
            channels: endpoints.iter().map(Endpoint::connect_lazy).collect(),
            token: bearer(token),
        };
        let watching = task::spawn("pool-watch", link().watch_all());
        let reporting = task::spawn("pool-report", link().report_all());
        let tidying = task::spawn("pool-tidy", tidy(pool.clone()));
        Self { _tasks: [watching, reporting, tidying].map(AbortOnDrop) }
    }
}

async fn tidy(pool: Arc<Pool>) {
    loop {
        sleep(TIDY).await;
        pool.tidy();
    }
}

impl Link {
    /// Follows one control plane after the other, for ever.
    async fn watch_all(self) {
        let mut backoff = BACKOFF_MIN;
        for turn in 0.. {
            let begun = Instant::now();
            let Err(reason) = self.watch(turn).await;
            self.pool.metrics.key_pool_connected.set(0);
            tracing::debug!(reason, "no watch on provider keys; what is known goes on");
            if begun.elapsed() >= HEALTHY {
                backoff = BACKOFF_MIN;
            }
            sleep(backoff.mul_f64(fastrand::f64())).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn watch(&self, turn: usize) -> Result<std::convert::Infallible, String> {
        let mut client = self.client(turn).ok_or("there is no control plane")?;
        let request = self.request(WatchRequest { node_id: self.pool.node_id.clone() })?;
        let opened = timeout(CALL, client.watch(request)).await.map_err(|_| "no answer in time")?;
        let mut stream = opened.map_err(|status| said(&status))?.into_inner();
        let (mut whole, mut gathering) = (Vec::new(), false);
        loop {
            let state = next(&mut stream).await?;
            gathering |= state.whole;
            let more = state.more;
            let cells = readable(state);
            self.pool.learn(&cells);
            if gathering {
                whole.extend(cells);
                gathering = more;
                if !more {
                    self.pool.answer(&whole);
                    self.pool.metrics.key_pool_connected.set(1);
                    whole.clear();
                }
            }
        }
    }

    /// Tells what happens, for ever.
    async fn report_all(self) {
        let (mut turn, mut backoff) = (0, BACKOFF_MIN);
        loop {
            self.pool.outbox.wake.notified().await;
            sleep(GATHER).await;
            loop {
                let changes = self.pool.outbox.take(REPORT);
                if changes.is_empty() {
                    break;
                }
                let Err(reason) = self.report(turn, &changes).await else {
                    backoff = BACKOFF_MIN;
                    continue;
                };
                tracing::debug!(reason, "a control plane was not told of provider keys");
                self.pool.outbox.put_back(changes);
                turn += 1;
                sleep(backoff.mul_f64(fastrand::f64())).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }

    async fn report(
        &self,
        turn: usize,
        changes: &[sluicegate_protocol::pool::Change],
    ) -> Result<(), String> {
        let mut client = self.client(turn).ok_or("there is no control plane")?;
        let request = self.request(outbox::message(&self.pool.node_id, changes))?;
        let answer =
            timeout(CALL, client.report(request)).await.map_err(|_| "no answer in time")?;
        match answer {
            Ok(_) => Ok(()),
            Err(status) if status.code() == tonic::Code::InvalidArgument => {
                // It would be refused again, and nothing else would ever be told.
                tracing::error!(
                    reason = status.message(),
                    "a control plane does not understand us"
                );
                Ok(())
            }
            Err(status) => Err(said(&status)),
        }
    }

    fn client(&self, turn: usize) -> Option<Grpc<Channel>> {
        let channel = self.channels.get(turn % self.channels.len().max(1))?;
        Some(Grpc::new(channel.clone()))
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, String> {
        let token = self.token.clone().ok_or("the node token does not fit into a header")?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", token);
        Ok(request)
    }
}

/// The next message. A connection that has died is noticed by its keep-alive.
async fn next(stream: &mut Streaming<PoolState>) -> Result<PoolState, String> {
    let message = stream.message().await.map_err(|status| said(&status))?;
    message.ok_or_else(|| "the control plane ended the watch".to_owned())
}

/// Cells that this build understands.
fn readable(state: PoolState) -> Vec<Cell> {
    let cells = state.cells.into_iter().map(Cell::try_from);
    cells
        .filter_map(|cell| match cell {
            Ok(cell) => Some(cell),
            Err(fault) => {
                tracing::debug!(%fault, "a cell of a provider key is left out");
                None
            }
        })
        .collect()
}

fn said(status: &Status) -> String {
    status.message().to_owned()
}
