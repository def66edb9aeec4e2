//! Whole fleets of breakers and their merger over loss, duplication, delay and faults of all kinds.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use sluicegate_protocol::breaker::{
    Action, Changed, Directive, End, Fleet, Forced, Grant, Local, Probe, Reason, Rules, State,
    TargetKey, Ticket, Window,
};

/// How a target treats a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Health {
    Well,
    Fails,
    /// It fails for one node.
    FailsFor(usize),
    /// No first event comes.
    Hangs,
    Dead,
    Stalls,
    Limits,
}

enum Up {
    Report(usize, usize, Window),
    Probe(usize, u64, Probe),
}

/// A call on its way.
struct Call {
    ticket: Ticket,
    first_ms: Option<u64>,
    end_ms: u64,
    end: End,
}

struct Site {
    locals: Vec<Local>,
    calls: Vec<Vec<Call>>,
    /// One that is cut off hears and says nothing.
    cut: bool,
}

/// A merger and nodes with lossy wires between them.
struct World {
    now_ms: u64,
    seed: u64,
    targets: Vec<TargetKey>,
    health: Vec<Health>,
    sites: Vec<Site>,
    fleet: Fleet,
    loss: u64,
    delay_ms: u64,
    up: Vec<(u64, Up)>,
    down: Vec<(u64, usize, Action)>,
    stored: BTreeMap<TargetKey, Directive>,
    /// Probes by target and generation of their grant.
    probes: BTreeMap<(usize, u64), u32>,
    calls: u32,
}

const GROUP_SHARE: f64 = 0.5;

impl World {
    fn new(seed: u64, nodes: usize, targets: usize, loss: u64, delay_ms: u64) -> Self {
        let rules = Arc::new(Rules::default());
        let keys: Vec<_> = (0..targets).map(|n| TargetKey::new("p", format!("m{n}"))).collect();
        let site = |node: usize| Site {
            locals: (0..targets)
                .map(|n| {
                    let mut local = Local::new(rules.clone(), seed ^ (node * 31 + n) as u64);
                    local.fleet_present(u32::try_from(nodes).expect("few nodes"));
                    local
                })
                .collect(),
            calls: (0..targets).map(|_| vec![]).collect(),
            cut: false,
        };
        let mut fleet = Fleet::new(rules.clone(), seed);
        fleet.set_groups(vec![(keys.clone(), GROUP_SHARE)]);
        Self {
            now_ms: 1_000,
            seed,
            health: vec![Health::Well; targets],
            sites: (0..nodes).map(site).collect(),
            targets: keys,
            fleet,
            loss,
            delay_ms,
            up: vec![],
            down: vec![],
            stored: BTreeMap::new(),
            probes: BTreeMap::new(),
            calls: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed = self.seed.max(1);
        self.seed % below.max(1)
    }

    /// When a message arrives: never, once, or twice.
    fn arrivals(&mut self) -> Vec<u64> {
        let copies = if self.random(100) < self.loss { 2 * self.random(2) } else { 1 };
        (0..copies).map(|_| self.now_ms + 5 + self.random(self.delay_ms + 1)).collect()
    }

    fn noted(&mut self, node: usize, target: usize, changed: Changed) {
        if let Some(probe) = changed.probe {
            for at_ms in self.arrivals() {
                self.up.push((at_ms, Up::Probe(target, probe.generation, probe.probe)));
            }
        }
        if changed.transition.is_some() {
            self.tell(node, target);
        }
    }

    fn tell(&mut self, node: usize, target: usize) {
        let window = self.sites[node].locals[target].window(self.now_ms);
        for at_ms in self.arrivals() {
            self.up.push((at_ms, Up::Report(node, target, window.clone())));
        }
    }

    /// 100 ms of everything.
    fn step(&mut self) {
        self.now_ms += 100;
        for node in 0..self.sites.len() {
            for target in 0..self.targets.len() {
                self.calls_go_on(node, target);
                self.call(node, target);
                let changed = self.sites[node].locals[target].tick(self.now_ms);
                self.noted(node, target, changed);
                if (self.now_ms / 100 + node as u64).is_multiple_of(10) {
                    self.tell(node, target);
                }
            }
        }
        self.deliver();
        if self.now_ms.is_multiple_of(500) {
            self.merge();
        }
    }

    fn call(&mut self, node: usize, target: usize) {
        self.calls += 1;
        let admission = self.sites[node].locals[target].admit(100, self.now_ms);
        self.noted(node, target, admission.changed);
        let Ok(ticket) = admission.answer else { return };
        if let Some(generation) = ticket.granted() {
            let probes = self.probes.entry((target, generation)).or_default();
            *probes += 1;
            assert_eq!(*probes, 1, "probes of one grant");
        }
        let (now_ms, quick_ms) = (self.now_ms, 50 + self.random(400));
        let (first_ms, end_ms, end) = match self.health[target] {
            Health::FailsFor(bad) if bad != node => {
                (Some(now_ms + quick_ms), now_ms + 1_000, End::Success)
            }
            Health::Well => (Some(now_ms + quick_ms), now_ms + 1_000, End::Success),
            Health::Fails | Health::FailsFor(_) => (None, now_ms + quick_ms, End::Hard),
            Health::Hangs => (None, now_ms + 12_000, End::TimedOut),
            Health::Dead => (None, now_ms + quick_ms, End::EngineDead),
            Health::Stalls => (Some(now_ms + quick_ms), now_ms + 8_000, End::Stalled),
            Health::Limits => (None, now_ms + quick_ms, End::RateLimited),
        };
        self.sites[node].calls[target].push(Call { ticket, first_ms, end_ms, end });
    }

    fn calls_go_on(&mut self, node: usize, target: usize) {
        let mut calls = std::mem::take(&mut self.sites[node].calls[target]);
        for call in &mut calls {
            if call.first_ms.take_if(|at_ms| *at_ms <= self.now_ms).is_some() {
                let local = &mut self.sites[node].locals[target];
                let changed = local.first_event(&mut call.ticket, self.now_ms);
                self.noted(node, target, changed);
            }
        }
        let now_ms = self.now_ms;
        for call in calls.extract_if(.., |call| call.end_ms <= now_ms) {
            let changed = self.sites[node].locals[target].ended(call.ticket, call.end, self.now_ms);
            self.noted(node, target, changed);
        }
        self.sites[node].calls[target] = calls;
    }

    fn deliver(&mut self) {
        let now_ms = self.now_ms;
        let due: Vec<_> = self.up.extract_if(.., |(at_ms, _)| *at_ms <= now_ms).collect();
        for (_, message) in due {
            match message {
                Up::Report(node, target, window) if !self.sites[node].cut => {
                    let zone = if node % 2 == 0 { "a" } else { "b" };
                    let (name, target) = (format!("n{node}"), &self.targets[target]);
                    self.fleet
                        .report(&name, Some(zone), target, window, now_ms)
                        .expect("there is room");
                }
                Up::Report(..) => {}
                Up::Probe(target, generation, probe) => {
                    self.fleet.probe_result(&self.targets[target], generation, probe);
                }
            }
        }
        let due: Vec<_> = self.down.extract_if(.., |(at_ms, ..)| *at_ms <= now_ms).collect();
        for (_, node, action) in due {
            if self.sites[node].cut {
                continue;
            }
            let (Action::Publish(Directive { target, .. })
            | Action::Withdraw { target, .. }
            | Action::Grant(Grant { target, .. })) = &action;
            let Some(target) = self.targets.iter().position(|known| known == target) else {
                panic!("a target that nobody spoke of: {target}")
            };
            let local = &mut self.sites[node].locals[target];
            let changed = match action {
                Action::Publish(directive) => local.obey(&directive, now_ms),
                Action::Withdraw { generation, .. } => local.withdraw(generation, now_ms),
                Action::Grant(grant) => local.grant(grant.generation, grant.deadline_ms, now_ms),
            };
            self.noted(node, target, changed);
        }
    }

    fn merge(&mut self) {
        let actions = self.fleet.tick(self.now_ms);
        for action in actions {
            let to: Vec<usize> = match &action {
                Action::Grant(grant) => {
                    (0..self.sites.len()).filter(|node| format!("n{node}") == grant.node).collect()
                }
                Action::Publish(_) | Action::Withdraw { .. } => (0..self.sites.len()).collect(),
            };
            for node in to {
                for at_ms in self.arrivals() {
                    self.down.push((at_ms, node, action.clone()));
                }
            }
            match action {
                Action::Publish(directive) => {
                    self.stored.insert(directive.target.clone(), directive);
                }
                Action::Withdraw { target, .. } => {
                    self.stored.remove(&target);
                }
                Action::Grant(_) => {}
            }
        }
        let ejected = self
            .fleet
            .standings(self.now_ms)
            .filter(|standing| {
                let left_out = [State::Open, State::HalfOpen, State::Ramping];
                standing.forced.is_none() && left_out.contains(&standing.state)
            })
            .count();
        if self.targets.len() > 1 {
            let most = GROUP_SHARE * self.targets.len() as f64;
            assert!(ejected as f64 <= most, "{ejected} of {} are left out", self.targets.len());
        }
    }

    /// The control plane dies, and another takes over what it stored.
    fn new_merger(&mut self) {
        let mut fleet = Fleet::new(Arc::new(Rules::default()), self.seed);
        fleet.set_groups(vec![(self.targets.clone(), GROUP_SHARE)]);
        let stored: Vec<_> = self.stored.values().cloned().collect();
        fleet.resume(&stored, self.now_ms);
        self.fleet = fleet;
    }

    fn is_closed(&self) -> bool {
        let closed = |local: &Local| local.state() == State::Closed;
        self.sites.iter().all(|site| site.locals.iter().all(closed))
            && self.fleet.standings(self.now_ms).all(|standing| standing.state == State::Closed)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.step();
        }
    }

    fn opened_ms(&mut self, target: usize, nodes: usize) -> u64 {
        let from_ms = self.now_ms;
        let open = |site: &&Site| site.locals[target].state() == State::Open;
        while self.sites.iter().filter(open).count() < nodes {
            self.step();
            assert!(self.now_ms < from_ms + 60_000, "it does not open");
        }
        self.now_ms - from_ms
    }
}

/// What an operator or fate does to a fleet.
#[derive(Debug, Clone)]
enum Fate {
    Health(usize, Health),
    Cut(usize),
    Join(usize),
    NewMerger,
    Force(usize, bool, u64),
    Unforce(usize),
    AwayAndBack,
}

fn fate() -> impl Strategy<Value = Fate> {
    let health = prop_oneof![
        Just(Health::Well),
        Just(Health::Fails),
        (0..4_usize).prop_map(Health::FailsFor),
        Just(Health::Hangs),
        Just(Health::Dead),
        Just(Health::Stalls),
        Just(Health::Limits),
    ];
    prop_oneof![
        6 => (any::<usize>(), health).prop_map(|(target, health)| Fate::Health(target, health)),
        1 => any::<usize>().prop_map(Fate::Cut),
        1 => any::<usize>().prop_map(Fate::Join),
        1 => Just(Fate::NewMerger),
        1 => (any::<usize>(), any::<bool>(), 0..60_000_u64)
            .prop_map(|(target, open, left_ms)| Fate::Force(target, open, left_ms)),
        1 => any::<usize>().prop_map(Fate::Unforce),
        1 => Just(Fate::AwayAndBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..Default::default() })]

    /// Whatever is lost, repeated or overtaken: one probe for each grant, never more than the share of
    /// a group left out, and once all is well everything closes.
    #[test]
    fn b1_a_fleet_probes_once_keeps_its_share_and_is_never_stuck(
        seed in 1_u64.., nodes in 1..5_usize, targets in 1..4_usize,
        loss in 0..40_u64, delay_ms in 0..2_500_u64,
        fates in prop::collection::vec((500..30_000_u64, fate()), 0..10),
    ) {
        let mut world = World::new(seed, nodes, targets, loss, delay_ms);
        for (after_ms, fate) in fates {
            match fate {
                Fate::Health(target, health) => world.health[target % targets] = health,
                Fate::Cut(node) => world.sites[node % nodes].cut = true,
                Fate::Join(node) => world.sites[node % nodes].cut = false,
                Fate::NewMerger => world.new_merger(),
                Fate::Force(target, open, left_ms) => {
                    let forced = Forced { open, left_ms, comment: "by hand".into() };
                    let target = world.targets[target % targets].clone();
                    world.fleet.force(&target, forced, world.now_ms).unwrap();
                }
                Fate::Unforce(target) => {
                    let target = world.targets[target % targets].clone();
                    world.fleet.unforce(&target, world.now_ms);
                }
                Fate::AwayAndBack => {
                    for local in world.sites.iter_mut().flat_map(|site| &mut site.locals) {
                        local.fleet_away();
                    }
                    world.run(2_000);
                    for local in world.sites.iter_mut().flat_map(|site| &mut site.locals) {
                        local.fleet_present(u32::try_from(nodes).unwrap());
                    }
                }
            }
            world.run(after_ms);
        }
        world.health.fill(Health::Well);
        world.sites.iter_mut().for_each(|site| site.cut = false);
        let from_ms = world.now_ms;
        while !world.is_closed() {
            world.step();
            prop_assert!(world.now_ms - from_ms < 900_000, "stuck: {:?}", world.fleet);
        }
    }
}

/// Three nodes with ten calls a second each, wires of 5 to 25 ms, a target that fails at once.
#[test]
fn b1_a_failing_target_is_left_alone_by_the_first_node_and_then_by_all() {
    for (health, first, all) in [
        (Health::Fails, 1_500, 3_000),
        (Health::Dead, 1_000, 2_000),
        (Health::Hangs, 15_000, 16_000),
    ] {
        let mut world = World::new(42, 3, 2, 0, 20);
        world.run(30_000);
        assert!(world.is_closed());
        world.health[0] = health;
        let from_ms = world.now_ms;
        let first_ms = world.opened_ms(0, 1);
        world.opened_ms(0, 3);
        let all_ms = world.now_ms - from_ms;
        println!(
            "{health:?}: open on the first node after {first_ms} ms, on all after {all_ms} ms"
        );
        assert!(first_ms <= first && all_ms <= all, "{first_ms} {all_ms}");
        // While it fails, it is asked by one probe at a time.
        world.run(60_000);
        let probes = world.probes.len();
        assert!((1..=8).contains(&probes), "{probes} probes in a minute");
        world.health[0] = Health::Well;
        let from_ms = world.now_ms;
        while !world.is_closed() {
            world.step();
        }
        println!(
            "    {probes} probes in a minute; closed {} ms after it is well",
            world.now_ms - from_ms
        );
        assert_eq!(world.sites[0].locals[1].state(), State::Closed, "the other target");
    }
}

#[test]
fn b1_one_bad_node_of_three_does_not_open_a_target_for_all() {
    let mut world = World::new(42, 3, 1, 0, 20);
    world.run(10_000);
    world.health[0] = Health::FailsFor(1);
    world.run(120_000);
    let states = world.sites.iter().map(|site| site.locals[0].state());
    let left_out = [State::Open, State::HalfOpen, State::Ramping];
    let bad: Vec<_> = states.map(|state| left_out.contains(&state)).collect();
    assert_eq!(bad, [false, true, false]);
    assert!(world.stored.is_empty());
    assert!(matches!(world.sites[0].locals[0].reason(), Reason::Well));
}
