//! What the fleet makes of targets, as one replica and two keep it.

use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{Breakers, CoreError, Election, election::Timing};
use sluicegate_proto::{
    admin::v1 as admin,
    health::v1 as pb,
    resource::v1::{self as resource, resource::Spec},
};
use sluicegate_protocol::breaker::{Order, State, Word};
use sluicegate_store::{ConfigStore, ledger::Ledger};
use sluicegate_telemetry::{clock, task::AbortOnDrop};
use tokio::time::timeout;

use crate::{
    fixture::{Core, delete, wrap},
    ledger::Scripted,
};

const SOON: Duration = Duration::from_secs(20);
const TIMING: Timing = Timing {
    ttl: Duration::from_secs(2),
    refresh: Duration::from_millis(300),
    look: Duration::from_millis(100),
    margin: Duration::from_millis(300),
};

/// One control plane, as far as targets are concerned.
struct Replica {
    election: Arc<Election>,
    breakers: Arc<Breakers>,
    _tasks: [AbortOnDrop<()>; 2],
}

impl Replica {
    fn start(core: &Core, ledger: Arc<dyn Ledger>, name: &str) -> Self {
        let store: Arc<dyn ConfigStore> = core.store.clone();
        let (election, electing) = Election::start(store.clone(), name, TIMING);
        let (breakers, breaking) =
            Breakers::start(core.desired.clone(), store, ledger, election.clone());
        Self { election, breakers, _tasks: [electing, breaking] }
    }

    async fn leads(&self) {
        let mut leads = self.election.leads();
        drop(timeout(SOON, leads.wait_for(|leads| *leads)).await.unwrap().unwrap());
    }

    fn report(&self, node: &str, seq: u64, state: pb::State) {
        self.breakers.report(report(node, seq, state)).unwrap();
    }

    /// What is said of the target now.
    fn word(&self) -> Option<Word> {
        self.breakers.since(0, "nobody").0.words.pop()
    }

    /// Waits until what is said of the target is so; the data planes go on telling meanwhile.
    async fn says(&self, what: &str, mut tell: impl FnMut(), so: impl Fn(Option<&Word>) -> bool) {
        let waiting = async {
            while !so(self.word().as_ref()) {
                tell();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(timeout(SOON, waiting).await.is_ok(), "{what}: {:?}", self.word());
    }

    async fn status(&self) -> admin::TargetStatus {
        let request = admin::BreakerStatusRequest { target: "p/m".to_owned() };
        self.breakers.status(&request).await.unwrap().targets.remove(0)
    }
}

/// A data plane with traffic that has the target in this state by itself.
fn report(node: &str, seq: u64, state: pb::State) -> pb::ReportRequest {
    let counts = pb::Counts { started: 20, answered: 10, failed: 10, ..pb::Counts::default() };
    let window = pb::Window {
        target: Some(pb::Target { provider: "p".into(), model: "m".into() }),
        seq,
        state: state.into(),
        own: true,
        recent: Some(counts),
        long: Some(counts),
        ..pb::Window::default()
    };
    pb::ReportRequest { node_id: node.into(), windows: vec![window], ..Default::default() }
}

fn force(name: &str, breaker: &str, left: Duration) -> resource::Resource {
    let end = clock::unix_ms() + u64::try_from(left.as_millis()).unwrap();
    wrap(Spec::Force(resource::Force {
        name: name.into(),
        target: "p/*".into(),
        breaker: breaker.into(),
        expires_at: clock::format_unix_ms(end),
        comment: "by hand".into(),
        ..Default::default()
    }))
}

fn order(word: Option<&Word>) -> Option<Order> {
    match word {
        Some(Word::Order(directive)) => Some(directive.order),
        _ => None,
    }
}

fn is_open(word: Option<&Word>) -> bool {
    matches!(order(word), Some(Order::Open { .. }))
}

#[tokio::test]
async fn b1_nodes_of_two_replicas_open_a_target_for_all_and_an_heir_keeps_it() {
    let core = Core::seeded().await;
    let other = Core::over(core.store.clone(), core.seal.clone()).await;
    let ledger = Scripted::at(1 << 40);
    let one = Replica::start(&core, ledger.clone(), "one");
    one.leads().await;
    let two = Replica::start(&other, ledger.clone(), "two");
    let mut seq = 0;
    let mut tell = || {
        seq += 1;
        one.report("node-1", seq, pb::State::Open);
        one.report("node-3", seq, pb::State::Closed);
        two.report("node-2", seq, pb::State::Open);
    };
    // The leader hears of the second one only through the ledger.
    one.says("opened", &mut tell, is_open).await;
    two.says("told", &mut tell, is_open).await;
    let status = two.status().await;
    assert_eq!((status.state(), status.strikes), (pb::State::Open, 1));
    assert_eq!(status.reason, "2 of 3 nodes have it open");
    assert_eq!(status.nodes.len(), 3, "each is shown on each replica: {status:?}");
    let states = two.breakers.states();
    assert_eq!(states, [("p".to_owned(), "m".to_owned(), State::Open)]);
    assert!(core.names().iter().all(|name| !name.contains("breaker")));

    let before = two.word().unwrap();
    drop(one);
    two.leads().await;
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(is_open(two.word().as_ref()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(seen.iter().all(|open| *open), "nothing flaps");
    let after = two.word().unwrap();
    assert!(after.generation() > before.generation(), "{before:?} {after:?}");
}

/// A fleet of one node is opened by it, also without a ledger; and a node alone opens nothing for two.
#[tokio::test]
async fn b1_without_a_ledger_the_leader_goes_by_its_own_nodes() {
    let core = Core::seeded().await;
    let ledger = Scripted::at(1 << 40);
    ledger.script().away = true;
    let one = Replica::start(&core, ledger.clone(), "one");
    one.leads().await;
    for seq in 1..20 {
        one.report("node-1", seq, pb::State::Open);
        one.report("node-2", seq, pb::State::Closed);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(one.word(), None);
    let mut seq = 20;
    let tell = || {
        seq += 1;
        one.report("node-1", seq, pb::State::Open);
    };
    // The other one falls silent.
    one.says("opened", tell, is_open).await;
    // Its time is over: one node has leave to probe.
    let waiting = async {
        loop {
            let (news, _) = one.breakers.since(0, "node-1");
            if let Some(grant) = news.grants.into_iter().next() {
                return grant;
            }
            seq += 1;
            one.report("node-1", seq, pb::State::HalfOpen);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let grant = timeout(SOON, waiting).await.expect("a grant");
    assert_eq!((grant.node.as_str(), grant.deadline_ms <= 15_000), ("node-1", true));
    assert_eq!(one.breakers.since(0, "node-2").0.grants, [], "nobody else");
    let mut ended = report("node-1", 1_000, pb::State::HalfOpen);
    ended.probes.push(pb::ProbeResult {
        target: ended.windows[0].target.clone(),
        generation: grant.generation,
        result: pb::probe_result::Result::Ok.into(),
    });
    one.breakers.report(ended).unwrap();
    let ramps = |word: Option<&Word>| matches!(order(word), Some(Order::Ramp { percent: 10 }));
    one.says("ramping", || {}, ramps).await;
}

#[tokio::test]
async fn b3_forces_are_orders_and_end_by_themselves_or_when_they_are_taken_back() {
    let core = Core::seeded().await;
    let one = Replica::start(&core, Scripted::at(1 << 40), "one");
    one.leads().await;
    core.put(vec![force("f", "open", Duration::from_secs(600))]).await;
    let forced = |word: Option<&Word>| matches!(order(word), Some(Order::ForcedOpen { .. }));
    one.says("forced", || {}, forced).await;
    let status = one.status().await;
    assert_eq!((status.state(), status.reason.as_str()), (pb::State::Open, "by hand"));
    let shown = status.forced.unwrap();
    assert_eq!((shown.name.as_str(), shown.open, shown.comment.as_str()), ("f", true, "by hand"));
    core.apply(vec![delete(sluicegate_model::Kind::Force, "f")]).await.unwrap();
    one.says("tried", || {}, |word| order(word) == Some(Order::HalfOpen)).await;
    assert_eq!(one.status().await.forced, None);

    core.put(vec![force("g", "closed", Duration::from_millis(1_500))]).await;
    let forced = |word: Option<&Word>| matches!(order(word), Some(Order::ForcedClosed { .. }));
    one.says("forced", || {}, forced).await;
    one.says("over", || {}, |word| matches!(word, Some(Word::Withdrawn { .. }))).await;
}

#[tokio::test]
async fn b1_requests_that_kill_are_blocked_on_every_replica() {
    let core = Core::seeded().await;
    let ledger = Scripted::at(1 << 40);
    let one = Replica::start(&core, ledger.clone(), "one");
    one.leads().await;
    let two = Replica::start(&core, ledger, "two");
    let mut found = report("node-2", 1, pb::State::Closed);
    found.blocked.push(pb::Blocked { fingerprint: vec![7; 16].into(), left_ms: 600_000 });
    two.breakers.report(found).unwrap();
    let mut versions = one.breakers.subscribe();
    let waiting = async {
        while one.breakers.since(0, "node-1").0.blocked.is_empty() {
            versions.changed().await.unwrap();
        }
    };
    timeout(SOON, waiting).await.expect("told to the other replica");
    let (news, version) = one.breakers.since(0, "node-1");
    assert!((500_000..=600_000).contains(&news.blocked[0].left_ms), "{news:?}");
    assert_eq!(one.breakers.since(version, "node-1").0, Default::default(), "told once");
}

#[tokio::test]
async fn faults_name_the_field_and_the_name_that_was_meant() {
    let core = Core::seeded().await;
    let one = Replica::start(&core, Scripted::at(1 << 40), "one");
    let mut wrong = report("node-1", 1, pb::State::Open);
    wrong.windows[0].target = None;
    let Err(CoreError::Invalid(faults)) = one.breakers.report(wrong) else { panic!("taken") };
    assert_eq!(faults.0[0].location(), "windows[0].target");
    for (target, fine) in
        [("p/m", true), ("p/*", true), ("q/m", false), ("p/", false), ("p", false)]
    {
        let request = admin::BreakerStatusRequest { target: target.to_owned() };
        assert_eq!(one.breakers.status(&request).await.is_ok(), fine, "{target}");
    }
}
