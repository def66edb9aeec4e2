//! Following a control plane: connect, drive the session, reconnect.

use std::{sync::Arc, time::Duration};

use sluicegate_proto::policy::v1::{
    self as pb, control_plane_message::Message as Down, policy_stream_client::PolicyStreamClient,
};
use sluicegate_protocol::policy::{ClientAction, ClientConfig, ClientSession, LaneState, Verdict};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, transport::Endpoint};

use super::{Shared, Source, SyncConfig, bearer};
use crate::link::Backoff;

/// Silence that is borne on a stream before the control plane has said its rhythm.
const FIRST_SILENCE: Duration = Duration::from_secs(9);

/// Follows for ever.
pub(super) async fn follow(config: SyncConfig, shared: Arc<Shared>, mut state: LaneState) {
    let mut backoff = Backoff::default();
    let mut said = false;
    for endpoint in config.endpoints.iter().cycle() {
        let begun = Instant::now();
        let (after, reason) = session(endpoint, &config, &shared, state).await;
        state = after;
        shared.metrics.control_plane_connected.set(0);
        let was_connected = shared.status.borrow().connected;
        shared.status.send_modify(|status| status.connected = false);
        if was_connected || !said {
            let empty = shared.status.borrow().source == Source::None;
            let so = if empty { "there is nothing to serve yet" } else { "serving on" };
            tracing::warn!(control_plane = %endpoint.uri(), reason, "no policy stream; {so}");
            said = true;
        }
        backoff.wait_after(begun).await;
    }
}

/// One stream, until it ends. Returns the state to go on from, and why it ended.
async fn session(
    endpoint: &Endpoint,
    config: &SyncConfig,
    shared: &Arc<Shared>,
    state: LaneState,
) -> (LaneState, String) {
    let channel = match endpoint.connect().await {
        Ok(channel) => channel,
        Err(error) => return (state, chain(&error)),
    };
    let client_config = ClientConfig { node: config.node.clone(), first_silence: FIRST_SILENCE };
    let origin = Instant::now();
    let mut session = ClientSession::new(client_config, state, Duration::ZERO);
    let (outbox, outgoing) = mpsc::channel(16);
    // The channel has room for the first message.
    let _queued = outbox.try_send(session.hello());
    let mut request = Request::new(ReceiverStream::new(outgoing));
    let Some(token) = bearer(&config.token) else {
        return (session.into_state(), "the node token does not fit into a header".into());
    };
    request.metadata_mut().insert("authorization", token);
    let mut client = PolicyStreamClient::new(channel);
    let opened = tokio::time::timeout(FIRST_SILENCE, client.sync(request)).await;
    let mut incoming = match opened {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => return (session.into_state(), status.message().to_owned()),
        Err(_) => return (session.into_state(), "the stream did not open in time".into()),
    };
    loop {
        let due = origin + session.next_tick();
        let actions = tokio::select! {
            message = incoming.message() => match message {
                Ok(Some(message)) => {
                    if matches!(message.message, Some(Down::Welcome(_))) {
                        welcomed(shared, endpoint);
                    }
                    note_head(shared, &session, &message);
                    session.on_message(origin.elapsed(), message)
                }
                Ok(None) => return (session.into_state(), "the control plane ended the stream".into()),
                Err(status) => return (session.into_state(), status.message().to_owned()),
            },
            () = tokio::time::sleep_until(due) => session.tick(origin.elapsed()),
        };
        if let Err(reason) = act(actions, &mut session, shared, &outbox).await {
            return (session.into_state(), reason);
        }
    }
}

/// The control plane has answered as one does.
fn welcomed(shared: &Shared, endpoint: &Endpoint) {
    shared.metrics.control_plane_connected.set(1);
    shared.status.send_modify(|status| status.connected = true);
    tracing::info!(control_plane = %endpoint.uri(), "policy stream connected");
}

/// Does what the session says. Fails with the reason to end the stream.
async fn act(
    actions: Vec<ClientAction>,
    session: &mut ClientSession,
    shared: &Arc<Shared>,
    outbox: &mpsc::Sender<pb::DataPlaneMessage>,
) -> Result<(), String> {
    let mut queue: std::collections::VecDeque<_> = actions.into();
    while let Some(action) = queue.pop_front() {
        match action {
            ClientAction::Send(message) => {
                if matches!(message.message, Some(pb::data_plane_message::Message::Resync(_))) {
                    shared.metrics.policy_resyncs.inc();
                }
                send(outbox, message).await?;
            }
            ClientAction::StatusDue => {
                let status = session.status(pb::Status {
                    persisted_revision: shared
                        .cache
                        .as_ref()
                        .map_or(0, super::cache::Cache::persisted),
                    requests_in_flight: u32::try_from(shared.metrics.in_flight.get()).unwrap_or(0),
                    uptime_ms: u64::try_from(shared.begun.elapsed().as_millis())
                        .unwrap_or(u64::MAX),
                    ledger: Some(shared.metrics.ledger_status()),
                    ..pb::Status::default()
                });
                send(outbox, status).await?;
            }
            ClientAction::Apply(change) => {
                let worker = shared.clone();
                // Compiling may take a while; it must not hold up this thread's requests.
                let verdict = tokio::task::spawn_blocking(move || {
                    worker.apply(&change, Source::ControlPlane)
                })
                .await
                .unwrap_or_else(|panic| Verdict {
                    refused: Some(format!("compiling failed: {panic}")),
                    ..Verdict::default()
                });
                let applied = verdict.refused.is_none();
                queue.extend(session.on_verdict(verdict));
                if applied {
                    shared.status.send_modify(|status| status.fresh_at = Some(Instant::now()));
                    if let Some(cache) = &shared.cache {
                        cache.save(session.state());
                    }
                }
            }
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

/// A heartbeat that names what runs here proves that it is the newest.
fn note_head(shared: &Shared, session: &ClientSession, message: &pb::ControlPlaneMessage) {
    if let Some(Down::Heartbeat(heartbeat)) = &message.message {
        let at = session.state().at.as_ref().map(sluicegate_protocol::policy::Point::to_proto);
        if at.is_some() && heartbeat.head.iter().any(|lane| lane.at == at) {
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
