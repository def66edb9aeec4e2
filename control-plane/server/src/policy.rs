//! The policy stream: one state machine for each connected data plane, driven by what comes.

mod arrivals;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use sluicegate_control_core::{Desired, Fleet, Publication, Session, Setback};
use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, data_plane_message::Message as Up,
    policy_stream_server::PolicyStream,
};
use sluicegate_protocol::policy::{
    Close, Lane, Lanes, Now, Point, Publisher, ServerAction, ServerConfig, ServerSession,
};
use sluicegate_telemetry::task;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};

pub(crate) use self::arrivals::Arrivals;
use crate::{metrics::Metrics, status};

/// Messages that wait for a slow data plane in the stream; the rest waits in the driver.
const QUEUE: usize = 4;
/// How long a data plane may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// How long a data plane that was asked to leave may take.
const DRAIN: Duration = Duration::from_secs(2);
/// Spread of the moves, so that a fleet does not move at once, in milliseconds.
const DRAIN_JITTER_MS: u32 = 1_000;
/// How long a status may wait for a data plane that does not read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Takes streams.
#[derive(Debug, Clone)]
pub(crate) struct PolicyService {
    pub(crate) publication: Arc<Publication>,
    pub(crate) desired: Arc<Desired>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) setback: Arc<Setback>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) config: ServerConfig,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) stopping: CancellationToken,
}

type Outbound = mpsc::Sender<Result<pb::ControlPlaneMessage, Status>>;

#[tonic::async_trait]
impl PolicyStream for PolicyService {
    type SyncStream = ReceiverStream<Result<pb::ControlPlaneMessage, Status>>;

    async fn sync(
        &self,
        request: Request<Streaming<pb::DataPlaneMessage>>,
    ) -> Result<Response<Self::SyncStream>, Status> {
        self.arrivals.admit().map_err(status::come_back)?;
        let peer = request.remote_addr().map(|peer| peer.to_string()).unwrap_or_default();
        let (outbound, stream) = mpsc::channel(QUEUE);
        let driver = Driver {
            session: ServerSession::new(self.config.clone(), Now::ZERO),
            origin: Instant::now(),
            entry: self.fleet.session(peer.clone()),
            publication: self.publication.clone(),
            metrics: self.metrics.clone(),
            queue: Queue::default(),
            greeted: false,
        };
        let head = self.publication.subscribe();
        let outage = self.desired.subscribe_outage();
        let stopping = self.stopping.clone();
        let (setback, publication) = (self.setback.clone(), self.publication.clone());
        drop(task::spawn("policy-stream", async move {
            let end = driver.run(request.into_inner(), &outbound, head, outage, stopping).await;
            match end {
                End::Gone => tracing::info!(peer, "a policy stream has ended"),
                End::Broken(status) => {
                    tracing::warn!(peer, reason = status.message(), "a policy stream broke");
                }
                End::Closed(close) => {
                    tracing::warn!(peer, ?close, "ending a policy stream");
                    if let Close::Behind { follower, .. } = close {
                        witnessed(&setback, &publication, follower).await;
                    }
                    drop(timeout(LAST_WORDS, outbound.send(Err(closed(&close)))).await);
                }
                End::Told(status) => {
                    tracing::warn!(peer, reason = status.message(), "ending a policy stream");
                    drop(timeout(LAST_WORDS, outbound.send(Err(status))).await);
                }
            }
        }));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// How a stream ends.
enum End {
    /// The data plane has left.
    Gone,
    /// What came is no message, or the connection broke.
    Broken(Status),
    /// The session says so.
    Closed(Close),
    /// It is told why.
    Told(Status),
}

/// What waits to be sent: the parts of a large configuration behind everything else.
///
/// Not more than one change set of each lane and some heartbeats: the session sends nothing in a lane
/// before its change set is acknowledged, and gives up in time.
#[derive(Default)]
struct Queue {
    first: VecDeque<pb::ControlPlaneMessage>,
    configuration: VecDeque<pb::ControlPlaneMessage>,
}

impl Queue {
    fn push(&mut self, message: pb::ControlPlaneMessage) {
        let is_bulk = matches!(
            &message.message,
            Some(Down::Change(chunk)) if chunk.lane == i32::from(pb::Lane::Config)
        );
        if is_bulk { &mut self.configuration } else { &mut self.first }.push_back(message);
    }

    fn pop(&mut self) -> Option<pb::ControlPlaneMessage> {
        self.first.pop_front().or_else(|| self.configuration.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.configuration.is_empty()
    }
}

struct Driver {
    session: ServerSession,
    origin: Instant,
    entry: Session,
    publication: Arc<Publication>,
    metrics: Arc<Metrics>,
    queue: Queue,
    /// The data plane has said who it is.
    greeted: bool,
}

impl Driver {
    async fn run(
        mut self,
        mut inbound: Streaming<pb::DataPlaneMessage>,
        outbound: &Outbound,
        mut head: watch::Receiver<Point>,
        mut outage: watch::Receiver<Option<String>>,
        stopping: CancellationToken,
    ) -> End {
        let mut leave_by: Option<Instant> = None;
        self.session.set_store_unavailable(outage.borrow_and_update().is_some());
        loop {
            let tick = self.origin + self.session.next_tick();
            let hello_by = self.origin + HELLO;
            let outcome = tokio::select! {
                biased;
                () = outbound.closed() => return End::Gone,
                permit = outbound.reserve(), if !self.queue.is_empty() => {
                    if let (Ok(permit), Some(message)) = (permit, self.queue.pop()) {
                        permit.send(Ok(message));
                    }
                    Ok(())
                }
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.on_message(message),
                    Ok(None) => return End::Gone,
                    Err(status) => return End::Broken(status),
                },
                Ok(()) = outage.changed() => {
                    let away = outage.borrow_and_update().is_some();
                    self.session.set_store_unavailable(away);
                    Ok(())
                }
                Ok(()) = head.changed() => self.drive(ServerSession::on_head),
                () = stopping.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(Instant::now() + DRAIN);
                    self.queue.push(drain());
                    Ok(())
                }
                () = sleep_until(leave_by.unwrap_or(tick)), if leave_by.is_some() => {
                    return End::Told(status::stopping());
                }
                () = sleep_until(hello_by), if !self.greeted => {
                    Err(Close::Protocol(format!("no hello came within {HELLO:?}")))
                }
                () = sleep_until(tick) => self.drive(ServerSession::tick),
            };
            if let Err(close) = outcome {
                return End::Closed(close);
            }
        }
    }

    fn on_message(&mut self, message: pb::DataPlaneMessage) -> Result<(), Close> {
        if let Some(Up::Ack(ack)) = &message.message
            && let Some(lane) = Lane::from_proto(ack.lane)
        {
            self.metrics.answered(lane, ack.applied, ack.rejected.len());
        }
        self.drive(|session, now, publisher| session.on_message(now, message, publisher))
    }

    /// Lets the session act, and does what it says.
    fn drive(
        &mut self,
        act: impl FnOnce(&mut ServerSession, Now, &Lanes<Publisher>) -> Vec<ServerAction>,
    ) -> Result<(), Close> {
        let now = self.origin.elapsed();
        let session = &mut self.session;
        let actions = self.publication.with(|publishers| act(session, now, publishers));
        for action in actions {
            match action {
                ServerAction::Send(message) => self.queue.push(message),
                ServerAction::Report(follower) => {
                    self.greeted = true;
                    self.entry.report(*follower);
                }
                ServerAction::Close(close) => return Err(close),
            }
        }
        Ok(())
    }
}

/// A data plane of this history has seen a later revision than this replica, which did not catch up.
async fn witnessed(setback: &Setback, publication: &Publication, revision: u64) {
    let epoch = publication.with(|publishers| publishers.config.head().epoch.clone());
    if let Err(error) = setback.witnessed(&Point { epoch, revision }).await {
        tracing::warn!(%error, "the store cannot be asked whether it was set back");
    }
}

fn drain() -> pb::ControlPlaneMessage {
    let reason = "this control plane is stopping".to_owned();
    let drain = pb::Drain { after_ms: 0, jitter_ms: DRAIN_JITTER_MS, reason };
    pb::ControlPlaneMessage { message: Some(Down::Drain(drain)) }
}

fn closed(close: &Close) -> Status {
    match close {
        Close::Protocol(what) => Status::new(Code::InvalidArgument, what.clone()),
        Close::AckTimeout(lane) => {
            let lane = lane.name();
            let message = format!("a change set of lane {lane} was not acknowledged in time");
            Status::new(Code::DeadlineExceeded, message)
        }
        Close::Silent => {
            Status::new(Code::DeadlineExceeded, "nothing was heard for several heartbeats")
        }
        Close::Behind { follower, replica } => Status::new(
            Code::Unavailable,
            format!("this replica is at revision {replica}, the data plane at {follower}"),
        ),
    }
}
