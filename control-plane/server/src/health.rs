//! What data planes see of targets, and are told of them.

use std::sync::Arc;

use sluicegate_control_core::{Breakers, breaker::News};
use sluicegate_proto::health::v1::{self as pb, health_server};
use sluicegate_protocol::breaker::{Blocked, Check, Grant, Word};
use sluicegate_telemetry::task;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::status;

/// Messages that wait for a slow data plane; what changes meanwhile is told as it stands last.
const QUEUE: usize = 2;
/// Directives in one message.
const MESSAGE: usize = 1_000;

/// Takes reports and serves watches.
#[derive(Debug)]
pub(crate) struct HealthService {
    breakers: Arc<Breakers>,
    /// Data planes that watch here.
    watching: Arc<watch::Sender<u32>>,
    /// Ends watches.
    stopping: CancellationToken,
}

type Outbound = mpsc::Sender<Result<pb::FleetState, Status>>;

impl HealthService {
    pub(crate) fn new(breakers: Arc<Breakers>, stopping: CancellationToken) -> Self {
        Self { breakers, watching: Arc::new(watch::Sender::new(0)), stopping }
    }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    type WatchStream = ReceiverStream<Result<pb::FleetState, Status>>;

    async fn report(
        &self,
        request: Request<pb::ReportRequest>,
    ) -> Result<Response<pb::ReportReply>, Status> {
        self.breakers.report(request.into_inner()).map_err(status::status)?;
        Ok(Response::new(pb::ReportReply {}))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let node = request.into_inner().node_id;
        let (outbound, stream) = mpsc::channel(QUEUE);
        let (breakers, stopping) = (self.breakers.clone(), self.stopping.clone());
        let watching = self.watching.clone();
        drop(task::spawn("health-watch", async move {
            let _counted = Counted::new(&watching);
            tokio::select! {
                () = tell(&breakers, &watching, &node, &outbound) => {}
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

/// One more data plane watches, until this is dropped.
struct Counted<'a>(&'a watch::Sender<u32>);

impl<'a> Counted<'a> {
    fn new(watching: &'a watch::Sender<u32>) -> Self {
        watching.send_modify(|count| *count = count.saturating_add(1));
        Self(watching)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Tells everything, then what changes, until nobody listens.
async fn tell(breakers: &Breakers, watching: &watch::Sender<u32>, node: &str, outbound: &Outbound) {
    let mut versions = breakers.subscribe();
    let mut leaders = breakers.leader();
    let mut watchers = watching.subscribe();
    let (mut seen, mut known) = (0, None);
    loop {
        versions.mark_unchanged();
        let led = leaders.borrow_and_update().is_some();
        // Those that nobody spoke of lately are there all the same.
        let here = *watchers.borrow_and_update();
        let nodes = if led { breakers.nodes().max(here).max(1) } else { 0 };
        let (news, version) = breakers.since(seen, node);
        let messages = messages(news, known.is_none(), nodes);
        for state in messages {
            let says = state.whole || known != Some(nodes) || !is_empty(&state);
            if says && outbound.send(Ok(state)).await.is_err() {
                return;
            }
        }
        (seen, known) = (version, Some(nodes));
        let changed = tokio::select! {
            changed = versions.changed() => changed,
            changed = leaders.changed() => changed,
            changed = watchers.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

fn is_empty(state: &pb::FleetState) -> bool {
    state.directives.is_empty()
        && state.grants.is_empty()
        && state.blocked.is_empty()
        && state.checks.is_empty()
}

/// The news in messages of a size that everybody takes; at least one. Grants come last: they are newer
/// than what holds for all.
fn messages(news: News, whole: bool, nodes: u32) -> Vec<pb::FleetState> {
    let News { words, grants, blocked, checks } = news;
    let state = || pb::FleetState { nodes, ..pb::FleetState::default() };
    let mut messages: Vec<_> = words
        .chunks(MESSAGE)
        .map(|some| pb::FleetState {
            directives: some.iter().map(Word::to_proto).collect(),
            ..state()
        })
        .collect();
    if messages.is_empty() {
        messages.push(state());
    }
    if let Some(first) = messages.first_mut() {
        first.whole = whole;
    }
    if let Some(last) = messages.last_mut() {
        last.grants = grants.iter().map(Grant::to_proto).collect();
        last.blocked = blocked.iter().map(Blocked::to_proto).collect();
        last.checks = checks.iter().map(Check::to_proto).collect();
    }
    messages
}
