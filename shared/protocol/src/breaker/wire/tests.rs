use proptest::prelude::*;

use super::*;
use crate::breaker::{Check, Health};

fn key() -> TargetKey {
    TargetKey::new("p", "org/m:1")
}

fn window() -> impl Strategy<Value = Window> {
    let counts = any::<[u32; 8]>().prop_map(
        |[started, answered, failed, timed, slow, stalled, memory, dead]| Counts {
            started,
            answered,
            failed,
            timed,
            slow,
            stalled,
            memory,
            dead,
        },
    );
    let flags = any::<(bool, bool, bool, bool)>();
    let numbers = any::<(u64, u64, u64, u32)>();
    (flags, numbers, prop::sample::select(&State::ALL[..]), counts.clone(), counts).prop_map(
        |(
            (own, fatal, split, waiting),
            (seq, generation, heard, in_flight),
            state,
            recent,
            long,
        )| {
            Window {
                seq,
                state,
                own,
                fatal,
                split,
                generation,
                heard,
                waiting,
                in_flight,
                recent,
                long,
            }
        },
    )
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        any::<u64>().prop_map(|left_ms| Order::Open { left_ms }),
        Just(Order::HalfOpen),
        (1..=100_u8).prop_map(|percent| Order::Ramp { percent }),
        any::<u64>().prop_map(|left_ms| Order::ForcedOpen { left_ms }),
        any::<u64>().prop_map(|left_ms| Order::ForcedClosed { left_ms }),
        any::<u64>().prop_map(|left_ms| Order::Ill { left_ms }),
    ]
}

proptest! {
    #[test]
    fn what_travels_arrives_as_it_was(
        windows in prop::collection::vec(window(), 0..4),
        zone in prop::option::of("[a-z]{1,4}"),
        probe in prop::sample::select(vec![Probe::Ok, Probe::Failed, Probe::Unused]),
        (generation, print, left_ms) in any::<(u64, u128, u64)>(),
        order in order(),
        (health, checks) in (
            prop::sample::select(vec![Health::Unknown, Health::Well, Health::Ill]),
            any::<bool>(),
        ),
    ) {
        let report = Report {
            node: "n".to_owned(),
            zone,
            windows: windows.into_iter().map(|window| (key(), window)).collect(),
            probes: vec![(key(), ProbeResult { generation, probe })],
            blocked: vec![Blocked { fingerprint: Fingerprint(print), left_ms }],
            findings: vec![(key(), Finding { seq: generation, health, reason: "503".to_owned() })],
            checks,
        };
        prop_assert_eq!(Report::try_from(report.to_proto()), Ok(report));
        let words = [
            Word::Withdrawn { target: key(), generation },
            Word::Order(Directive { target: key(), generation, order, ttl_ms: left_ms, reason: "r".into() }),
        ];
        for word in words {
            prop_assert_eq!(Word::try_from(word.to_proto()), Ok(word));
        }
        let grant = Grant { node: "n".into(), target: key(), generation, deadline_ms: left_ms };
        prop_assert_eq!(Grant::of_proto("n".into(), grant.to_proto()), Ok(grant));
        let check = Check { target: key(), ttl_ms: left_ms };
        prop_assert_eq!(Check::try_from(check.to_proto()), Ok(check));
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_its_field() {
    type Spoil = fn(&mut pb::ReportRequest);
    let rows: [(Spoil, &str); 11] = [
        (|it| it.node_id.clear(), "node_id"),
        (|it| it.zone = "a\nb".into(), "zone"),
        (|it| it.windows[1].state = 77, "windows[1].state"),
        (|it| it.windows[0].target = None, "windows[0].target"),
        (|it| it.windows = vec![it.windows[0].clone(); MAX_REPORT + 1], "windows"),
        (|it| it.probes[0].result = 0, "probes[0].result"),
        (|it| it.probes[0].target.as_mut().unwrap().model.clear(), "probes[0].target"),
        (|it| it.findings[0].health = 0, "findings[0].health"),
        (|it| it.findings[0].target = None, "findings[0].target"),
        (|it| it.findings = vec![it.findings[0].clone(); MAX_REPORT + 1], "findings"),
        (|it| it.blocked[0].fingerprint = vec![1; 15].into(), "blocked[0].fingerprint"),
    ];
    let window = pb::Window {
        target: Some(key().to_proto()),
        state: pb::State::Closed.into(),
        ..pb::Window::default()
    };
    let sound = pb::ReportRequest {
        node_id: "n".into(),
        zone: String::new(),
        windows: vec![window.clone(), window],
        probes: vec![ProbeResult { generation: 1, probe: Probe::Ok }.to_proto(&key())],
        blocked: vec![Blocked { fingerprint: Fingerprint(1), left_ms: 1 }.to_proto()],
        findings: vec![
            Finding { seq: 1, health: Health::Ill, reason: String::new() }.to_proto(&key()),
        ],
        checks: true,
    };
    assert!(Report::try_from(sound.clone()).is_ok());
    for (spoil, field) in rows {
        let mut wire = sound.clone();
        spoil(&mut wire);
        assert_eq!(Report::try_from(wire).unwrap_err().field, field);
    }
    let ramp = pb::Directive {
        target: Some(key().to_proto()),
        order: Some(pb::directive::Order::RampPercent(101)),
        ..pb::Directive::default()
    };
    assert_eq!(Word::try_from(ramp.clone()).unwrap_err().field, "ramp_percent");
    let silent = pb::Directive { order: None, ..ramp };
    assert_eq!(Word::try_from(silent).unwrap_err().field, "order");
}

#[test]
fn what_was_said_earlier_has_less_time_left() {
    let directive = |order| Directive {
        target: key(),
        generation: 1,
        order,
        ttl_ms: 30_000,
        reason: String::new(),
    };
    let open = Word::Order(directive(Order::Open { left_ms: 5_000 })).aged(6_000);
    let Word::Order(open) = open else { panic!("an order") };
    assert_eq!((open.order, open.ttl_ms), (Order::Open { left_ms: 0 }, 24_000));
    let Word::Order(half) = Word::Order(directive(Order::HalfOpen)).aged(u64::MAX) else {
        panic!("an order")
    };
    assert_eq!((half.order, half.ttl_ms), (Order::HalfOpen, 0));
}
