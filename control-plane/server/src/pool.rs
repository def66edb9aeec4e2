//! What data planes know of provider keys, and are told of them.

use std::sync::Arc;

use sluicegate_control_core::Pool;
use sluicegate_proto::pool::v1::{self as pb, pool_server};
use sluicegate_protocol::pool::Cell;
use sluicegate_telemetry::task;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::status;

/// Messages that wait for a slow data plane; what changes meanwhile is told as it stands last.
const QUEUE: usize = 2;
/// Cells in one message.
const MESSAGE: usize = 1_000;

/// Takes reports and serves watches.
#[derive(Debug)]
pub(crate) struct PoolService {
    pub(crate) pool: Arc<Pool>,
    /// Ends watches.
    pub(crate) stopping: CancellationToken,
}

type Outbound = mpsc::Sender<Result<pb::PoolState, Status>>;

#[tonic::async_trait]
impl pool_server::Pool for PoolService {
    type WatchStream = ReceiverStream<Result<pb::PoolState, Status>>;

    async fn report(
        &self,
        request: Request<pb::ReportRequest>,
    ) -> Result<Response<pb::ReportReply>, Status> {
        let reply = self.pool.report(request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }

    async fn watch(
        &self,
        _request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (outbound, stream) = mpsc::channel(QUEUE);
        let (pool, stopping) = (self.pool.clone(), self.stopping.clone());
        drop(task::spawn("pool-watch", async move {
            tokio::select! {
                () = tell(&pool, &outbound) => {}
                () = outbound.closed() => {}
                () = stopping.cancelled() => {
                    // A queue that is full says enough: the stream ends all the same.
                    drop(outbound.try_send(Err(status::stopping())));
                }
            }
        }));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Tells everything, then what changes, until nobody listens.
async fn tell(pool: &Pool, outbound: &Outbound) {
    let mut versions = pool.subscribe();
    let (mut seen, mut whole) = (0, true);
    loop {
        versions.mark_unchanged();
        let (cells, version) = pool.since(seen);
        let messages = messages(&cells);
        let last = messages.len() - 1;
        for (index, message) in messages.into_iter().enumerate() {
            let whole = whole && index == 0;
            let state = pb::PoolState { whole, cells: message, more: index < last };
            if (whole || !state.cells.is_empty()) && outbound.send(Ok(state)).await.is_err() {
                return;
            }
        }
        (seen, whole) = (version, false);
        if versions.changed().await.is_err() {
            return;
        }
    }
}

/// The cells in messages of a size that everybody takes; at least one.
fn messages(cells: &[Cell]) -> Vec<Vec<pb::Cell>> {
    let mut messages: Vec<Vec<_>> =
        cells.chunks(MESSAGE).map(|some| some.iter().map(Cell::to_proto).collect()).collect();
    if messages.is_empty() {
        messages.push(Vec::new());
    }
    messages
}
