//! One node's breaker under arbitrary calls, orders and times.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate_protocol::breaker::{
    Changed, Checked, Count, Directive, End, Local, Order, Rules, Settings, State, TargetKey,
    Ticket,
};

/// What happens to a single breaker.
#[derive(Debug, Clone)]
enum Event {
    Passes(u64),
    Admit(u64),
    First(usize),
    Late(usize),
    Ends(usize, End),
    /// An end that is never reported.
    Lost(usize),
    Tick,
    Obey {
        generation: u64,
        order: Order,
        ttl_ms: u64,
    },
    Withdraw(u64),
    Grant {
        generation: u64,
        deadline_ms: u64,
    },
    Present(u32),
    Away,
    Checked(Checked),
    Rules(Settings),
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        (0..200_000_u64).prop_map(|left_ms| Order::Open { left_ms }),
        Just(Order::HalfOpen),
        any::<u8>().prop_map(|percent| Order::Ramp { percent }),
        (0..60_000_u64).prop_map(|left_ms| Order::ForcedOpen { left_ms }),
        (0..60_000_u64).prop_map(|left_ms| Order::ForcedClosed { left_ms }),
        (0..60_000_u64).prop_map(|left_ms| Order::Ill { left_ms }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), 0..4_u32, 0..4_u32, 1..20_000_u64).prop_map(|(off, row, slow, step_ms)| {
        let mut settings = Settings {
            off,
            failures_in_a_row: row,
            slow_in_a_row: Count { window_ms: 15_000, count: slow },
            ..Settings::default()
        };
        settings.ramp.step_ms = step_ms;
        settings
    })
}

fn event(times: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Event> {
    let generation = || prop_oneof![9 => 0..8_u64, 1 => any::<u64>()];
    prop_oneof![
        6 => times.prop_map(Event::Passes),
        8 => prop_oneof![0..200_000_u64, any::<u64>()].prop_map(Event::Admit),
        6 => any::<usize>().prop_map(Event::First),
        1 => any::<usize>().prop_map(Event::Late),
        8 => (any::<usize>(), prop::sample::select(End::ALL.to_vec()))
            .prop_map(|(index, end)| Event::Ends(index, end)),
        1 => any::<usize>().prop_map(Event::Lost),
        2 => Just(Event::Tick),
        2 => (generation(), order(), 0..60_000_u64)
            .prop_map(|(generation, order, ttl_ms)| Event::Obey { generation, order, ttl_ms }),
        1 => generation().prop_map(Event::Withdraw),
        2 => (generation(), 0..60_000_u64)
            .prop_map(|(generation, deadline_ms)| Event::Grant { generation, deadline_ms }),
        1 => (0..6_u32).prop_map(Event::Present),
        1 => Just(Event::Away),
        1 => prop_oneof![
            (0..60_000_u64).prop_map(|left_ms| Checked::Ill { left_ms }),
            Just(Checked::Spared),
            Just(Checked::Well),
        ]
        .prop_map(Event::Checked),
        1 => settings().prop_map(Event::Rules),
    ]
}

/// One breaker, its open calls and its clock.
struct One {
    local: Local,
    open: Vec<Ticket>,
    now_ms: u64,
    state: State,
}

impl One {
    fn new(seed: u64, now_ms: u64) -> Self {
        let local = Local::new(Arc::new(Rules::default()), seed);
        Self { local, open: vec![], now_ms, state: State::Closed }
    }

    /// Transitions form a chain: nothing changes without being told.
    fn noted(&mut self, changed: Changed) {
        if let Some(transition) = changed.transition {
            assert_eq!(transition.from, self.state);
            assert!(!transition.reason.to_string().is_empty());
            self.state = transition.to;
        }
        assert_eq!(self.local.state(), self.state, "{changed:?}");
    }

    fn happens(&mut self, event: Event) {
        let (now_ms, count) = (self.now_ms, self.open.len().max(1));
        let changed = match event {
            Event::Passes(ms) => {
                self.now_ms = self.now_ms.saturating_add(ms);
                return;
            }
            Event::Admit(prompt_tokens) => {
                let admission = self.local.admit(prompt_tokens, now_ms);
                self.open.extend(admission.answer.ok());
                admission.changed
            }
            Event::First(index) => match self.open.get_mut(index % count) {
                Some(ticket) => self.local.first_event(ticket, now_ms),
                None => return,
            },
            Event::Late(index) => match self.open.get_mut(index % count) {
                Some(ticket) => self.local.late(ticket, now_ms),
                None => return,
            },
            Event::Ends(index, end) if !self.open.is_empty() => {
                let ticket = self.open.swap_remove(index % count);
                self.local.ended(ticket, end, now_ms)
            }
            Event::Lost(index) if !self.open.is_empty() => {
                self.open.swap_remove(index % count);
                return;
            }
            Event::Ends(..) | Event::Lost(_) => return,
            Event::Tick => self.local.tick(now_ms),
            Event::Obey { generation, order, ttl_ms } => {
                let target = TargetKey::new("p", "m");
                let reason = String::new();
                let directive = Directive { target, generation, order, ttl_ms, reason };
                self.local.obey(&directive, now_ms)
            }
            Event::Withdraw(generation) => self.local.withdraw(generation, now_ms),
            Event::Grant { generation, deadline_ms } => {
                self.local.grant(generation, deadline_ms, now_ms)
            }
            Event::Present(nodes) => {
                self.local.fleet_present(nodes);
                return;
            }
            Event::Checked(checked) => self.local.checked(checked, now_ms),
            Event::Away => {
                self.local.fleet_away();
                return;
            }
            Event::Rules(settings) => match settings.checked() {
                Ok(rules) => self.local.set_rules(Arc::new(rules), now_ms),
                Err(_) => return,
            },
        };
        self.noted(changed);
        self.local.window(now_ms);
    }
}

proptest! {
    /// From wherever it was brought, a breaker closes once calls go well: after orders, the longest
    /// open time, and lots that are drawn.
    #[test]
    fn b1_a_breaker_is_never_stuck(
        seed: u64, from_ms in 0..(1_u64 << 40),
        events in prop::collection::vec(event(0..20_000_u64), 0..200),
    ) {
        let mut one = One::new(seed, from_ms);
        for event in events {
            one.happens(event);
        }
        let from_ms = one.now_ms;
        while one.local.state() != State::Closed {
            one.now_ms += 500;
            let admission = one.local.admit(100, one.now_ms);
            one.noted(admission.changed);
            if let Ok(mut ticket) = admission.answer {
                let first = one.local.first_event(&mut ticket, one.now_ms);
                one.noted(first);
                let last = one.local.ended(ticket, End::Success, one.now_ms);
                one.noted(last);
            }
            prop_assert!(one.now_ms - from_ms < 1_200_000, "stuck: {:?}", one.local);
        }
    }

    #[test]
    fn absurd_times_do_no_harm(
        seed: u64, from_ms: u64, events in prop::collection::vec(event(any::<u64>()), 0..100),
    ) {
        let mut one = One::new(seed, from_ms);
        for event in events {
            one.happens(event);
        }
    }
}
