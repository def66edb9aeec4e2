//! What health probes lead to: in the fleet, and on a node alone.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    Action, CheckRules, Checked, Directive, Finding, Fleet, Forced, Health, Order, Reason, Rules,
    State, TargetKey,
};

use crate::node::{Node, opened_by, to};

const RULES: CheckRules = CheckRules { interval_ms: 1_000, rise: 2, fall: 3 };

fn target(name: &str) -> TargetKey {
    TargetKey::new("p", name)
}

/// A merger of one node, with a clock.
struct Merger {
    fleet: Fleet,
    now_ms: u64,
    seq: u64,
    last: Option<Directive>,
}

impl Merger {
    fn new(models: &[&[&str]]) -> Self {
        let mut fleet = Fleet::new(Arc::new(Rules::default()), 7);
        let group = |model: &&[&str]| (model.iter().map(|name| target(name)).collect(), 0.5);
        fleet.set_groups(models.iter().map(group).collect());
        let all = models.iter().copied().flatten().map(|name| (target(name), RULES));
        fleet.set_checks(all.collect());
        let mut merger = Self { fleet, now_ms: 1_000, seq: 0, last: None };
        merger.fleet.heartbeat("n", None, true, 1_000).expect("there is room");
        merger.fleet.assign_checks();
        merger
    }

    fn found(&mut self, name: &str, health: Health) -> Vec<(String, &'static str)> {
        self.seq += 1;
        let finding = Finding { seq: self.seq, health, reason: "503".to_owned() };
        self.fleet.finding("n", &target(name), &finding, self.now_ms);
        self.tick()
    }

    fn tick(&mut self) -> Vec<(String, &'static str)> {
        let mut said = Vec::new();
        for action in self.fleet.tick(self.now_ms) {
            let (of, what) = match action {
                Action::Publish(directive) => {
                    let what = match directive.order {
                        Order::Ill { .. } => "ill",
                        Order::HalfOpen => "half-open",
                        Order::ForcedOpen { .. } => "forced open",
                        Order::ForcedClosed { .. } => "forced closed",
                        Order::Open { .. } | Order::Ramp { .. } => "else",
                    };
                    self.last = Some(directive.clone());
                    (directive.target, what)
                }
                Action::Withdraw { target, .. } => (target, "withdrawn"),
                Action::Grant(grant) => (grant.target, "granted"),
            };
            said.push((of.model, what));
        }
        said
    }

    fn state(&self, name: &str) -> State {
        let mut all = self.fleet.standings(self.now_ms);
        all.find(|one| one.target == target(name)).map_or(State::Closed, |one| one.state)
    }
}

fn said(name: &str, what: &'static str) -> Vec<(String, &'static str)> {
    vec![(name.to_owned(), what)]
}

#[test]
fn a12_what_is_ill_is_left_alone_and_comes_back_by_a_probe() {
    let mut merger = Merger::new(&[&["a"]]);
    assert_eq!(merger.found("a", Health::Well), []);
    assert_eq!(merger.found("a", Health::Ill), said("a", "ill"));
    let directive = merger.last.clone().unwrap();
    assert_eq!((directive.reason.as_str(), directive.ttl_ms), ("health probe: 503", 30_000));
    let standing = merger.fleet.standings(merger.now_ms).next().unwrap();
    assert_eq!((standing.state, standing.reason), (State::Open, Reason::Ill));
    // Said again and again, with the same number.
    for second in 1..=10 {
        merger.now_ms += 1_000;
        merger.fleet.heartbeat("n", None, true, merger.now_ms).unwrap();
        let again = merger.found("a", Health::Ill);
        assert_eq!(again, if second == 10 { said("a", "ill") } else { vec![] });
    }
    assert_eq!(merger.last.as_ref().map(|it| it.generation), Some(directive.generation));
    assert_eq!(merger.found("a", Health::Well), said("a", "half-open"));
    assert_eq!(merger.state("a"), State::HalfOpen);
}

#[test]
fn a12_a_word_that_is_not_said_again_ends() {
    let mut merger = Merger::new(&[&["a"]]);
    merger.found("a", Health::Ill);
    merger.now_ms += 17_999;
    merger.tick();
    assert_eq!(merger.state("a"), State::Open);
    merger.now_ms += 1;
    merger.tick();
    assert_eq!(merger.state("a"), State::HalfOpen);
}

#[test]
fn a12_the_last_that_is_not_ill_stays_and_where_all_are_ill_none_is_left_alone() {
    let states = |merger: &Merger| ["a", "b", "c"].map(|name| merger.state(name));
    let mut merger = Merger::new(&[&["a", "b", "c"]]);
    merger.found("a", Health::Ill);
    merger.found("b", Health::Ill);
    assert_eq!(
        states(&merger),
        [State::Open, State::Open, State::Closed],
        "whatever share may be left out by what nodes see"
    );
    merger.found("c", Health::Ill);
    assert_eq!(states(&merger), [State::Closed; 3]);
    merger.found("b", Health::Well);
    assert_eq!(states(&merger), [State::Open, State::Closed, State::Open]);
    // A model with one target has nothing to lose; a target of several models heeds them all.
    let mut merger = Merger::new(&[&["a"], &["b"], &["b", "c"]]);
    for name in ["a", "b", "c"] {
        merger.found(name, Health::Ill);
    }
    assert_eq!(states(&merger), [State::Open, State::Closed, State::Closed]);
}

#[test]
fn a12_an_operators_word_is_above_it() {
    let mut merger = Merger::new(&[&["a", "b"]]);
    let forced = |open| Forced { open, left_ms: 60_000, comment: "mine".to_owned() };
    merger.found("a", Health::Ill);
    merger.fleet.force(&target("a"), forced(false), merger.now_ms).unwrap();
    assert_eq!(merger.tick(), said("a", "forced closed"));
    assert_eq!(merger.state("a"), State::Closed);
    // It is used, so that the other can be done without.
    assert_eq!(merger.found("b", Health::Ill), said("b", "ill"));
    merger.fleet.unforce(&target("a"), merger.now_ms);
    let both = merger.tick();
    let expected = ["a", "b"].map(|name| (name.to_owned(), "withdrawn"));
    assert_eq!(both, expected, "all are ill");
}

#[test]
fn a12_what_an_operator_left_alone_does_not_stand_in() {
    let mut merger = Merger::new(&[&["a", "b"]]);
    let forced = Forced { open: true, left_ms: 60_000, comment: "mine".to_owned() };
    merger.fleet.force(&target("a"), forced, merger.now_ms).unwrap();
    merger.found("b", Health::Ill);
    assert_eq!((merger.state("a"), merger.state("b")), (State::Open, State::Closed));
}

#[test]
fn a12_an_heir_goes_on_from_there() {
    let mut merger = Merger::new(&[&["a"]]);
    merger.found("a", Health::Ill);
    let stored = merger.last.take().unwrap();
    let mut heir = Merger::new(&[&["a"]]);
    heir.fleet.resume_prober(&target("a"), "other");
    heir.fleet.resume(&[stored], heir.now_ms);
    assert_eq!(heir.fleet.prober(&target("a")), Some("other"));
    assert_eq!(heir.tick(), said("a", "ill"));
    assert_eq!(heir.last.as_ref().unwrap().reason, "health probe: 503");
    heir.now_ms += 17_000;
    heir.tick();
    assert_eq!(heir.state("a"), State::Open);
    heir.now_ms += 1_000;
    heir.tick();
    assert_eq!(heir.state("a"), State::HalfOpen, "nobody has said it again");
}

#[test]
fn a12_a_node_leaves_alone_what_the_fleet_finds_ill_however_well_it_sees_it() {
    let mut node = Node::usual();
    (0..30).for_each(|_| node.ok());
    assert_eq!(opened_by(node.obey(1, Order::Ill { left_ms: 30_000 })), Some(Reason::Ill));
    assert!(node.try_enter().is_err());
    // An operator's word outranks it, and when that is over it holds again.
    assert_eq!(to(node.local.force(Some((false, 1_000)), node.now_ms)), Some(State::Closed));
    node.now_ms += 1_000;
    assert_eq!(opened_by(node.local.force(None, node.now_ms)), Some(Reason::Ill));
    assert_eq!(to(node.obey(2, Order::HalfOpen)), Some(State::HalfOpen));
    assert_eq!(to(node.obey(3, Order::Ramp { percent: 10 })), Some(State::Ramping));
}

#[test]
fn a12_alone_a_node_goes_by_its_own_probes() {
    let mut node = Node::usual();
    let ill = Checked::Ill { left_ms: 10_000 };
    node.local.fleet_present(3);
    assert!(node.local.checked(ill, node.now_ms).is_nothing(), "the fleet decides");
    node.local.fleet_away();
    assert!(node.local.checked(Checked::Well, node.now_ms).is_nothing());
    assert_eq!(opened_by(node.local.checked(ill, node.now_ms)), Some(Reason::Ill));
    node.now_ms += 9_000;
    assert!(node.local.checked(ill, node.now_ms).is_nothing(), "the same again");
    node.now_ms += 9_000;
    assert!(node.try_enter().is_err());
    assert_eq!(to(node.local.checked(Checked::Well, node.now_ms)), Some(State::Ramping));
    // All that stand in for it are ill, too.
    node.local.checked(ill, node.now_ms);
    assert_eq!(to(node.local.checked(Checked::Spared, node.now_ms)), Some(State::Closed));
    // Nothing says it again: it is tried by calls.
    node.local.checked(ill, node.now_ms);
    node.now_ms += 10_000;
    assert_eq!(to(node.tick()), Some(State::HalfOpen));
    // The operator's word.
    node.local.force(Some((false, 5_000)), node.now_ms);
    assert!(node.local.checked(ill, node.now_ms).is_nothing());
    assert!(node.try_enter().is_ok());
    assert!(node.local.checked(Checked::Ill { left_ms: 0 }, node.now_ms).is_nothing());
    node.local.checked(Checked::Ill { left_ms: u64::MAX }, u64::MAX);
}
