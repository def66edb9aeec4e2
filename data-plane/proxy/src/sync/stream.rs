//! Following a control plane: connect, drive the session, reconnect.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, policy_stream_client::PolicyStreamClient,
};
use sluicegate_protocol::policy::{
    Change, ClientAction, ClientConfig, ClientSession, Lane, LaneState, Lanes, Point, Verdict,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming, transport::Endpoint};
use tonic_types::StatusExt as _;

use super::{Shared, Source, SyncConfig, bearer};
use crate::link::Backoff;

/// Silence that is borne on a stream before the control plane has said its rhythm.
const FIRST_SILENCE: Duration = Duration::from_secs(9);
/// No control plane is believed that wants to be left alone for longer.
const LONGEST_HINT: Duration = Duration::from_secs(30);

/// Follows for ever.
pub(super) async fn follow(config: SyncConfig, shared: Arc<Shared>, mut states: Lanes<LaneState>) {
    let mut backoff = Backoff::default();
    let mut said = false;
    let mut sent_away = 0;
    for endpoint in config.endpoints.iter().cycle() {
        let begun = Instant::now();
        let (after, Ended { reason, come_back }) =
            session(endpoint, &config, &shared, states).await;
        states = after;
        shared.metrics.control_plane_connected.set(0);
        let was_connected = shared.status.borrow().connected;
        shared.status.send_modify(|status| status.connected = false);
        if was_connected || !said {
            let empty = shared.status.borrow().source == Source::None;
            let so = if empty { "there is nothing to serve yet" } else { "serving on" };
            tracing::warn!(control_plane = %endpoint.uri(), reason, "no policy stream; {so}");
            said = true;
        }
        sent_away = if come_back.is_some() { sent_away + 1 } else { 0 };
        match come_back {
            // Each is told another time; but another control plane may have room.
            Some(wait) if sent_away >= config.endpoints.len() => {
                sent_away = 0;
                tokio::time::sleep(wait.min(LONGEST_HINT)).await;
            }
            Some(_) => {}
            None => backoff.wait_after(begun).await,
        }
    }
}

/// Why a stream ended.
struct Ended {
    reason: String,
    /// What the control plane says of when to come back.
    come_back: Option<Duration>,
}

impl<S: Into<String>> From<S> for Ended {
    fn from(reason: S) -> Self {
        Self { reason: reason.into(), come_back: None }
    }
}

/// One that does not begin: too many come at one time.
fn turned_away(status: &Status) -> Ended {
    let hint = (status.code() == Code::ResourceExhausted)
        .then(|| status.get_details_retry_info()?.retry_delay)
        .flatten();
    Ended { reason: status.message().to_owned(), come_back: hint }
}

/// One stream, until it ends. Returns the states to go on from, and why it ended.
async fn session(
    endpoint: &Endpoint,
    config: &SyncConfig,
    shared: &Arc<Shared>,
    states: Lanes<LaneState>,
) -> (Lanes<LaneState>, Ended) {
    let channel = match endpoint.connect().await {
        Ok(channel) => channel,
        Err(error) => return (states, chain(&error).into()),
    };
    let client_config = ClientConfig { node: config.node.clone(), first_silence: FIRST_SILENCE };
    let origin = Instant::now();
    let session = ClientSession::new(client_config, states, Duration::ZERO);
    let (outbox, outgoing) = mpsc::channel(16);
    // The channel has room for the first message.
    let _queued = outbox.try_send(session.hello());
    let mut request = Request::new(ReceiverStream::new(outgoing));
    let Some(token) = bearer(&config.token) else {
        return (session.into_states(), "the node token does not fit into a header".into());
    };
    request.metadata_mut().insert("authorization", token);
    let mut client = PolicyStreamClient::new(channel);
    let opened = tokio::time::timeout(FIRST_SILENCE, client.sync(request)).await;
    let incoming = match opened {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => return (session.into_states(), turned_away(&status)),
        Err(_) => return (session.into_states(), "the stream did not open in time".into()),
    };
    let mut stream = Stream { session, origin, shared, outbox, applying: JoinSet::new() };
    let reason = match stream.run(incoming, endpoint).await {
        Err(reason) => reason,
        Ok(never) => match never {},
    };
    (stream.finish().await, reason.into())
}

/// An open stream.
struct Stream<'a> {
    session: ClientSession,
    /// Zero of the session's time.
    origin: Instant,
    shared: &'a Arc<Shared>,
    outbox: mpsc::Sender<pb::DataPlaneMessage>,
    /// Change sets that are being taken over, at most one of each lane. A configuration may take a while
    /// to compile; what comes in other lanes meanwhile must not wait for it.
    applying: JoinSet<(Lane, Verdict)>,
}

impl Stream<'_> {
    /// Ends with the reason.
    async fn run(
        &mut self,
        mut incoming: Streaming<pb::ControlPlaneMessage>,
        endpoint: &Endpoint,
    ) -> Result<Infallible, String> {
        let mut again_at = self.shared.again_at.subscribe();
        loop {
            let due = self.origin + self.session.next_tick();
            let again = *again_at.borrow_and_update();
            let actions = tokio::select! {
                Some(Ok((lane, verdict))) = self.applying.join_next() => self.applied(lane, verdict),
                message = incoming.message() => match message {
                    Ok(Some(message)) => {
                        if matches!(message.message, Some(Down::Welcome(_))) {
                            welcomed(self.shared, endpoint);
                        }
                        note_head(self.shared, &self.session, &message);
                        self.session.on_message(self.origin.elapsed(), message)
                    }
                    Ok(None) => return Err("the control plane ended the stream".into()),
                    Err(status) => return Err(status.message().to_owned()),
                },
                // It is sent anew on another stream.
                () = tokio::time::sleep_until(again.unwrap_or(due)), if again.is_some() => {
                    self.shared.again_at.send_replace(None);
                    return Err("what was left alone is tried again".into());
                }
                Ok(()) = again_at.changed() => Vec::new(),
                () = tokio::time::sleep_until(due) => self.session.tick(self.origin.elapsed()),
            };
            self.act(actions).await?;
        }
    }

    /// What is being taken over is so in the end, whether anybody is still told or not.
    async fn finish(mut self) -> Lanes<LaneState> {
        while let Some(done) = self.applying.join_next().await {
            if let Ok((lane, verdict)) = done {
                // There is nobody any more to acknowledge it to.
                drop(self.applied(lane, verdict));
            }
        }
        self.session.into_states()
    }

    /// Does what the session says. Fails with the reason to end the stream.
    async fn act(&mut self, actions: Vec<ClientAction>) -> Result<(), String> {
        let mut queue: VecDeque<_> = actions.into();
        while let Some(action) = queue.pop_front() {
            match action {
                ClientAction::Send(message) => {
                    if matches!(message.message, Some(pb::data_plane_message::Message::Resync(_))) {
                        self.shared.metrics.policy_resyncs.inc();
                    }
                    send(&self.outbox, message).await?;
                }
                ClientAction::StatusDue => send(&self.outbox, self.status()).await?,
                ClientAction::Apply(lane, change) => self.apply(lane, change),
                ClientAction::Reconnect(reason) => return Err(reason),
                ClientAction::Drain { jitter_ms, .. } => {
                    let wait = Duration::from_millis(u64::from(jitter_ms)).mul_f64(fastrand::f64());
                    tokio::time::sleep(wait).await;
                    return Err("the control plane asked to move".into());
                }
            }
        }
        Ok(())
    }

    /// Begins to take a change set over, on a thread that serves no requests.
    fn apply(&mut self, lane: Lane, change: Change) {
        let worker = self.shared.clone();
        self.applying.spawn(async move {
            let applied = tokio::task::spawn_blocking(move || {
                worker.apply(lane, &change, Source::ControlPlane)
            });
            let verdict = applied.await.unwrap_or_else(|panic| Verdict {
                refused: Some(format!("compiling failed: {panic}")),
                ..Verdict::default()
            });
            (lane, verdict)
        });
    }

    /// A change set was taken over, or refused.
    fn applied(&mut self, lane: Lane, verdict: Verdict) -> Vec<ClientAction> {
        let is_taken = verdict.refused.is_none();
        let actions = self.session.on_verdict(lane, verdict);
        if is_taken {
            if lane == Lane::Config {
                self.shared.status.send_modify(|status| status.fresh_at = Some(Instant::now()));
            }
            if let Some(cache) = &self.shared.cache {
                cache.save(lane, self.session.state(lane));
            }
        }
        actions
    }

    fn status(&self) -> pb::DataPlaneMessage {
        let Shared { cache, metrics, begun, .. } = &**self.shared;
        self.session.status(pb::Status {
            persisted_revision: cache.as_ref().map_or(0, super::cache::Cache::persisted),
            requests_in_flight: u32::try_from(metrics.in_flight.get()).unwrap_or(0),
            uptime_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            ledger: Some(metrics.ledger_status()),
            ..pb::Status::default()
        })
    }
}

/// The control plane has answered as one does.
fn welcomed(shared: &Shared, endpoint: &Endpoint) {
    shared.metrics.control_plane_connected.set(1);
    shared.status.send_modify(|status| status.connected = true);
    tracing::info!(control_plane = %endpoint.uri(), "policy stream connected");
}

/// A heartbeat that names what runs here proves that it is the newest.
fn note_head(shared: &Shared, session: &ClientSession, message: &pb::ControlPlaneMessage) {
    if let Some(Down::Heartbeat(heartbeat)) = &message.message {
        let at = session.state(Lane::Config).at.as_ref().map(Point::to_proto);
        let is_config = |head: &&pb::LaneState| Lane::from_proto(head.lane) == Some(Lane::Config);
        if at.is_some() && heartbeat.head.iter().filter(is_config).any(|head| head.at == at) {
            shared.status.send_modify(|status| {
                status.source = Source::ControlPlane;
                status.fresh_at = Some(Instant::now());
            });
        }
    }
}

async fn send(
    outbox: &mpsc::Sender<pb::DataPlaneMessage>,
    message: pb::DataPlaneMessage,
) -> Result<(), String> {
    match tokio::time::timeout(Duration::from_secs(5), outbox.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("the stream is closed".into()),
        Err(_) => Err("the control plane takes nothing in".into()),
    }
}

/// An error and everything below it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
