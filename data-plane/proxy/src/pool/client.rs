//! Telling a control plane what was seen here, and being told what was seen elsewhere.

use std::{sync::Arc, time::Duration};

use sluicegate_model::secret::Secret;
use sluicegate_proto::pool::v1::{PoolState, WatchRequest, pool_client::PoolClient as Grpc};
use sluicegate_protocol::pool::Cell;
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Streaming, transport::Endpoint};

use super::{Pool, outbox};
use crate::link::{Backoff, ControlPlanes, said, told};

/// What happens within this time goes together in one report.
const GATHER: Duration = Duration::from_millis(50);
/// Changes in one report.
const REPORT: usize = 1_000;
/// Longest wait for the answer to a report, and for the beginning of a watch.
const CALL: Duration = Duration::from_secs(5);
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
    planes: ControlPlanes,
}

impl PoolClient {
    /// Begins to tell and to be told, by the first of the control planes that answers.
    pub fn start(pool: &Arc<Pool>, endpoints: &[Endpoint], token: &Secret) -> Self {
        let planes = ControlPlanes::new(endpoints, token);
        let link = || Link { pool: pool.clone(), planes: planes.clone() };
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
        let mut backoff = Backoff::default();
        for turn in 0.. {
            let begun = Instant::now();
            let Err(reason) = self.watch(turn).await;
            self.pool.metrics.key_pool_connected.set(0);
            tracing::debug!(reason, "no watch on provider keys; what is known goes on");
            backoff.wait_after(begun).await;
        }
    }

    async fn watch(&self, turn: usize) -> Result<std::convert::Infallible, String> {
        let mut client = Grpc::new(self.planes.channel(turn)?);
        let request = self.planes.request(WatchRequest { node_id: self.pool.node_id.clone() })?;
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
        let (mut turn, mut backoff) = (0, Backoff::default());
        loop {
            self.pool.outbox.wake.notified().await;
            sleep(GATHER).await;
            loop {
                let changes = self.pool.outbox.take(REPORT);
                if changes.is_empty() {
                    break;
                }
                let Err(reason) = self.report(turn, &changes).await else {
                    backoff = Backoff::default();
                    continue;
                };
                tracing::debug!(reason, "a control plane was not told of provider keys");
                self.pool.outbox.put_back(changes);
                turn += 1;
                sleep(backoff.next()).await;
            }
        }
    }

    async fn report(
        &self,
        turn: usize,
        changes: &[sluicegate_protocol::pool::Change],
    ) -> Result<(), String> {
        let mut client = Grpc::new(self.planes.channel(turn)?);
        let request = self.planes.request(outbox::message(&self.pool.node_id, changes))?;
        let answer =
            timeout(CALL, client.report(request)).await.map_err(|_| "no answer in time")?;
        told(answer)
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
