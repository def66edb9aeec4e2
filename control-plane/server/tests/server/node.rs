//! A data plane as far as the control plane can tell: the real session over a real stream.

use std::time::Duration;

use sluicegate_proto::policy::v1::{self as pb, policy_stream_client::PolicyStreamClient};
use sluicegate_protocol::policy::{
    Change, ClientAction, ClientConfig, ClientSession, Lane, LaneState, Lanes, Verdict,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::fixture::{Bearer, NODE, Served, soon};

pub(crate) struct Node {
    session: ClientSession,
    origin: Instant,
    outbound: mpsc::Sender<pb::DataPlaneMessage>,
    inbound: Streaming<pb::ControlPlaneMessage>,
    /// Change sets of the configuration, taken over or refused.
    pub(crate) applied: Vec<Change>,
    /// The control plane asked to leave.
    pub(crate) drained: bool,
}

/// How the node judges a change set.
pub(crate) type Judge = fn(&Change) -> Verdict;

pub(crate) fn accept(_: &Change) -> Verdict {
    Verdict::default()
}

pub(crate) fn refuse(_: &Change) -> Verdict {
    Verdict { refused: Some("no taste for it".into()), ..Verdict::default() }
}

impl Node {
    /// Connects with the state of an earlier stream.
    pub(crate) async fn connect(
        served: &Served,
        name: &str,
        state: Lanes<LaneState>,
    ) -> Result<Self, Status> {
        Self::connect_with(served, name, state, Some(NODE)).await
    }

    pub(crate) async fn connect_with(
        served: &Served,
        name: &str,
        state: Lanes<LaneState>,
        token: Option<&'static str>,
    ) -> Result<Self, Status> {
        let node = pb::NodeIdentity {
            node_id: name.into(),
            incarnation: 7,
            build: "test".into(),
            schema_min: 1,
            schema_max: 1,
            ..Default::default()
        };
        let config = ClientConfig { node, first_silence: Duration::from_secs(9) };
        let session = ClientSession::new(config, state, Duration::ZERO);
        let (outbound, messages) = mpsc::channel(16);
        outbound.send(session.hello()).await.unwrap();
        let mut client =
            PolicyStreamClient::with_interceptor(served.channel().await, Bearer(token));
        let inbound = soon(client.sync(ReceiverStream::new(messages))).await?.into_inner();
        let (applied, drained) = (Vec::new(), false);
        Ok(Self { session, origin: Instant::now(), outbound, inbound, applied, drained })
    }

    /// The revision that it runs.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.state().at.as_ref().map(|at| at.revision)
    }

    /// What it runs of the configuration.
    pub(crate) fn state(&self) -> &LaneState {
        self.session.state(Lane::Config)
    }

    /// The keys that hold, as it knows them.
    pub(crate) fn keys(&self) -> &LaneState {
        self.session.state(Lane::Keys)
    }

    /// Ends the stream and keeps the states.
    pub(crate) fn disconnect(self) -> Lanes<LaneState> {
        self.session.into_states()
    }

    /// Lives until `done`; an error is how the control plane ended the stream.
    pub(crate) async fn live(
        &mut self,
        judge: Judge,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), Status> {
        while !done(self) {
            let tick = self.origin + self.session.next_tick();
            let actions = tokio::select! {
                message = self.inbound.message() => match message? {
                    Some(message) => self.session.on_message(self.origin.elapsed(), message),
                    None => return Err(Status::ok("the stream has ended")),
                },
                () = sleep_until(tick) => self.session.tick(self.origin.elapsed()),
            };
            self.act(actions, judge).await;
        }
        Ok(())
    }

    /// The next message, without acting on it.
    pub(crate) async fn next(&mut self) -> Result<pb::ControlPlaneMessage, Status> {
        let message = self.inbound.message().await?;
        message.ok_or_else(|| Status::ok("the stream has ended"))
    }

    /// Lives until it runs this revision.
    pub(crate) async fn reach(&mut self, revision: u64) {
        soon(self.live(accept, |node| node.revision() >= Some(revision))).await.unwrap();
    }

    async fn act(&mut self, actions: Vec<ClientAction>, judge: Judge) {
        for action in actions {
            match action {
                ClientAction::Send(message) => drop(self.outbound.send(message).await),
                ClientAction::Apply(lane, change) => {
                    let verdict = match lane {
                        Lane::Keys => accept(&change),
                        Lane::Config => judge(&change),
                    };
                    if lane == Lane::Config {
                        self.applied.push(change);
                    }
                    for action in self.session.on_verdict(lane, verdict) {
                        let ClientAction::Send(message) = action else { panic!("{action:?}") };
                        self.outbound.send(message).await.unwrap();
                    }
                }
                ClientAction::StatusDue => {
                    let ledger = pb::LedgerStatus {
                        mode: format!("last_share{}", "!".repeat(9_000)),
                        usage_waiting: 5,
                        ..Default::default()
                    };
                    let status = pb::Status {
                        requests_in_flight: 3,
                        ledger: Some(ledger),
                        ..Default::default()
                    };
                    drop(self.outbound.send(self.session.status(status)).await);
                }
                ClientAction::Reconnect(reason) => panic!("{reason}"),
                ClientAction::Drain { .. } => self.drained = true,
            }
        }
    }
}
