//! An operator's word in the policy, above everything else.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    Directive, End, Local, Order, Rules, Settings, State, TargetKey,
};

fn local() -> Local {
    let rules: Arc<Rules> = Arc::new(Settings::default().checked().expect("they are sound"));
    Local::new(rules, 7)
}

fn order(generation: u64, order: Order) -> Directive {
    let target = TargetKey::new("p", "m");
    Directive { target, generation, order, ttl_ms: 30_000, reason: String::new() }
}

/// A call that is let in and fails.
fn fails(local: &mut Local, now_ms: u64) {
    let ticket = local.admit(0, now_ms).answer.expect("it is let in");
    local.ended(ticket, End::EngineDead, now_ms);
}

#[test]
fn b3_a_forced_state_holds_without_anybody_else_and_ends_by_itself() {
    let mut local = local();
    local.force(Some((true, 60_000)), 0);
    assert_eq!(local.state(), State::Open);
    assert_eq!(local.admit(0, 59_999).answer.unwrap_err().left_ms, 1);
    local.tick(60_000);
    assert_eq!(local.state(), State::HalfOpen, "a probe finds out first");

    let mut local = self::local();
    local.force(Some((false, 60_000)), 0);
    (0..100).for_each(|n| fails(&mut local, n));
    assert_eq!(local.state(), State::Closed, "whatever happens");
    local.tick(60_000);
    fails(&mut local, 60_001);
    assert_eq!(local.state(), State::Open);
}

#[test]
fn b3_it_stands_above_the_fleets_orders_which_hold_again_after_it() {
    let mut local = local();
    local.force(Some((false, 5_000)), 0);
    local.obey(&order(1, Order::Open { left_ms: 20_000 }), 10);
    assert_eq!(local.state(), State::Closed);
    assert!(!local.window(10).own, "it says nothing of the target");
    local.force(None, 20);
    assert_eq!(local.state(), State::Open);
    local.force(Some((true, 5_000)), 30);
    local.withdraw(2, 40);
    assert_eq!(local.state(), State::Open);
    local.force(None, 50);
    assert_eq!(local.state(), State::HalfOpen);
    // Nothing to take back.
    assert!(local.force(None, 60).is_nothing());
}

#[test]
fn b3_repeats_change_nothing_but_the_end() {
    let mut local = local();
    assert!(local.force(Some((true, 1_000)), 0).transition.is_some());
    assert!(local.force(Some((true, 1_000)), 500).is_nothing());
    local.tick(1_400);
    assert_eq!(local.state(), State::Open);
    assert!(local.force(Some((false, 1_000)), 1_450).transition.is_some());
    for (open, left_ms, now_ms) in [(true, u64::MAX, 0), (false, u64::MAX, u64::MAX), (true, 0, 9)]
    {
        local.force(Some((open, left_ms)), now_ms);
    }
}
