//! Both ends of the policy stream against a link that loses, doubles, reorders and breaks.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use proptest::prelude::*;
use sluicegate_proto::policy::v1 as pb;
use sluicegate_protocol::policy::{
    Body, ClientAction, ClientConfig, ClientSession, Close, Follower, Key, Lane, Lanes, Now, Point,
    Publisher, ServerAction, ServerConfig, ServerSession, Verdict,
};

#[derive(Debug, Clone)]
enum Step {
    /// One revision: these names are written (true) or removed (false).
    Publish(Vec<(u8, bool)>),
    DeliverDown,
    DeliverUp,
    LoseDown,
    LoseUp,
    DoubleDown,
    DoubleUp,
    SwapDown,
    SwapUp,
    Tick(u16),
    Reconnect,
    /// The next change set is refused as a whole.
    Refuse,
    /// The other replica, which lags some revisions behind, takes over.
    OlderReplica(u8),
    /// The store was replaced: a new epoch, revisions start low.
    NewEpoch,
    /// A resource at the client rots.
    Rot,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec((0_u8..12, any::<bool>()), 1..4).prop_map(Step::Publish),
        8 => Just(Step::DeliverDown),
        8 => Just(Step::DeliverUp),
        1 => Just(Step::LoseDown),
        1 => Just(Step::LoseUp),
        1 => Just(Step::DoubleDown),
        1 => Just(Step::DoubleUp),
        1 => Just(Step::SwapDown),
        1 => Just(Step::SwapUp),
        3 => (0_u16..4000).prop_map(Step::Tick),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Refuse),
        1 => (1_u8..5).prop_map(Step::OlderReplica),
        1 => Just(Step::NewEpoch),
        1 => Just(Step::Rot),
    ];
    prop::collection::vec(step, 1..120)
}

/// What was ever published in a lane, by epoch and revision.
type Published = HashMap<(u8, u64), BTreeMap<Key, Body>>;

struct World {
    now: Now,
    epoch: u8,
    publishers: Lanes<Publisher>,
    /// An older copy of the publishers, as another replica may hold it.
    lagging: Option<Lanes<Publisher>>,
    published: Lanes<Published>,
    server: ServerSession,
    client: ClientSession,
    down: VecDeque<pb::ControlPlaneMessage>,
    up: VecDeque<pb::DataPlaneMessage>,
    refuse_next: bool,
    seen: Lanes<Option<Point>>,
    reconnects: u32,
}

impl World {
    fn new() -> Self {
        let client = ClientSession::new(client_config(), Lanes::default(), Now::ZERO);
        let mut world = Self {
            now: Now::ZERO,
            epoch: 0,
            publishers: Lanes::of(|_| Publisher::with_capacity(point(0, 1), BTreeMap::new(), 4)),
            lagging: None,
            published: Lanes::of(|_| HashMap::from([((0, 1), BTreeMap::new())])),
            server: ServerSession::new(ServerConfig::default(), Now::ZERO),
            client,
            down: VecDeque::new(),
            up: VecDeque::new(),
            refuse_next: false,
            seen: Lanes::default(),
            reconnects: 0,
        };
        world.reconnect();
        world
    }

    fn serving(&self) -> &Lanes<Publisher> {
        self.lagging.as_ref().unwrap_or(&self.publishers)
    }

    fn reconnect(&mut self) {
        self.reconnects += 1;
        self.down.clear();
        self.up.clear();
        let fresh = ClientSession::new(client_config(), Lanes::default(), self.now);
        let states = std::mem::replace(&mut self.client, fresh).into_states();
        self.client = ClientSession::new(client_config(), states, self.now);
        self.server = ServerSession::new(ServerConfig::default(), self.now);
        self.up.push_back(self.client.hello());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish(changes) => self.publish(&changes),
            Step::DeliverDown => self.deliver_down(),
            Step::DeliverUp => self.deliver_up(),
            Step::LoseDown => drop(self.down.pop_front()),
            Step::LoseUp => drop(self.up.pop_front()),
            Step::DoubleDown => self.down.extend(self.down.front().cloned()),
            Step::DoubleUp => self.up.extend(self.up.front().cloned()),
            Step::SwapDown if self.down.len() > 1 => self.down.swap(0, 1),
            Step::SwapUp if self.up.len() > 1 => self.up.swap(0, 1),
            Step::SwapDown | Step::SwapUp => {}
            Step::Tick(ms) => self.tick(Duration::from_millis(ms.into())),
            Step::Reconnect => {
                self.lagging = None;
                self.reconnect();
            }
            Step::Refuse => self.refuse_next = true,
            Step::OlderReplica(behind) => self.older_replica(behind.into()),
            Step::NewEpoch => self.new_epoch(),
            Step::Rot => self.rot(),
        }
        self.check();
    }

    fn publish(&mut self, changes: &[(u8, bool)]) {
        let revision = self.publishers.config.head().revision + 1;
        let mut upserts = BTreeMap::new();
        let mut removes = Vec::new();
        for (name, write) in changes {
            let key = key(*name);
            if upserts.contains_key(&key) || removes.contains(&key) {
                continue;
            }
            if *write {
                upserts.insert(key, body(revision));
            } else {
                removes.push(key);
            }
        }
        // Some of what is configured is in the other lane, too; a revision without any is none there.
        let is_key = |key: &&Key| key.name.len() == 2 && key.name.as_str() < "m5";
        let keys: Vec<_> = upserts
            .keys()
            .filter(is_key)
            .map(|key| (key.clone(), Body { version: 0, ..small(revision) }))
            .collect();
        let revoked: Vec<_> = removes.iter().filter(is_key).cloned().collect();
        if !keys.is_empty() || !revoked.is_empty() {
            self.publishers.keys.publish(revision, keys, revoked);
        }
        self.publishers.config.publish(revision, upserts.into_iter().collect(), removes);
        self.note_published();
        if self.lagging.is_none() {
            let actions = self.server.on_head(self.now, &self.publishers);
            self.server_actions(actions);
        }
    }

    fn note_published(&mut self) {
        for lane in Lane::ALL {
            let publisher = self.publishers.get(lane);
            let entries = publisher.state().entries.clone();
            self.published.get_mut(lane).insert((self.epoch, publisher.head().revision), entries);
        }
    }

    fn older_replica(&mut self, behind: u64) {
        let revision = self.publishers.config.head().revision.saturating_sub(behind).max(1);
        let epoch = self.epoch;
        let older = |published: &Published| {
            let known = published.iter().filter(|((of, at), _)| *of == epoch && *at <= revision);
            let ((_, at), entries) = known.max_by_key(|((_, at), _)| *at)?;
            Some(Publisher::with_capacity(point(epoch, *at), entries.clone(), 4))
        };
        let (keys, config) = (older(&self.published.keys), older(&self.published.config));
        let (Some(keys), Some(config)) = (keys, config) else { return };
        self.lagging = Some(Lanes { keys, config });
        self.reconnect();
    }

    fn new_epoch(&mut self) {
        self.epoch += 1;
        let entries: BTreeMap<_, _> = [(key(200), body(1))].into();
        for lane in Lane::ALL {
            self.publishers.get_mut(lane).replace(point(self.epoch, 1), entries.clone());
        }
        self.note_published();
        self.lagging = None;
        let actions = self.server.on_head(self.now, &self.publishers);
        self.server_actions(actions);
    }

    /// Flips what one resource holds without telling the digest's owner at the other end.
    fn rot(&mut self) {
        let fresh = ClientSession::new(client_config(), Lanes::default(), self.now);
        let mut states = std::mem::replace(&mut self.client, fresh).into_states();
        for lane in Lane::ALL {
            let state = states.get_mut(lane);
            let first = state.entries.first_key_value();
            if let Some((key, old)) = first.map(|(key, body)| (key.clone(), body.clone())) {
                state.digest.remove(&key, &old);
                let rotten = Body { bytes: "rotten".into(), ..old };
                state.digest.add(&key, &rotten);
                state.entries.insert(key, rotten);
            }
        }
        self.client = ClientSession::new(client_config(), states, self.now);
        self.seen = Lanes::default();
        self.reconnect();
    }

    fn deliver_down(&mut self) {
        let Some(message) = self.down.pop_front() else { return };
        let actions = self.client.on_message(self.now, message);
        self.client_actions(actions);
    }

    fn deliver_up(&mut self) {
        let Some(message) = self.up.pop_front() else { return };
        let publishers = self.lagging.as_ref().unwrap_or(&self.publishers);
        let actions = self.server.on_message(self.now, message, publishers);
        self.server_actions(actions);
    }

    fn tick(&mut self, by: Duration) {
        self.now += by;
        let actions = self.client.tick(self.now);
        self.client_actions(actions);
        let publishers = self.lagging.as_ref().unwrap_or(&self.publishers);
        let actions = self.server.tick(self.now, publishers);
        self.server_actions(actions);
    }

    fn client_actions(&mut self, actions: Vec<ClientAction>) {
        for action in actions {
            match action {
                ClientAction::Send(message) => self.up.push_back(message),
                ClientAction::StatusDue => {
                    self.up.push_back(self.client.status(pb::Status::default()));
                }
                ClientAction::Apply(lane, _) => {
                    let refuses = lane == Lane::Config && std::mem::take(&mut self.refuse_next);
                    let refused = refuses.then(|| "does not compile".to_owned());
                    let verdict = Verdict { refused, ..Verdict::default() };
                    let actions = self.client.on_verdict(lane, verdict);
                    self.client_actions(actions);
                }
                ClientAction::Reconnect(_) => return self.reconnect(),
                ClientAction::Drain { .. } => {}
            }
        }
    }

    fn server_actions(&mut self, actions: Vec<ServerAction>) {
        for action in actions {
            match action {
                ServerAction::Send(message) => self.down.push_back(message),
                ServerAction::Report(_) => {}
                ServerAction::Close(_) => return self.reconnect(),
            }
        }
    }

    /// What must hold at every moment, in every lane.
    fn check(&mut self) {
        for lane in Lane::ALL {
            let state = self.client.state(lane);
            let Some(at) = state.at.clone() else { continue };
            if state.entries.values().any(|body| body.bytes == "rotten") {
                continue;
            }
            let published = self.published.get(lane).get(&(at.epoch[0], at.revision));
            assert_eq!(
                Some(&state.entries),
                published,
                "{lane:?}: not a published state at {at:?}"
            );
            if let Some(seen) = self.seen.get(lane)
                && seen.epoch == at.epoch
            {
                assert!(seen.revision <= at.revision, "{lane:?} went from {seen:?} to {at:?}");
            }
            *self.seen.get_mut(lane) = Some(at);
        }
    }

    /// After faults end, everything settles on the newest state.
    fn settle(&mut self) {
        self.lagging = None;
        self.refuse_next = false;
        // A refused revision is not sent again: publish one more.
        self.publish(&[(0, true)]);
        for _ in 0..400 {
            while !self.down.is_empty() || !self.up.is_empty() {
                self.deliver_up();
                self.check();
                self.deliver_down();
                self.check();
            }
            self.tick(Duration::from_millis(500));
        }
        for lane in Lane::ALL {
            let (state, publisher) = (self.client.state(lane), self.serving().get(lane));
            assert_eq!(state.at.as_ref(), Some(publisher.head()));
            assert_eq!(state.entries, publisher.state().entries);
            assert_eq!(state.digest, publisher.state().digest);
        }
        let before = self.reconnects;
        for _ in 0..100 {
            self.tick(Duration::from_millis(500));
            while !self.down.is_empty() || !self.up.is_empty() {
                self.deliver_up();
                self.deliver_down();
            }
        }
        assert_eq!(self.reconnects, before, "a quiet stream does not reconnect");
    }
}

fn point(epoch: u8, revision: u64) -> Point {
    Point { epoch: vec![epoch].into(), revision }
}

fn key(name: u8) -> Key {
    Key { kind: "model".into(), name: format!("m{name}") }
}

fn body(version: u64) -> Body {
    // Large enough that a few make more than one part.
    Body { version, schema: 1, bytes: vec![b'x'; 100 * 1024].into() }
}

fn small(version: u64) -> Body {
    Body { version, schema: 1, bytes: version.to_string().into() }
}

fn client_config() -> ClientConfig {
    let node = pb::NodeIdentity {
        node_id: "n1".into(),
        schema_min: 1,
        schema_max: 1,
        ..pb::NodeIdentity::default()
    };
    ClientConfig { node, first_silence: Duration::from_secs(9) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn d2_every_history_is_whole_forward_and_converges(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}

#[test]
fn d2_a_refused_change_set_is_not_sent_again() {
    let mut world = World::new();
    world.settle();
    world.refuse_next = true;
    world.publish(&[(3, true)]);
    let mut sent = 0;
    for _ in 0..100 {
        while !world.down.is_empty() || !world.up.is_empty() {
            let is_config = |message: &&pb::ControlPlaneMessage| {
                matches!(
                    &message.message,
                    Some(pb::control_plane_message::Message::Change(chunk))
                        if chunk.lane == i32::from(pb::Lane::Config)
                )
            };
            sent += usize::from(world.down.front().filter(is_config).is_some());
            world.deliver_down();
            world.deliver_up();
        }
        world.tick(Duration::from_millis(500));
    }
    assert_eq!(sent, 1);
    world.publish(&[(4, true)]);
    world.settle();
}

#[test]
fn d2_a_long_absence_ends_in_a_full_state_and_a_short_one_in_a_delta() {
    let mut publisher = Publisher::with_capacity(point(0, 1), BTreeMap::new(), 4);
    for revision in 2..=10 {
        publisher.publish(revision, vec![(key(revision as u8), body(revision))], Vec::new());
    }
    let from = |revision| match publisher.pull(Some(&point(0, revision)), Default::default()) {
        sluicegate_protocol::policy::Pull::Change(change) => {
            (change.from.is_some(), change.upserts.len())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(from(8), (true, 2));
    assert_eq!(from(6), (true, 4));
    assert_eq!(from(5), (false, 9));
    assert_eq!(
        publisher.pull(Some(&point(0, 11)), Default::default()),
        sluicegate_protocol::policy::Pull::Behind
    );
}

#[test]
fn d2_a_follower_that_falls_silent_is_let_go() {
    let publishers = Lanes::of(|_| Publisher::new(point(0, 1), BTreeMap::new()));
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let client = ClientSession::new(client_config(), Lanes::default(), Now::ZERO);
    server.on_message(Now::ZERO, client.hello(), &publishers);
    let ack_timeout = ServerConfig::default().ack_timeout;
    let before = server.tick(ack_timeout - Duration::from_millis(1), &publishers);
    assert!(!before.iter().any(|action| matches!(action, ServerAction::Close(_))), "{before:?}");
    // The acknowledgement is missing, too, and is noticed first.
    let after = server.tick(ack_timeout, &publishers);
    assert!(matches!(after.as_slice(), [ServerAction::Close(Close::AckTimeout(_))]), "{after:?}");

    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let late = ServerConfig::default().heartbeat * 4;
    let closed = server.tick(late, &publishers);
    assert!(matches!(closed.as_slice(), [ServerAction::Close(Close::Silent)]), "{closed:?}");
}

#[test]
fn d5_an_empty_store_takes_nothing_away() {
    let mut client = ClientSession::new(client_config(), Lanes::default(), Now::ZERO);
    let full = Lanes::of(|_| Publisher::new(point(0, 7), [(key(1), body(7))].into()));
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    follow(&mut server, &mut client, &full);
    let held = |client: &ClientSession| Lanes::of(|lane| client.state(lane).entries.len());
    assert_eq!(held(&client), Lanes { keys: 1, config: 1 });

    let mut lost = Lanes::of(|_| Publisher::new(point(1, 0), BTreeMap::new()));
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let mut client = ClientSession::new(client_config(), client.into_states(), Now::ZERO);
    let said = follow(&mut server, &mut client, &lost);
    assert_eq!(held(&client), Lanes { keys: 1, config: 1 }, "served on");
    assert!(said.lanes.config.error.contains("store is empty"), "{:?}", said.lanes);

    lost.config.publish(1, vec![(key(2), body(1))], Vec::new());
    let actions = server.on_head(Now::ZERO, &lost);
    deliver(&mut server, &mut client, &lost, actions, &accept);
    assert_eq!(client.state(Lane::Config).entries.keys().collect::<Vec<_>>(), [&key(2)]);
}

/// How a data plane judges a change set.
type Judge<'a> = &'a dyn Fn(Lane) -> Verdict;

fn accept(_: Lane) -> Verdict {
    Verdict::default()
}

/// Says hello and lets both sides talk until nothing is left to say; what the server knows then.
fn follow(
    server: &mut ServerSession,
    client: &mut ClientSession,
    publishers: &Lanes<Publisher>,
) -> Follower {
    let actions = server.on_message(Now::ZERO, client.hello(), publishers);
    deliver(server, client, publishers, actions, &accept)
}

fn deliver(
    server: &mut ServerSession,
    client: &mut ClientSession,
    publishers: &Lanes<Publisher>,
    actions: Vec<ServerAction>,
    judge: Judge<'_>,
) -> Follower {
    let mut known = Follower::default();
    let mut queue: VecDeque<_> = actions.into();
    while let Some(action) = queue.pop_front() {
        match action {
            ServerAction::Report(follower) => known = *follower,
            ServerAction::Close(close) => panic!("{close:?}"),
            ServerAction::Send(message) => {
                for action in client.on_message(Now::ZERO, message) {
                    let answers = match action {
                        ClientAction::Apply(lane, _) => client.on_verdict(lane, judge(lane)),
                        other => vec![other],
                    };
                    for answer in answers {
                        if let ClientAction::Send(message) = answer {
                            queue.extend(server.on_message(Now::ZERO, message, publishers));
                        }
                    }
                }
            }
        }
    }
    known
}

/// A configuration that is refused, or whose acknowledgement is still to come, holds up no revocation.
#[test]
fn d3_a_revocation_waits_for_no_configuration() {
    let entries = || [(key(1), small(7))].into();
    let mut publishers = Lanes::of(|_| Publisher::new(point(0, 7), entries()));
    let mut client = ClientSession::new(client_config(), Lanes::default(), Now::ZERO);
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    follow(&mut server, &mut client, &publishers);

    let refuse = |lane| match lane {
        Lane::Keys => Verdict::default(),
        Lane::Config => Verdict { refused: Some("no".into()), ..Verdict::default() },
    };
    publishers.config.publish(8, vec![(key(2), small(8))], Vec::new());
    let actions = server.on_head(Now::ZERO, &publishers);
    deliver(&mut server, &mut client, &publishers, actions, &refuse);
    publishers.keys.publish(9, Vec::new(), vec![key(1)]);
    let actions = server.on_head(Now::ZERO, &publishers);
    let known = deliver(&mut server, &mut client, &publishers, actions, &refuse);
    assert!(client.state(Lane::Keys).entries.is_empty());
    assert_eq!(known.lanes.keys.at, Some(point(0, 9)));
    assert_eq!(
        (known.lanes.config.at, known.lanes.config.refused),
        (Some(point(0, 7)), Some(point(0, 8)))
    );

    // One that nobody answers for is on its way: the other lane's next change set goes all the same.
    publishers.config.publish(10, vec![(key(3), small(10))], Vec::new());
    drop(server.on_head(Now::ZERO, &publishers));
    publishers.keys.publish(11, vec![(key(4), small(11))], Vec::new());
    let actions = server.on_head(Now::ZERO, &publishers);
    let known = deliver(&mut server, &mut client, &publishers, actions, &accept);
    assert_eq!(known.lanes.keys.at, Some(point(0, 11)));
    assert_eq!(known.lanes.config.at, Some(point(0, 7)));
}

/// A data plane of a build that knows the configuration alone is sent nothing else.
#[test]
fn a13_lanes_that_a_follower_does_not_know_are_not_sent() {
    let publishers = Lanes::of(|_| Publisher::new(point(0, 7), [(key(1), small(7))].into()));
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let node = client_config().node;
    let hello = pb::Hello { node: Some(node), have: Vec::new() };
    let hello =
        pb::DataPlaneMessage { message: Some(pb::data_plane_message::Message::Hello(hello)) };
    let lanes = server.on_message(Now::ZERO, hello, &publishers).into_iter().filter_map(|action| {
        match action {
            ServerAction::Send(pb::ControlPlaneMessage {
                message: Some(pb::control_plane_message::Message::Change(chunk)),
            }) => Some(chunk.lane),
            _ => None,
        }
    });
    assert_eq!(lanes.collect::<Vec<_>>(), [i32::from(pb::Lane::Config)]);
}

#[test]
fn d6_what_a_follower_says_of_itself_is_bounded() {
    let publisher = Lanes::of(|_| Publisher::new(point(0, 1), BTreeMap::new()));
    let hello = |node_id: String| {
        let node = pb::NodeIdentity {
            node_id,
            build: "é".repeat(10_000),
            schema_min: 1,
            schema_max: 1,
            capabilities: vec!["x".into(); 10_000],
            ..pb::NodeIdentity::default()
        };
        let hello = pb::Hello { node: Some(node), have: Vec::new() };
        pb::DataPlaneMessage { message: Some(pb::data_plane_message::Message::Hello(hello)) }
    };
    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let actions = server.on_message(Now::ZERO, hello("n".repeat(1_000)), &publisher);
    assert!(matches!(actions.as_slice(), [ServerAction::Close(Close::Protocol(_))]));

    let mut server = ServerSession::new(ServerConfig::default(), Now::ZERO);
    let actions = server.on_message(Now::ZERO, hello("n".into()), &publisher);
    let known = actions.iter().find_map(|action| match action {
        ServerAction::Report(follower) => Some(&follower.node),
        ServerAction::Send(_) | ServerAction::Close(_) => None,
    });
    let known = known.unwrap();
    assert!(known.build.len() <= 256 && known.capabilities.len() <= 100);
}
