//! The merger: when a target opens for all, how one probe finds out, and how it comes back.

use std::sync::Arc;

use sluicegate_protocol::breaker::{
    Action, Counts, Directive, Fleet, Forced, Grant, NotTaken, Order, Probe, Rules, Standing,
    State, TargetKey, Window,
};

fn target(name: &str) -> TargetKey {
    TargetKey::new("p", name)
}

/// A merger with a clock, and what its nodes say each time.
struct Merger {
    fleet: Fleet,
    now_ms: u64,
    seq: u64,
    heard: u64,
}

fn window(state: State, answered: u32, failed: u32) -> Window {
    let started = answered + failed;
    let counts = Counts { started, answered, failed, ..Counts::default() };
    Window {
        seq: 0,
        state,
        own: true,
        fatal: false,
        split: false,
        generation: 0,
        heard: 0,
        waiting: false,
        in_flight: 0,
        recent: counts,
        long: counts,
    }
}

fn good() -> Window {
    window(State::Closed, 40, 0)
}

fn open() -> Window {
    window(State::Open, 0, 5)
}

fn dead() -> Window {
    Window { fatal: true, ..open() }
}

impl Merger {
    fn new() -> Self {
        let fleet = Fleet::new(Arc::new(Rules::default()), 7);
        Self { fleet, now_ms: 1_000, seq: 0, heard: 0 }
    }

    fn report(&mut self, node: &str, zone: Option<&str>, of: &TargetKey, window: Window) {
        self.seq += 1;
        let window = Window { seq: self.seq, heard: self.heard, ..window };
        self.fleet.report(node, zone, of, window, self.now_ms).expect("there is room");
    }

    fn tick(&mut self) -> Vec<Action> {
        let actions = self.fleet.tick(self.now_ms);
        for action in &actions {
            if let Action::Publish(Directive { generation, .. })
            | Action::Withdraw { generation, .. } = action
            {
                assert!(*generation >= self.heard, "generations grow");
                self.heard = *generation;
            }
        }
        actions
    }

    /// Nodes report the same each second until something is to be done.
    fn until_action(&mut self, nodes: &[(&str, Window)]) -> Vec<Action> {
        for _ in 0..400 {
            for (node, window) in nodes {
                self.report(node, None, &target("m"), window.clone());
            }
            let actions = self.tick();
            if !actions.is_empty() {
                return actions;
            }
            self.now_ms += 500;
        }
        panic!("nothing to do: {:?}", self.standing("m"));
    }

    fn standing(&self, name: &str) -> Standing {
        let mut all = self.fleet.standings(self.now_ms);
        all.find(|standing| standing.target == target(name)).expect("it was reported")
    }

    /// Opens one target by two nodes.
    fn opened() -> Self {
        let mut merger = Self::new();
        let actions = merger.until_action(&[("a", open()), ("b", open())]);
        assert_eq!(orders(&actions), [Some("open")]);
        merger
    }

    /// Until the first probe is granted.
    fn probing(nodes: &[(&str, Window)]) -> (Self, Grant) {
        let mut merger = Self::opened();
        let actions = merger.until_action(nodes);
        assert_eq!(orders(&actions), [Some("half-open"), None]);
        let grant = granted(&actions).expect("a probe");
        (merger, grant)
    }
}

fn orders(actions: &[Action]) -> Vec<Option<&'static str>> {
    let name = |action: &Action| match action {
        Action::Publish(directive) => Some(match directive.order {
            Order::Open { .. } => "open",
            Order::HalfOpen => "half-open",
            Order::Ramp { percent: 10 } => "10 %",
            Order::Ramp { percent: 25 } => "25 %",
            Order::Ramp { percent: 50 } => "50 %",
            Order::Ramp { .. } => "other share",
            Order::ForcedOpen { .. } => "forced open",
            Order::ForcedClosed { .. } => "forced closed",
            Order::Ill { .. } => "ill",
        }),
        Action::Withdraw { .. } => Some("withdraw"),
        Action::Grant(_) => None,
    };
    actions.iter().map(name).collect()
}

fn granted(actions: &[Action]) -> Option<Grant> {
    actions.iter().find_map(|action| match action {
        Action::Grant(grant) => Some(grant.clone()),
        Action::Publish(_) | Action::Withdraw { .. } => None,
    })
}

#[test]
fn b1_the_fleet_opens_when_enough_nodes_agree_and_never_for_one_of_many() {
    type Row<'a> = (&'a str, Option<&'a str>, Window);
    let (a, b) = (Some("zone a"), Some("zone b"));
    let failing = || window(State::Closed, 10, 60);
    // One alone decides for itself.
    check(&[("1", None, open())], true);
    check(&[("1", a, dead())], true);
    // One of several never does: open, or with most of the traffic.
    check(&[("1", None, open()), ("2", None, good())], false);
    check(&[("1", None, open()), ("2", None, window(State::Closed, 0, 0))], false);
    check(&[("1", None, window(State::Closed, 0, 900)), ("2", None, good())], false);
    // Two, if they are 30 %.
    check(&[("1", None, open()), ("2", None, open()), ("3", None, good())], true);
    let mut many: Vec<Row<'_>> = ["3", "4", "5", "6", "7"].map(|node| (node, None, good())).into();
    many.extend([("1", None, open()), ("2", None, open())]);
    check(&many, false);
    many.push(("8", None, open()));
    check(&many, true);
    // Nodes without traffic have no say.
    let mut idle = many[..5].to_vec();
    idle.iter_mut().for_each(|row| row.2 = window(State::Closed, 0, 0));
    idle.extend([("1", None, open()), ("2", None, open())]);
    check(&idle, true);
    // Those that only obey are no proof.
    let led = || Window { own: false, ..open() };
    check(&[("1", None, open()), ("2", None, led()), ("3", None, good())], false);
    // Of several zones two must agree.
    check(&[("1", a, open()), ("2", a, open()), ("3", b, good())], false);
    check(&[("1", a, open()), ("2", b, open()), ("3", b, good())], true);
    check(&[("1", a, open()), ("2", a, open()), ("3", a, good())], true);
    // Half of a hundred calls, wherever they failed.
    check(&[("1", None, failing()), ("2", None, failing())], true);
    check(
        &[("1", None, window(State::Closed, 10, 30)), ("2", None, window(State::Closed, 10, 30))],
        false,
    );
    check(&[("1", a, failing()), ("2", a, failing()), ("3", b, good())], false);
    check(&[("1", a, failing()), ("2", b, failing()), ("3", b, failing())], true);

    #[track_caller]
    fn check(nodes: &[Row<'_>], expected: bool) {
        let mut merger = Merger::new();
        for (node, zone, window) in nodes {
            merger.report(node, *zone, &target("m"), window.clone());
        }
        merger.tick();
        assert_eq!(
            merger.standing("m").state == State::Open,
            expected,
            "{:?}",
            merger.standing("m")
        );
    }
}

#[test]
fn b1_a_silent_node_has_no_say() {
    let mut merger = Merger::new();
    merger.report("a", None, &target("m"), open());
    merger.now_ms += 5_000;
    merger.report("b", None, &target("m"), good());
    assert_eq!(merger.tick(), []);
    merger.report("b", None, &target("m"), open());
    assert_eq!(orders(&merger.tick()), [Some("open")], "b is alone now");
    assert_eq!(merger.fleet.nodes(), 1);
}

#[test]
fn b1_a_report_that_is_overtaken_is_ignored_and_a_restarted_node_is_not() {
    let mut merger = Merger::new();
    let report = |merger: &mut Merger, seq, window| {
        let window = Window { seq, ..window };
        merger.fleet.report("a", None, &target("m"), window, merger.now_ms).unwrap();
    };
    report(&mut merger, 50, good());
    report(&mut merger, 49, open());
    assert_eq!(merger.tick(), []);
    merger.now_ms += 2_000;
    report(&mut merger, 1, open());
    assert_eq!(orders(&merger.tick()), [Some("open")]);
}

#[test]
fn b1_a_dead_engine_is_confirmed_by_another_node_before_all_leave_it() {
    let nodes = [("a", dead()), ("b", good()), ("c", good()), ("d", good())];
    check(Probe::Failed, State::Open);
    check(Probe::Ok, State::Closed);

    let mut merger = Merger::new();
    // Nobody has an answer: three are asked, then it is left to each node.
    let asked: Vec<_> =
        (0..3).map(|_| granted(&merger.until_action(&nodes)).unwrap().node).collect();
    assert_eq!(asked, ["b", "c", "d"]);
    let again_ms = merger.now_ms;
    assert!(granted(&merger.until_action(&nodes)).is_some());
    assert!(merger.now_ms >= again_ms + 30_000);

    #[track_caller]
    fn check(probe: Probe, expected: State) {
        let nodes = [("a", dead()), ("b", good())];
        let mut merger = Merger::new();
        let actions = merger.until_action(&nodes);
        let grant = granted(&actions).unwrap();
        assert_eq!((actions.len(), grant.node.as_str()), (1, "b"));
        merger.fleet.probe_result(&target("m"), grant.generation, probe);
        merger.tick();
        assert_eq!(merger.standing("m").state, expected);
    }
}

#[test]
fn b1_one_probe_at_a_time_goes_round_and_never_gets_stuck() {
    let nodes = [("a", open()), ("b", open()), ("c", good())];
    let (mut merger, first) = Merger::probing(&nodes);
    assert_eq!(first.node, "a");
    let granted_ms = merger.now_ms;
    // Nothing is heard of it: the next has its turn after the deadline, with a generation of its own.
    let second = loop {
        let actions = merger.until_action(&nodes);
        if let Some(grant) = granted(&actions) {
            break grant;
        }
    };
    assert!(merger.now_ms > granted_ms + first.deadline_ms);
    assert_eq!(second.node, "b");
    assert!(second.generation > first.generation);
    // The answer of the first comes too late; the second is not used.
    merger.fleet.probe_result(&target("m"), first.generation, Probe::Ok);
    assert_eq!(merger.tick(), []);
    merger.fleet.probe_result(&target("m"), second.generation, Probe::Unused);
    // Not at once: what could not be used would be given away again and again.
    let unused_ms = merger.now_ms;
    assert_eq!(granted(&merger.tick()), None);
    let third = loop {
        let actions = merger.until_action(&nodes);
        if let Some(grant) = granted(&actions) {
            break grant;
        }
    };
    assert!((1_000..3_000).contains(&(merger.now_ms - unused_ms)));
    assert_eq!(third.node, "c");
    // Answers that come twice are one: the first counts.
    merger.fleet.probe_result(&target("m"), third.generation, Probe::Ok);
    merger.fleet.probe_result(&target("m"), third.generation, Probe::Failed);
    assert_eq!(orders(&merger.tick()), [Some("10 %")]);
}

#[test]
fn b1_a_node_with_a_waiting_call_is_preferred() {
    let waiting = Window { waiting: true, ..open() };
    let (_, grant) = Merger::probing(&[("a", open()), ("b", open()), ("c", waiting)]);
    assert_eq!(grant.node, "c");
}

#[test]
fn b1_success_ramps_everybody_up() {
    let nodes = [("a", good()), ("b", good())];
    let (mut merger, grant) = Merger::probing(&nodes);
    merger.fleet.probe_result(&target("m"), grant.generation, Probe::Ok);
    for expected in ["10 %", "25 %", "50 %", "withdraw"] {
        assert_eq!(orders(&merger.until_action(&nodes)), [Some(expected)]);
    }
    assert_eq!(merger.standing("m").state, State::Closed);
}

#[test]
fn b1_failure_opens_longer() {
    let (mut merger, grant) = Merger::probing(&[("a", open())]);
    merger.fleet.probe_result(&target("m"), grant.generation, Probe::Failed);
    let actions = merger.tick();
    let [Action::Publish(Directive { order: Order::Open { left_ms }, ref reason, .. })] =
        actions[..]
    else {
        panic!("{actions:?}")
    };
    assert!((8_000..=12_000).contains(&left_ms), "{left_ms}");
    assert_eq!(reason, "the probe failed");
}

#[test]
fn b1_a_ramp_stops_for_many_failures_and_waits_for_some() {
    // What nodes say at 10 %, and what comes of it.
    check(&[window(State::Ramping, 10, 0), window(State::Ramping, 10, 0)], Some("25 %"));
    check(&[window(State::Ramping, 6, 4), window(State::Ramping, 6, 4)], Some("open"));
    check(&[window(State::Ramping, 8, 2), window(State::Ramping, 8, 2)], None);
    // One bad node of several does not keep it from the others.
    check(&[window(State::Ramping, 0, 9), window(State::Ramping, 10, 0)], Some("25 %"));
    check(&[dead(), window(State::Ramping, 10, 0)], Some("open"));
    check(&[open(), window(State::Ramping, 10, 0)], Some("25 %"));
    let hanging = || Window {
        recent: Counts { started: 3, ..Counts::default() },
        ..window(State::Ramping, 0, 0)
    };
    check(&[hanging(), hanging()], None);

    #[track_caller]
    fn check(said: &[Window; 2], expected: Option<&str>) {
        let (mut merger, grant) = Merger::probing(&[("a", open()), ("b", open())]);
        merger.fleet.probe_result(&target("m"), grant.generation, Probe::Ok);
        assert_eq!(orders(&merger.tick()), [Some("10 %")]);
        for _ in 0..12 {
            for (node, window) in ["a", "b"].iter().zip(said) {
                merger.report(node, None, &target("m"), window.clone());
            }
            if let [found] = orders(&merger.tick())[..] {
                assert_eq!(found, expected);
                return;
            }
            merger.now_ms += 500;
        }
        assert_eq!(expected, None);
    }
}

#[test]
fn b1_never_more_than_the_share_of_a_group_is_open() {
    let mut merger = Merger::new();
    let names = ["1", "2", "3", "4"];
    let group = |names: &[&str]| names.iter().map(|name| target(name)).collect::<Vec<_>>();
    merger.fleet.set_groups(vec![(group(&names), 0.5), (group(&["1"]), 0.5)]);
    let open_now = |merger: &Merger| {
        names.into_iter().filter(|name| merger.standing(name).state != State::Closed).count()
    };
    for name in names {
        merger.report("a", None, &target(name), open());
        merger.report("b", None, &target(name), open());
    }
    merger.tick();
    assert_eq!(open_now(&merger), 2);
    assert!(merger.standing("4").held);
    // A smaller group: one is closed again.
    merger.fleet.set_groups(vec![(group(&["1", "2"]), 0.5)]);
    let actions = merger.tick();
    assert!(orders(&actions).contains(&Some("withdraw")));
    let [one, two] = ["1", "2"].map(|name| merger.standing(name).state);
    assert_eq!([one, two].iter().filter(|state| **state == State::Open).count(), 1);
    assert_eq!(merger.standing("3").state, State::Open, "a group of its own");
}

#[test]
fn b1_directives_are_repeated_and_a_new_merger_goes_on() {
    let mut merger = Merger::opened();
    // The next opening lasts long enough for a repeat.
    for _ in 0..3 {
        let nodes = [("a", open()), ("b", open())];
        let grant = loop {
            if let Some(grant) = granted(&merger.until_action(&nodes)) {
                break grant;
            }
        };
        merger.fleet.probe_result(&target("m"), grant.generation, Probe::Failed);
        merger.tick();
    }
    let said_ms = merger.now_ms;
    let actions = merger.until_action(&[("a", open()), ("b", open())]);
    let [Action::Publish(directive)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(merger.now_ms, said_ms + 10_000);
    assert_eq!((directive.ttl_ms, directive.generation), (30_000, merger.heard));
    // Another merger, with another clock, takes over.
    let Order::Open { left_ms } = directive.order else { panic!("{directive:?}") };
    let mut heir = Merger { now_ms: 77, heard: merger.heard, ..Merger::new() };
    heir.fleet.resume(std::slice::from_ref(directive), heir.now_ms);
    assert_eq!(heir.standing("m").left_ms, left_ms);
    let first = heir.until_action(&[("a", open())]);
    let [Action::Publish(first)] = &first[..] else { panic!("{first:?}") };
    assert!(first.generation > directive.generation + 1_000, "more may have been granted");
    // Of one that was half-open a probe may be on its way.
    let half_open = Directive { order: Order::HalfOpen, ..directive.clone() };
    let mut heir = Merger { heard: merger.heard, ..Merger::new() };
    heir.fleet.resume(&[half_open], heir.now_ms);
    let from_ms = heir.now_ms;
    while granted(&heir.until_action(&[("a", open())])).is_none() {
        heir.now_ms += 500;
    }
    assert!(heir.now_ms >= from_ms + 15_000);
}

#[test]
fn b1_an_operator_can_force_a_target_for_a_while() {
    let mut merger = Merger::new();
    let comment = format!("maintenance{}", "!".repeat(500));
    let forced = Forced { open: true, left_ms: 60_000, comment };
    merger.fleet.force(&target("m"), forced.clone(), merger.now_ms).unwrap();
    let actions = merger.until_action(&[("a", good())]);
    let [Action::Publish(directive)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(directive.order, Order::ForcedOpen { left_ms: 60_000 });
    assert_eq!((directive.ttl_ms, directive.reason.len()), (60_000, 200));
    let standing = merger.standing("m");
    assert_eq!((standing.state, standing.left_ms), (State::Open, 60_000));
    assert!(standing.forced.is_some_and(|forced| forced.open));
    // It ends by itself: a probe finds out.
    merger.now_ms += 60_000;
    assert_eq!(orders(&merger.until_action(&[("a", good())])), [Some("half-open"), None]);
    // Closed, whatever is seen, until it is taken back.
    let forced = Forced { open: false, ..forced };
    merger.fleet.force(&target("m"), forced, merger.now_ms).unwrap();
    assert_eq!(orders(&merger.until_action(&[("a", open())])), [Some("forced closed")]);
    assert_eq!(merger.standing("m").state, State::Closed);
    merger.fleet.unforce(&target("m"), merger.now_ms);
    assert_eq!(orders(&merger.until_action(&[("a", good())])), [Some("withdraw")]);
    merger.now_ms += 500;
    assert_eq!(orders(&merger.until_action(&[("a", open())])), [Some("open")]);
}

#[test]
fn b1_names_that_cannot_be_kept_and_absurd_numbers_do_no_harm() {
    let mut fleet = Fleet::new(Arc::new(Rules::default()), 0);
    let long = "x".repeat(1_025);
    for (node, zone, of) in
        [("", None, "m"), (long.as_str(), None, "m"), ("n", Some("\n"), "m"), ("n", None, "")]
    {
        let taken = fleet.report(node, zone, &target(of), good(), 0);
        assert!(matches!(taken, Err(NotTaken::Name(_))));
    }
    let absurd = Window { heard: u64::MAX, seq: u64::MAX, ..window(State::Open, u32::MAX / 2, 9) };
    for now_ms in [0, u64::MAX, 5] {
        fleet.report("n", None, &target("m"), absurd.clone(), now_ms).unwrap();
        let forced = Forced { open: true, left_ms: u64::MAX, comment: String::new() };
        fleet.force(&target("n"), forced, now_ms).unwrap();
        fleet.tick(now_ms);
    }
    assert_eq!(fleet.standings(u64::MAX).count(), 2);
}

#[test]
fn b1_targets_that_nobody_speaks_of_are_forgotten() {
    let mut merger = Merger::opened();
    merger.now_ms += 600_000;
    assert_eq!(orders(&merger.tick()), [Some("withdraw")]);
    assert_eq!(merger.fleet.standings(merger.now_ms).count(), 0);
}
