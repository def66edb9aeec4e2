//! What data planes see that makes degradations go further, and how far they have gone.

use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{Degrade, degrade};
use sluicegate_proto::degrade::v1::{self as pb, degrade_server};
use sluicegate_protocol::degrade::Directive;
use sluicegate_telemetry::task;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::status;

/// Messages that wait for a slow data plane; what changes meanwhile is told as it stands last.
const QUEUE: usize = 2;
/// Levels in one message.
const MESSAGE: usize = 1_000;
/// How often what is not normal is repeated: several times within the time that it is believed.
const AGAIN: Duration = Duration::from_secs(4);

/// Takes reports and serves watches.
#[derive(Debug)]
pub(crate) struct DegradeService {
    pub(crate) degrade: Arc<Degrade>,
    /// Ends watches.
    pub(crate) stopping: CancellationToken,
}

type Outbound = mpsc::Sender<Result<pb::Levels, Status>>;

#[tonic::async_trait]
impl degrade_server::Degrade for DegradeService {
    type WatchStream = ReceiverStream<Result<pb::Levels, Status>>;

    async fn report(
        &self,
        request: Request<pb::ReportRequest>,
    ) -> Result<Response<pb::ReportReply>, Status> {
        if !*self.degrade.leads().borrow() {
            return Err(status::not_the_leader());
        }
        self.degrade.report(request.into_inner()).map_err(status::status)?;
        Ok(Response::new(pb::ReportReply {}))
    }

    async fn watch(
        &self,
        _request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !*self.degrade.leads().borrow() {
            return Err(status::not_the_leader());
        }
        let (outbound, stream) = mpsc::channel(QUEUE);
        let (degrade, stopping) = (self.degrade.clone(), self.stopping.clone());
        drop(task::spawn("degrade-watch", async move {
            let last = tokio::select! {
                last = tell(&degrade, &outbound) => last,
                () = outbound.closed() => return,
                () = stopping.cancelled() => status::stopping(),
            };
            // A queue that is full says enough: the stream ends all the same.
            drop(outbound.try_send(Err(last)));
        }));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Tells every level that is known, then what changes, and again and again what is not normal. Ends
/// with what there is to say when this replica works on degradations no more.
async fn tell(degrade: &Degrade, outbound: &Outbound) -> Status {
    let (mut levels, mut leads) = (degrade.subscribe(), degrade.leads());
    if !*leads.borrow_and_update() {
        return status::not_the_leader();
    }
    let mut told = levels.borrow_and_update().clone();
    // An empty message, too: it says that the watch stands.
    send(outbound, degrade::first(&told), true).await;
    let mut again = interval_at(Instant::now() + AGAIN, AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            // Whoever leads no more has forgotten every level, and that must tell nobody anything.
            _ = leads.changed() => return status::not_the_leader(),
            changed = levels.changed() => {
                if changed.is_err() {
                    return status::stopping();
                }
                if leads.has_changed().unwrap_or(true) {
                    return status::not_the_leader();
                }
                let now = levels.borrow_and_update().clone();
                send(outbound, degrade::changed(&told, &now), false).await;
                told = now;
            }
            _ = again.tick() => send(outbound, degrade::again(&told), false).await,
        }
    }
}

/// In messages of a size that everybody takes. Whoever is gone is noticed by whoever runs this.
async fn send(outbound: &Outbound, directives: impl Iterator<Item = Directive>, even_none: bool) {
    let levels: Vec<_> = directives.map(|directive| directive.to_proto()).collect();
    if levels.is_empty() && even_none {
        drop(outbound.send(Ok(pb::Levels::default())).await);
    }
    for some in levels.chunks(MESSAGE) {
        drop(outbound.send(Ok(pb::Levels { levels: some.to_vec() })).await);
    }
}
