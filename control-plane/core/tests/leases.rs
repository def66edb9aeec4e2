//! Data planes that hold leases, and a ledger that gives them, over a network that loses, delays and
//! repeats, while data planes die and come back. Time is simulated; every seed gives the same run.

use std::collections::BinaryHeap;

use fastrand::Rng;
use sluicegate_proto::quota::v1 as pb;
use sluicegate_protocol::quota::{Answer, Drain, Holder, Lease, Op, Taken, Terms};
use sluicegate_store::ledger::{
    CalendarWindow, LeaseOp, LeaseState, LeaseStatus, MeterKind, MeterSpec, OnExpiry,
    meter::{Meter, Phase},
};

const TTL_MS: u64 = 15_000;
const STEP_MS: u64 = 5;

#[derive(Debug, Clone, Copy)]
struct World {
    kind: MeterKind,
    on_expiry: OnExpiry,
    capacity: u64,
    drain: Drain,
    /// Charged at once and corrected, or held until the end.
    early: bool,
    /// Largest request.
    largest: u64,
    /// Longest request, in milliseconds.
    longest_ms: u64,
    /// Chance that a request comes in one step.
    arrivals: f64,
    /// Data planes die now and then.
    crashes: bool,
    /// Part of messages that are lost.
    loss: f64,
}

/// A request that has taken something.
struct Open {
    node: usize,
    life: u64,
    lease: std::sync::Arc<Lease>,
    taken: u64,
    ends_ms: u64,
}

/// A request that waits.
struct Waiter {
    node: usize,
    amount: u64,
    ticket: u64,
    gives_up_ms: u64,
}

struct Node {
    holder: Holder,
    life: u64,
}

enum Message {
    Ask { node: usize, life: u64, sent_ms: u64, op: Op },
    Tell { node: usize, life: u64, sent_ms: u64, op: Op, state: Option<LeaseState> },
}

struct Mail(u64, u64, Message);

impl PartialEq for Mail {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Mail {}
impl PartialOrd for Mail {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Mail {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

/// What a run came to.
#[derive(Debug, Default)]
struct Seen {
    /// Really used, by requests that settled.
    used: u64,
    refused: u64,
    admitted: u64,
    crashes: u64,
    messages: u64,
    /// The most that was used and open at one time beyond the capacity.
    over: u64,
    reserved_at_end: u64,
    counted_at_end: u64,
}

struct Run {
    world: World,
    rng: Rng,
    now: u64,
    meter: Meter,
    nodes: Vec<Node>,
    open: Vec<Open>,
    waiting: Vec<Waiter>,
    mail: BinaryHeap<Mail>,
    sent: u64,
    lives: u64,
    seen: Seen,
}

fn next_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Run {
    fn new(world: World, nodes: usize, seed: u64) -> Self {
        let mut run = Self {
            world,
            rng: Rng::with_seed(seed),
            now: 1_000_000,
            meter: Meter::default(),
            nodes: Vec::new(),
            open: Vec::new(),
            waiting: Vec::new(),
            mail: BinaryHeap::new(),
            sent: 0,
            lives: 0,
            seen: Seen::default(),
        };
        for _ in 0..nodes {
            let node = run.born();
            run.nodes.push(node);
        }
        run
    }

    fn born(&mut self) -> Node {
        self.lives += 1;
        let terms = Terms { capacity: self.world.capacity, drain: self.world.drain };
        Node { holder: Holder::new(terms, next_id), life: self.lives }
    }

    fn run(mut self, steps: u64) -> Seen {
        for step in 0..steps {
            let busy = step < steps * 9 / 10;
            self.now += STEP_MS;
            if busy {
                self.arrive();
                self.crash();
            }
            self.step();
            self.measure();
        }
        // Everyone settles, and the messages that are left arrive.
        self.world.loss = 0.0;
        for open in &mut self.open {
            open.ends_ms = self.now;
        }
        for _ in 0..20_000 / STEP_MS {
            self.now += STEP_MS;
            self.step();
        }
        let view = self.meter.view("m", self.now);
        self.seen.reserved_at_end = view.reserved;
        self.seen.counted_at_end = view.used;
        self.seen
    }

    fn step(&mut self) {
        self.deliver();
        self.wait();
        self.settle();
        self.send();
    }

    fn arrive(&mut self) {
        if self.rng.f64() >= self.world.arrivals {
            return;
        }
        // The first data plane has most of the load.
        let count = self.nodes.len();
        let node = if self.rng.f64() < 0.6 { 0 } else { self.rng.usize(..count) };
        let amount = self.rng.u64(1..=self.world.largest);
        let lease = self.nodes[node].holder.lease().clone();
        match lease.take(amount, self.now).0 {
            Taken::Yes { .. } => self.admit(node, lease, amount),
            Taken::Short | Taken::Stale => {
                let ticket = self.nodes[node].holder.enter(amount);
                let gives_up_ms = self.now + 300;
                self.waiting.push(Waiter { node, amount, ticket, gives_up_ms });
            }
        }
    }

    fn admit(&mut self, node: usize, lease: std::sync::Arc<Lease>, taken: u64) {
        if self.world.early {
            lease.balance.charge(taken);
        }
        self.seen.admitted += 1;
        let ends_ms = self.now + self.rng.u64(10..self.world.longest_ms);
        let life = self.nodes[node].life;
        self.open.push(Open { node, life, lease, taken, ends_ms });
    }

    fn wait(&mut self) {
        for waiter in std::mem::take(&mut self.waiting) {
            let holder = &mut self.nodes[waiter.node].holder;
            let lease = holder.lease().clone();
            if matches!(lease.take_again(waiter.amount, self.now).0, Taken::Yes { .. }) {
                holder.leave(waiter.amount);
                self.admit(waiter.node, lease, waiter.amount);
            } else if holder.answer(waiter.ticket) == Answer::Denied
                || self.now >= waiter.gives_up_ms
            {
                holder.leave(waiter.amount);
                self.seen.refused += 1;
            } else {
                self.waiting.push(waiter);
            }
        }
    }

    fn settle(&mut self) {
        for open in std::mem::take(&mut self.open) {
            if self.now < open.ends_ms {
                self.open.push(open);
                continue;
            }
            let actual = self.rng.u64(0..=open.taken);
            if self.world.early {
                open.lease.balance.correct(open.taken, actual);
            } else {
                open.lease.balance.settle(open.taken, actual);
            }
            self.seen.used += actual;
        }
    }

    /// A data plane dies. What it had charged is in its journal, and its successor reports it; what
    /// was running is charged as it was reserved.
    fn crash(&mut self) {
        if !self.world.crashes || self.rng.f64() > 0.0005 {
            return;
        }
        let node = self.rng.usize(..self.nodes.len());
        let fresh = self.born();
        let dead = std::mem::replace(&mut self.nodes[node], fresh);
        self.seen.crashes += 1;
        self.waiting.retain(|waiter| waiter.node != node);
        let mut lease_ids: Vec<_> = vec![dead.holder.lease().clone()];
        for open in std::mem::take(&mut self.open) {
            if open.node == node && open.life == dead.life {
                if !self.world.early {
                    open.lease.balance.settle(open.taken, open.taken);
                }
                self.seen.used += open.taken;
                lease_ids.push(open.lease);
            } else {
                self.open.push(open);
            }
        }
        lease_ids.sort_by_key(|lease| lease.id);
        lease_ids.dedup_by_key(|lease| lease.id);
        for lease in lease_ids {
            let charged = lease.balance.charged();
            let op = Op {
                lease: lease.id,
                seq: 1 << 40,
                charged,
                refunded: lease.balance.refunded(),
                granted: charged,
                wanted: charged,
                minimum: 0,
                close: true,
                window: lease.window(),
            };
            let at = self.now + self.rng.u64(100..5_000);
            self.post(at, Message::Ask { node, life: 0, sent_ms: self.now, op });
        }
    }

    fn send(&mut self) {
        for node in 0..self.nodes.len() {
            let life = self.nodes[node].life;
            for op in self.nodes[node].holder.due(self.now) {
                let at = self.now + self.rng.u64(0..40);
                let sent_ms = self.now;
                if self.rng.f64() < self.world.loss {
                    let late = self.now + 300;
                    let state = None;
                    self.post(late, Message::Tell { node, life, sent_ms, op, state });
                    // It may arrive long after it was given up.
                    if self.rng.bool() {
                        let at = self.now + self.rng.u64(300..20_000);
                        self.post(at, Message::Ask { node, life: 0, sent_ms, op });
                    }
                    continue;
                }
                self.post(at, Message::Ask { node, life, sent_ms, op });
                if self.rng.f64() < self.world.loss {
                    let again = at + self.rng.u64(0..20_000);
                    self.post(again, Message::Ask { node, life: 0, sent_ms, op });
                }
            }
        }
    }

    fn post(&mut self, at: u64, message: Message) {
        self.sent += 1;
        self.mail.push(Mail(at, self.sent, message));
    }

    fn deliver(&mut self) {
        while self.mail.peek().is_some_and(|mail| mail.0 <= self.now) {
            let Some(Mail(_, _, message)) = self.mail.pop() else { return };
            self.seen.messages += 1;
            match message {
                Message::Ask { node, life, sent_ms, op } => {
                    let state = self.meter.apply(self.now, &self.ledger_op(&op), Phase::Normal);
                    // Life 0: nobody listens for the answer.
                    if life != 0 {
                        let lost = self.rng.f64() < self.world.loss;
                        let at = if lost { sent_ms + 300 } else { self.now + self.rng.u64(0..40) };
                        let state = (!lost).then_some(state);
                        self.post(at, Message::Tell { node, life, sent_ms, op, state });
                    }
                }
                Message::Tell { node, life, sent_ms, op, state } => {
                    let known = &mut self.nodes[node];
                    if known.life == life {
                        match state {
                            Some(state) => {
                                let state = wire(&state, self.world.capacity);
                                known.holder.on_state(self.now, sent_ms, &op, &state);
                            }
                            None => known.holder.on_failure(&op),
                        }
                    }
                }
            }
        }
    }

    fn ledger_op(&self, op: &Op) -> LeaseOp {
        LeaseOp {
            meter: "m".into(),
            spec: MeterSpec {
                kind: self.world.kind,
                capacity: self.world.capacity,
                on_expiry: self.world.on_expiry,
                ttl_ms: TTL_MS,
            },
            lease: format!("{:016x}", op.lease),
            seq: op.seq,
            charged: op.charged,
            refunded: op.refunded,
            granted: op.granted,
            wanted: op.wanted,
            minimum: op.minimum,
            close: op.close,
            window: op.window,
        }
    }

    fn measure(&mut self) {
        if matches!(self.world.kind, MeterKind::Calendar { .. }) {
            let open: u64 = self.open.iter().map(|open| open.taken).sum();
            let over = (self.seen.used + open).saturating_sub(self.world.capacity);
            self.seen.over = self.seen.over.max(over);
        }
    }
}

fn wire(state: &LeaseState, capacity: u64) -> pb::LeaseState {
    let status = match state.status {
        LeaseStatus::Granted => pb::LeaseStatus::Granted,
        LeaseStatus::Partial => pb::LeaseStatus::Partial,
        LeaseStatus::Denied => pb::LeaseStatus::Denied,
        LeaseStatus::Expired => pb::LeaseStatus::Expired,
        LeaseStatus::WindowOver => pb::LeaseStatus::WindowOver,
        LeaseStatus::Overtaken => pb::LeaseStatus::Overtaken,
        LeaseStatus::Recovering => pb::LeaseStatus::Recovering,
        LeaseStatus::OtherWindow => panic!("the window never ends"),
    };
    pb::LeaseState {
        status: status.into(),
        granted: state.granted,
        ttl_ms: 15_000,
        capacity,
        used: state.used,
        reserved: state.reserved,
        holders: state.holders,
        retry_ms: state.retry_ms,
        reset_ms: state.reset_ms,
        window: state.window,
        window_left_ms: state.window_left_ms,
        only_reserved: state.only_reserved,
    }
}

fn seeds() -> u64 {
    std::env::var("SLUICEGATE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

const FOREVER: u64 = 1 << 50;

fn budget() -> World {
    let window = CalendarWindow { id: 1, start_ms: 0, end_ms: FOREVER };
    let after = CalendarWindow { id: 2, start_ms: FOREVER, end_ms: 2 * FOREVER };
    World {
        kind: MeterKind::Calendar { windows: [window, after] },
        on_expiry: OnExpiry::Hold,
        capacity: 200_000,
        drain: Drain::AtOnce,
        early: false,
        largest: 300,
        longest_ms: 2_000,
        arrivals: 0.5,
        crashes: true,
        loss: 0.05,
    }
}

#[test]
fn d4_a_budget_is_never_overdrawn_and_nothing_of_it_leaks() {
    for seed in 0..seeds() {
        let seen = Run::new(budget(), 4, seed).run(12_000);
        println!("seed {seed}: {seen:?}");
        assert_eq!(seen.over, 0, "seed {seed}");
        assert_eq!(seen.reserved_at_end, 0, "seed {seed}: something stays reserved");
        assert_eq!(seen.counted_at_end, seen.used, "seed {seed}: the ledger has it wrong");
        assert!(seen.used * 100 >= 200_000 * 95, "seed {seed}: hardly used: {seen:?}");
    }
}

/// Leases are given back and taken again while requests that were charged at once run on.
#[test]
fn b3_what_was_charged_at_once_is_corrected_however_late() {
    for seed in 0..seeds() {
        let quiet =
            World { early: true, crashes: false, longest_ms: 12_000, arrivals: 0.002, ..budget() };
        let seen = Run::new(quiet, 3, seed).run(24_000);
        println!("seed {seed}: {seen:?}");
        assert!(seen.admitted > 10, "seed {seed}: {seen:?}");
        assert_eq!(seen.counted_at_end, seen.used, "seed {seed}: the ledger has it wrong");
        assert_eq!(seen.reserved_at_end, 0, "seed {seed}");
    }
}

#[test]
fn b3_a_rate_is_kept_and_used_whole() {
    // 10 000 in 10 s, at most 2 000 at once; about twice as much is asked for.
    let rate = World {
        kind: MeterKind::Bucket { amount: 10_000, window_ms: 10_000 },
        on_expiry: OnExpiry::Return,
        capacity: 2_000,
        drain: Drain::Steady { per_ms: 1.0 },
        early: true,
        largest: 40,
        longest_ms: 2_000,
        arrivals: 0.5,
        crashes: false,
        loss: 0.0,
    };
    for seed in 0..seeds() {
        let steps = 12_000;
        let seen = Run::new(rate, 4, seed).run(steps);
        println!("seed {seed}: {seen:?}");
        let allowed = 2_000 + steps * 9 / 10 * STEP_MS;
        assert!(seen.used <= allowed, "seed {seed}: {} of {allowed}", seen.used);
        assert!(seen.used * 100 >= allowed * 95, "seed {seed}: {} of {allowed}", seen.used);
        assert_eq!(seen.reserved_at_end, 0, "seed {seed}");
    }
}

#[test]
fn b3_a_rate_is_kept_over_a_bad_network() {
    let rate = World {
        kind: MeterKind::Bucket { amount: 10_000, window_ms: 10_000 },
        on_expiry: OnExpiry::Hold,
        capacity: 2_000,
        drain: Drain::Steady { per_ms: 1.0 },
        early: false,
        largest: 40,
        longest_ms: 2_000,
        arrivals: 0.5,
        crashes: true,
        loss: 0.05,
    };
    for seed in 0..seeds() {
        let steps = 12_000;
        let seen = Run::new(rate, 4, seed).run(steps);
        println!("seed {seed}: {seen:?}");
        let allowed = 2_000 + steps * 9 / 10 * STEP_MS;
        assert!(seen.used <= allowed, "seed {seed}: {} of {allowed}", seen.used);
        assert_eq!(seen.reserved_at_end, 0, "seed {seed}");
    }
}

#[test]
fn slots_come_back() {
    let slots = World {
        kind: MeterKind::Slots,
        on_expiry: OnExpiry::Return,
        capacity: 60,
        drain: Drain::Never,
        early: false,
        largest: 1,
        longest_ms: 2_000,
        arrivals: 0.5,
        crashes: false,
        loss: 0.05,
    };
    for seed in 0..seeds() {
        let mut run = Run::new(slots, 4, seed);
        // A slot is held and given back, never charged.
        let mut most = 0;
        for _ in 0..6_000 {
            run.now += STEP_MS;
            run.arrive();
            run.deliver();
            run.wait();
            for open in std::mem::take(&mut run.open) {
                if run.now < open.ends_ms {
                    run.open.push(open);
                } else {
                    open.lease.balance.settle(1, 0);
                }
            }
            run.send();
            most = most.max(run.open.len());
        }
        assert!(most <= 60, "seed {seed}: {most} at one time");
        assert!(most >= 55, "seed {seed}: only {most} at one time");
    }
}
