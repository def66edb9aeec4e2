//! What opens one node's breaker, and how it comes back by itself.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    Changed, Count, End, Order, Rate, Reason, Settings, State, Transition,
};

use crate::node::{Node, directive, opened_by, to};

#[test]
fn b1_each_signal_opens_by_itself_and_says_why() {
    let slow = |count| Settings {
        slow_in_a_row: Count { window_ms: 15_000, count },
        ..Settings::default()
    };
    // Settings, calls before, the call that opens, why.
    check(Settings::default(), &[(End::Hard, 4)], End::Hard, Reason::FailuresInARow { count: 5 });
    check(
        Settings::default(),
        &[(End::TimedOut, 4)],
        End::Hard,
        Reason::FailuresInARow { count: 5 },
    );
    check(
        Settings::default(),
        &[(End::Truncated, 4)],
        End::Truncated,
        Reason::FailuresInARow { count: 5 },
    );
    check(
        Settings { failures_in_a_row: 0, ..Settings::default() },
        &[(End::Success, 10), (End::Hard, 9)],
        End::Hard,
        Reason::FailureRate { failed: 10, of: 20, window_ms: 10_000 },
    );
    check(
        Settings::default(),
        &[(End::Success, 75), (End::Truncated, 24)],
        End::Truncated,
        Reason::FailureRate { failed: 25, of: 100, window_ms: 60_000 },
    );
    check(
        Settings {
            failure_rates: vec![Rate { window_ms: 60_000, ratio: 0.4, min_requests: 10 }],
            ..Settings::default()
        },
        &[(End::Success, 6), (End::Hard, 3)],
        End::Hard,
        Reason::FailureRate { failed: 4, of: 10, window_ms: 60_000 },
    );
    check(
        Settings::default(),
        &[(End::Success, 10), (End::Stalled, 2)],
        End::Stalled,
        Reason::Stalls { stalled: 3, of: 13, window_ms: 60_000 },
    );
    check(
        Settings::default(),
        &[(End::Success, 10), (End::OutOfMemory, 1)],
        End::OutOfMemory,
        Reason::MemoryErrors { count: 2, window_ms: 30_000 },
    );
    check(Settings::default(), &[(End::Success, 50)], End::EngineDead, Reason::EngineDead);
    check(
        slow(3),
        &[(End::TimedOut, 2)],
        End::TimedOut,
        Reason::SlowInARow { count: 3, window_ms: 15_000 },
    );

    #[track_caller]
    fn check(settings: Settings, before: &[(End, u32)], last: End, reason: Reason) {
        let mut node = Node::new(settings);
        let mut send = |end| match end {
            End::Success | End::Stalled | End::Truncated => node.call(0, end),
            _ => node.fail(end),
        };
        for (end, count) in before {
            for _ in 0..*count {
                assert_ne!(to(send(*end)), Some(State::Open), "{end:?}");
            }
        }
        assert_eq!(opened_by(send(last)), Some(reason));
        assert_eq!((node.local.state(), node.local.reason()), (State::Open, reason));
        let refused = node.try_enter().unwrap_err();
        assert_eq!((refused.state, refused.reason), (State::Open, reason));
        assert!((4_000..=6_000).contains(&refused.left_ms), "{refused:?}");
    }
}

#[test]
fn b1_three_slow_calls_in_a_row_open() {
    let settings =
        Settings { slow_in_a_row: Count { window_ms: 15_000, count: 3 }, ..Settings::default() };
    // The base, and 1 s for a prompt of 100 tokens.
    check(&settings, &[11_001, 2_000, 11_001, 11_001], None);
    check(&settings, &[11_000, 11_000, 11_000], None);
    // Three that end within 15 s of each other.
    let mut node = Node::new(settings.clone());
    let mut tickets = [node.enter(), node.enter(), node.enter()];
    let changes = tickets.each_mut().map(|ticket| {
        node.now_ms += 5_000;
        node.local.late(ticket, node.now_ms + 7_000)
    });
    assert_eq!(opened_by(changes[2]), Some(Reason::SlowInARow { count: 3, window_ms: 15_000 }));
    // In turn each takes 11 s: 22 s lie between the first and the third.
    check(&settings, &[11_001, 11_001, 11_001], None);
    let wide = Settings { slow_in_a_row: Count { window_ms: 23_000, count: 3 }, ..settings };
    check(&wide, &[11_001, 11_001, 11_001], Some(State::Open));

    #[track_caller]
    fn check(settings: &Settings, times: &[u64], expected: Option<State>) {
        let mut node = Node::new(settings.clone());
        let last = times.iter().map(|took| node.call(*took, End::Success)).last().unwrap();
        assert_eq!(to(last).filter(|state| *state == State::Open), expected);
    }
}

#[test]
fn b1_what_is_usual_for_the_size_of_a_prompt_is_not_slow() {
    let mut node = Node::usual();
    let mut long = node.local.admit(40_000, node.now_ms).answer.unwrap();
    assert_eq!(long.slow_after_ms(), 10_000 + 40_000);
    node.local.first_event(&mut long, node.now_ms + 30_000);
    node.end(long, End::Success);
    for _ in 0..30 {
        let mut ticket = node.local.admit(40_000, node.now_ms).answer.unwrap();
        node.local.first_event(&mut ticket, node.now_ms + 30_000);
        node.end(ticket, End::Success);
    }
    node.now_ms += 3_600_000;
    let slow_after_ms = node.local.admit(40_000, node.now_ms).answer.unwrap().slow_after_ms();
    assert!((90_000..=115_000).contains(&slow_after_ms), "{slow_after_ms}");
    assert_eq!(node.enter().slow_after_ms(), 10_100, "another class");
}

#[test]
fn b1_faults_of_callers_and_keys_never_count() {
    for end in [End::Neutral, End::RateLimited] {
        let mut node = Node::usual();
        for _ in 0..1_000 {
            assert!(node.fail(end).is_nothing());
        }
        // Nor do they hide what fails.
        for _ in 0..4 {
            node.fail(End::Hard);
            assert!(to(node.fail(end)).is_none());
        }
        assert_eq!(opened_by(node.fail(End::Hard)), Some(Reason::FailuresInARow { count: 5 }));
    }
}

#[test]
fn b1_a_stream_that_fails_late_is_one_failure_and_no_success() {
    let mut node = Node::new(Settings { failures_in_a_row: 0, ..Settings::default() });
    let mut tickets: Vec<_> = (0..20).map(|_| node.enter()).collect();
    for ticket in &mut tickets {
        assert!(node.local.first_event(ticket, node.now_ms).is_nothing());
    }
    assert_eq!(node.local.in_flight(), 20);
    node.now_ms += 8_000;
    let changes: Vec<_> = tickets.iter().map(|ticket| node.end(*ticket, End::Truncated)).collect();
    let window_ms = 10_000;
    let opened = changes.iter().position(|changed| opened_by(*changed).is_some()).unwrap();
    assert_eq!(opened, 9, "with 10 of 20 and not before");
    let reason = Reason::FailureRate { failed: 10, of: 20, window_ms };
    assert_eq!(opened_by(changes[opened]), Some(reason));
    assert_eq!(node.local.in_flight(), 0);
}

#[test]
fn b1_half_of_it_halves_the_weight_for_a_while() {
    let mut node = Node::usual();
    node.fail(End::Hard);
    node.fail(End::Hard);
    assert_eq!(node.local.weight_percent(), 100);
    let suspected = node.fail(End::Hard).transition.unwrap();
    let reason = Reason::FailuresInARow { count: 3 };
    let (from, to) = (State::Closed, State::Suspect);
    assert_eq!(suspected, Transition { from, to, reason });
    assert_eq!(node.local.weight_percent(), 50);
    node.ok();
    assert_eq!(node.local.state(), State::Suspect, "not at once");
    assert!(node.wait_for(State::Closed) <= 6_000);
}

#[test]
fn b1_it_comes_back_by_one_probe_and_in_steps() {
    let mut node = Node::opened();
    let left_ms = node.try_enter().unwrap_err().left_ms;
    node.now_ms += left_ms - 1;
    assert!(node.try_enter().is_err());
    node.now_ms += 1;
    let mut probe = node.enter();
    assert!(probe.is_probe());
    assert_eq!(node.local.state(), State::HalfOpen);
    let refused = node.try_enter().unwrap_err();
    assert_eq!((refused.state, refused.reason), (State::HalfOpen, Reason::AwaitsProbe));
    let first = node.local.first_event(&mut probe, node.now_ms);
    assert_eq!(to(first), Some(State::Ramping), "the end of the stream is not waited for");
    let mut shares = vec![];
    for _ in 0..3 {
        let tickets: Vec<_> = (0..100).filter_map(|_| node.try_enter().ok()).collect();
        shares.push(tickets.len());
        for ticket in tickets {
            node.end(ticket, End::Success);
        }
        node.now_ms += 5_000;
        node.tick();
    }
    assert_eq!(shares, [10, 25, 50]);
    assert_eq!(node.local.state(), State::Closed);
}

#[test]
fn b1_a_probe_that_fails_opens_for_twice_as_long() {
    for end in [End::Hard, End::RateLimited, End::TimedOut, End::OutOfMemory, End::EngineDead] {
        let mut node = Node::opened();
        node.now_ms += 6_000;
        assert_eq!(opened_by(node.fail(end)), Some(Reason::ProbeFailed), "{end:?}");
        let left_ms = node.try_enter().unwrap_err().left_ms;
        assert!((8_000..=12_000).contains(&left_ms), "{end:?}: {left_ms}");
    }
    // One that is slow.
    let mut node = Node::opened();
    node.now_ms += 6_000;
    assert_eq!(opened_by(node.call(11_001, End::Success)), Some(Reason::ProbeFailed));
    // One that says nothing leaves its place to the next.
    let mut node = Node::opened();
    node.now_ms += 6_000;
    node.fail(End::Neutral);
    assert!(node.enter().is_probe());
}

#[test]
fn b1_a_probe_that_nobody_ends_times_out() {
    let mut node = Node::opened();
    node.now_ms += 6_000;
    let probe = node.enter();
    node.now_ms += 14_999;
    assert!(node.tick().is_nothing());
    node.now_ms += 1;
    assert_eq!(opened_by(node.tick()), Some(Reason::ProbeFailed));
    // Its late success changes nothing.
    assert!(node.end(probe, End::Success).is_nothing());
    assert_eq!(node.local.state(), State::Open);
}

#[test]
fn b1_late_reports_of_what_was_before_change_nothing() {
    let mut node = Node::usual();
    let old: Vec<_> = (0..40).map(|_| node.enter()).collect();
    node.fail(End::EngineDead);
    let (failing, fine) = old.split_at(20);
    for ticket in fine {
        assert!(node.end(*ticket, End::Success).is_nothing());
    }
    node.wait_for(State::Ramping);
    for ticket in failing {
        assert!(node.end(*ticket, End::EngineDead).is_nothing());
    }
    assert_eq!(node.local.state(), State::Ramping);
    assert_eq!(node.local.in_flight(), 0);
}

#[test]
fn b1_a_ramp_that_goes_badly_opens_again() {
    for (ends, expected) in [
        (&[End::EngineDead][..], Some(Reason::EngineDead)),
        (&[End::OutOfMemory], Some(Reason::MemoryErrors { count: 1, window_ms: 30_000 })),
        (&[End::Hard, End::Hard], None),
        (
            &[End::Hard, End::Success, End::Hard, End::Hard],
            Some(Reason::RampFailed { failed: 3, of: 4 }),
        ),
    ] {
        let mut node = Node::opened();
        node.wait_for(State::Ramping);
        let mut ends = ends.iter();
        let mut last = Changed::default();
        // One in ten is let in.
        for _ in 0..100 {
            if let Ok(ticket) = node.try_enter()
                && let Some(end) = ends.next()
            {
                last = node.end(ticket, *end);
            }
        }
        assert_eq!(opened_by(last), expected);
        if expected.is_some() {
            let left_ms = node.try_enter().unwrap_err().left_ms;
            assert!((8_000..=12_000).contains(&left_ms), "{left_ms}");
        }
    }
}

#[test]
fn b1_a_probes_stream_that_turns_out_fatal_opens_again() {
    let mut node = Node::opened();
    node.now_ms += 6_000;
    let mut probe = node.enter();
    assert_eq!(to(node.local.first_event(&mut probe, node.now_ms)), Some(State::Ramping));
    assert_eq!(opened_by(node.end(probe, End::EngineDead)), Some(Reason::EngineDead));
}

#[test]
fn b1_a_ramp_waits_for_calls_of_which_nothing_is_known() {
    let mut node = Node::opened();
    node.wait_for(State::Ramping);
    node.now_ms += 4_000;
    let hanging = node.enter();
    node.now_ms += 3_000;
    node.tick();
    assert_eq!(node.try_enter().unwrap_err().reason, Reason::Share { percent: 10 });
    node.end(hanging, End::Success);
    assert!(node.wait_for(State::Closed) <= 21_000);
}

#[test]
fn b1_a_breaker_that_is_off_opens_for_an_operator_only() {
    let mut node = Node::new(Settings { off: true, ..Settings::default() });
    for _ in 0..100 {
        assert!(node.fail(End::EngineDead).is_nothing());
    }
    let forced = directive(1, Order::ForcedOpen { left_ms: 1_000 }, 1_000);
    assert_eq!(to(node.local.obey(&forced, node.now_ms)), Some(State::Open));
    let mut node = Node::opened();
    let off = Arc::new(Settings { off: true, ..Settings::default() }.checked().unwrap());
    assert_eq!(to(node.local.set_rules(off, node.now_ms)), Some(State::Closed));
}
