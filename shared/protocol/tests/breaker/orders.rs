//! What one node makes of the fleet's orders, and of their absence.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    End, Local, Order, Probe, ProbeResult, Reason, Settings, State,
};

use crate::node::{Node, directive, opened_by, to};

#[test]
fn b1_orders_are_followed_and_end_with_their_time() {
    let mut node = Node::usual();
    let opened = node.obey(1, Order::Open { left_ms: 20_000 });
    assert_eq!(opened_by(opened), Some(Reason::Fleet));
    assert_eq!(node.try_enter().unwrap_err().left_ms, 20_000);
    // While they hold, a node does not go on by itself.
    node.now_ms += 25_000;
    assert!(node.obey(1, Order::Open { left_ms: 0 }).is_nothing());
    node.now_ms += 29_999;
    assert!(node.tick().is_nothing());
    node.now_ms += 1;
    assert_eq!(to(node.tick()), Some(State::HalfOpen), "the time to live is over");
    assert!(node.wait_for(State::Closed) <= 25_000);
}

#[test]
fn b1_the_fleet_probes_and_ramps() {
    let mut node = Node::usual();
    node.local.fleet_present(3);
    node.obey(1, Order::Open { left_ms: 5_000 });
    node.obey(2, Order::HalfOpen);
    assert!(node.try_enter().is_err(), "without a permit");
    assert!(node.local.window(node.now_ms).waiting);
    node.local.grant(3, 15_000, node.now_ms);
    assert!(node.local.wants_probe());
    let mut probe = node.enter();
    assert!(probe.is_probe() && node.try_enter().is_err());
    node.local.grant(3, 15_000, node.now_ms);
    assert!(node.try_enter().is_err(), "a grant that comes twice is one");
    let first = node.local.first_event(&mut probe, node.now_ms);
    assert_eq!(first.probe, Some(ProbeResult { generation: 3, probe: Probe::Ok }));
    assert_eq!(node.local.state(), State::HalfOpen, "the fleet draws the conclusion");
    assert_eq!(to(node.obey(4, Order::Ramp { percent: 25 })), Some(State::Ramping));
    assert!(node.obey(2, Order::HalfOpen).is_nothing(), "overtaken");
    node.now_ms += 20_000;
    node.tick();
    assert_eq!((0..100).filter(|_| node.try_enter().is_ok()).count(), 25, "no step by itself");
    assert_eq!(to(node.local.withdraw(5, node.now_ms)), Some(State::Closed));
    assert!(node.obey(4, Order::Ramp { percent: 25 }).is_nothing(), "overtaken");
    assert_eq!(node.local.state(), State::Closed);
}

#[test]
fn b1_a_permit_that_is_not_used_or_not_answered_is_given_back() {
    let mut node = Node::usual();
    node.obey(1, Order::HalfOpen);
    node.local.grant(2, 16_000, node.now_ms);
    node.now_ms += 4_000;
    let unused = Some(ProbeResult { generation: 2, probe: Probe::Unused });
    assert_eq!(node.tick().probe, unused);
    assert!(node.try_enter().is_err());
    node.local.grant(3, 16_000, node.now_ms);
    let probe = node.enter();
    node.now_ms += 16_000;
    let failed = Some(ProbeResult { generation: 3, probe: Probe::Failed });
    assert_eq!(node.tick().probe, failed);
    assert!(node.end(probe, End::Success).is_nothing());
}

#[test]
fn b1_a_node_that_sees_it_well_keeps_half_and_says_so() {
    let mut node = Node::usual();
    for _ in 0..11 {
        node.ok();
    }
    node.fail(End::Hard);
    let split = node.obey(1, Order::Open { left_ms: 60_000 }).transition.unwrap();
    assert_eq!(split.to, State::Suspect);
    assert_eq!(split.reason, Reason::SplitView { answered: 11, failed: 1 });
    assert_eq!(node.local.weight_percent(), 50);
    let window = node.local.window(node.now_ms);
    assert!(window.split && !window.own);
    // It sees it well no longer.
    node.fail(End::Hard);
    assert_eq!(opened_by(node.tick()), Some(Reason::Fleet));
    // One with too little to say obeys at once.
    let mut node = Node::usual();
    for _ in 0..9 {
        node.ok();
    }
    assert_eq!(to(node.obey(1, Order::Open { left_ms: 60_000 })), Some(State::Open));
}

#[test]
fn b1_what_a_node_opens_by_itself_no_ramp_and_no_withdrawal_closes() {
    let mut node = Node::usual();
    node.obey(1, Order::HalfOpen);
    node.obey(2, Order::Ramp { percent: 50 });
    assert_eq!(opened_by(node.fail(End::EngineDead)), Some(Reason::EngineDead));
    assert!(node.obey(2, Order::Ramp { percent: 50 }).is_nothing());
    assert!(node.obey(3, Order::Ramp { percent: 50 }).is_nothing());
    assert!(node.local.withdraw(4, node.now_ms).is_nothing());
    assert!(node.local.window(node.now_ms).own);
    // An order to open takes it over.
    assert!(node.obey(5, Order::Open { left_ms: 9_000 }).is_nothing());
    assert!(!node.local.window(node.now_ms).own);
}

#[test]
fn b1_an_operator_outranks_everything_and_its_word_ends_by_itself() {
    let mut node = Node::usual();
    for _ in 0..50 {
        node.ok();
    }
    let word = |generation, order, ttl_ms| directive(generation, order, ttl_ms);
    let open = word(1, Order::ForcedOpen { left_ms: 60_000 }, 60_000);
    let opened = node.local.obey(&open, node.now_ms);
    assert_eq!(opened_by(opened), Some(Reason::Operator), "however well it is");
    assert!(to(node.local.obey(&open, node.now_ms)).is_none());
    node.now_ms += 60_000;
    assert_eq!(to(node.tick()), Some(State::HalfOpen), "a probe first");

    let mut node = Node::opened();
    let closed = word(1, Order::ForcedClosed { left_ms: 60_000 }, 60_000);
    assert_eq!(to(node.local.obey(&closed, node.now_ms)), Some(State::Closed));
    for _ in 0..100 {
        assert!(node.fail(End::EngineDead).is_nothing());
        assert!(node.local.obey(&closed, node.now_ms).is_nothing());
    }
    node.now_ms += 60_000;
    assert!(node.tick().is_nothing());
    assert_eq!(opened_by(node.fail(End::Hard)), Some(Reason::FailuresInARow { count: 101 }));
}

#[test]
fn b1_without_a_control_plane_one_node_of_many_probes_in_a_period() {
    let mut probes = 0;
    for seed in 0..400 {
        let rules = Arc::new(Settings::default().checked().unwrap());
        let mut local = Local::new(rules, seed);
        local.fleet_present(10);
        local.fleet_away();
        let ticket = local.admit(0, 0).answer.unwrap();
        let _ = local.ended(ticket, End::EngineDead, 0);
        // Within the first period: half-open after 6 s at most.
        let tried = (0..8).any(|n| local.admit(0, 6_000 + n * 500).answer.is_ok());
        probes += u32::from(tried);
    }
    assert!((20..=70).contains(&probes), "{probes} of 400 nodes in a fleet of 10");
}
