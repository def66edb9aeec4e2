//! Data planes that follow the protocol of leases, on a network that loses answers, repeats calls
//! and brings old ones again, and that die now and then. What a ledger grants them must be right at
//! every moment.

use std::{collections::HashMap, fmt, time::Duration};

use async_trait::async_trait;
use fastrand::Rng;
use sluicegate_store::ledger::{
    CalendarWindow, LeaseOp, LeaseState, LeaseStatus, Ledger, MeterKind, MeterSpec, OnExpiry,
    meter::{Meter, Phase},
};
use tokio::time::{Instant, sleep};

const CAPACITY: u64 = 20_000;
const NODES: usize = 12;
const HOUR: u64 = 3_600_000;
/// A lease is not used any more this long before it expires.
const GUARD_MS: u64 = 10;
const TTL_MS: u64 = 60;

/// A ledger and a clock that it does not know of.
#[async_trait]
pub trait Desk: Send {
    async fn lease(&mut self, op: &LeaseOp) -> LeaseState;
    /// Of a node's own clock.
    fn now_ms(&self) -> u64;
    async fn pass(&mut self, ms: u64);
}

/// A ledger in real time.
pub struct Real<'l> {
    pub ledger: &'l dyn Ledger,
    pub started: Instant,
}

#[async_trait]
impl Desk for Real<'_> {
    async fn lease(&mut self, op: &LeaseOp) -> LeaseState {
        let states = self.ledger.lease(std::slice::from_ref(op)).await;
        states.expect("the ledger answers").remove(0)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).expect("a short time")
    }

    async fn pass(&mut self, ms: u64) {
        sleep(Duration::from_millis(ms)).await;
    }
}

/// Waits until leases expire that nobody refreshes: a ledger that has just come does not know of
/// which ones it has heard.
pub async fn until_leases_expire(ledger: &dyn Ledger) {
    let expired = async {
        for turn in 0_u64.. {
            let kind = MeterKind::Slots;
            let spec = MeterSpec { kind, capacity: 1, on_expiry: OnExpiry::Return, ttl_ms: 1 };
            let op = |seq| LeaseOp {
                meter: format!("until leases expire {turn}"),
                spec,
                lease: "a".to_owned(),
                seq,
                charged: 0,
                refunded: 0,
                granted: 0,
                wanted: 1,
                minimum: 0,
                close: false,
                window: 0,
            };
            let lease = async |seq| ledger.lease(&[op(seq)]).await.expect("it answers").remove(0);
            let opened = lease(1).await;
            while ledger.now_ms().await.expect("it answers") <= opened.now_ms + 1 {
                sleep(Duration::from_millis(1)).await;
            }
            if lease(2).await.status == LeaseStatus::Expired {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), expired).await.expect("leases expire soon");
}

/// The engine alone, in a time that passes when it is told to.
#[derive(Default)]
pub struct Simulated {
    meters: HashMap<String, Meter>,
    now_ms: u64,
}

/// When the simulated time began.
const BEGINNING_MS: u64 = 1_790_000_000_000;

#[async_trait]
impl Desk for Simulated {
    async fn lease(&mut self, op: &LeaseOp) -> LeaseState {
        let meter = self.meters.entry(op.meter.clone()).or_default();
        meter.apply(BEGINNING_MS + self.now_ms, op, Phase::Normal)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    async fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }
}

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// A calendar window that does not end, and what expires is held: nothing may ever go wrong.
    Hold,
    /// The same, and what expires is free again: a node that was silent may have used it.
    Return,
    /// As many slots; nothing is charged.
    Slots,
    /// A bucket that drains slowly, and holds.
    Bucket,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    pub calls: u64,
    pub admitted: u64,
    pub denied: u64,
    pub crashes: u64,
    /// Most that was used and open over the capacity at one time.
    pub overshoot: u64,
    /// Most that the ledger counted as used and reserved over the capacity at one time.
    pub overbooked: u64,
    /// What had not been reported when leases expired: the bound of `overshoot` where it may be.
    pub unreported: u64,
    /// At the end, when all was reported: what the ledger has as used and what really was.
    pub used: u64,
    pub truth: u64,
    /// At the end, when all leases were closed.
    pub leaked: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, admitted, denied, crashes, overshoot, overbooked, .. } = self;
        let Self { unreported, used, truth, leaked, .. } = self;
        write!(
            f,
            "{calls} calls, {admitted} admitted, {denied} denied, {crashes} crashes; overshoot \
             {overshoot}, overbooked {overbooked} (unreported at expiry {unreported}); used {used}, \
             truth {truth}, leaked {leaked}"
        )
    }
}

impl Outcome {
    /// Panics where the rules do not allow this.
    #[track_caller]
    pub fn check(&self, rules: Rules) {
        if rules == Rules::Return {
            assert!(self.overshoot <= self.unreported, "overshoot: {self}");
            assert!(self.overbooked <= self.unreported, "overbooked: {self}");
        } else {
            assert_eq!((self.overshoot, self.overbooked), (0, 0), "{self}");
        }
        if rules != Rules::Bucket {
            assert_eq!(self.used, self.truth, "used and truth: {self}");
        }
        assert_eq!(self.leaked, 0, "leaked: {self}");
        assert!(self.admitted > 0 && self.denied > 0, "nothing happened: {self}");
    }
}

#[derive(Debug, Clone, Default)]
struct Lease {
    id: u64,
    seq: u64,
    granted: u64,
    charged: u64,
    refunded: u64,
    /// What was charged when the ledger last answered.
    reported: u64,
    /// Requests that are under way.
    open: Vec<u64>,
    /// Of the node's clock; 0 before it was granted anything.
    until_ms: u64,
    ended: bool,
}

impl Lease {
    fn under_way(&self) -> u64 {
        self.open.iter().sum()
    }
}

struct Node {
    /// Whether it charges what it reserves at once, and takes back what was not needed; or charges
    /// in the end what was needed.
    upfront: bool,
    leases: Vec<Lease>,
    alive: bool,
}

struct World<'d> {
    desk: &'d mut dyn Desk,
    rules: Rules,
    rng: Rng,
    spec: MeterSpec,
    meter: String,
    nodes: Vec<Node>,
    last_id: u64,
    old: Vec<LeaseOp>,
    outcome: Outcome,
}

/// Lets nodes do `steps` steps on a meter of their own.
pub async fn run(desk: &mut dyn Desk, rules: Rules, seed: u64, steps: u64) -> Outcome {
    // Any operation tells the time.
    let probe = MeterSpec {
        kind: MeterKind::Slots,
        capacity: 1,
        on_expiry: OnExpiry::Return,
        ttl_ms: TTL_MS,
    };
    let meter = format!("{rules:?}/{seed}");
    let now_ms = desk.lease(&operation("probe", probe, &Lease::default(), 0)).await.now_ms;
    let window = |id, start_ms: u64| CalendarWindow { id, start_ms, end_ms: start_ms + 2 * HOUR };
    let calendar =
        MeterKind::Calendar { windows: [window(1, now_ms - HOUR), window(2, now_ms + HOUR)] };
    let (kind, on_expiry) = match rules {
        Rules::Hold => (calendar, OnExpiry::Hold),
        Rules::Return => (calendar, OnExpiry::Return),
        Rules::Slots => (MeterKind::Slots, OnExpiry::Return),
        Rules::Bucket => (MeterKind::Bucket { amount: CAPACITY, window_ms: 1_000 }, OnExpiry::Hold),
    };
    let spec = MeterSpec { kind, capacity: CAPACITY, on_expiry, ttl_ms: TTL_MS };
    let rng = Rng::with_seed(seed);
    let mut world = World {
        desk,
        rules,
        rng,
        spec,
        meter,
        nodes: Vec::new(),
        last_id: 0,
        old: Vec::new(),
        outcome: Outcome::default(),
    };
    for _ in 0..NODES {
        world.join();
    }
    for _ in 0..steps {
        world.step().await;
    }
    world.finish().await;
    world.outcome
}

fn operation(meter: &str, spec: MeterSpec, lease: &Lease, wanted: u64) -> LeaseOp {
    LeaseOp {
        meter: meter.to_owned(),
        spec,
        lease: format!("L{}", lease.id),
        seq: lease.seq,
        charged: lease.charged,
        refunded: lease.refunded,
        granted: lease.granted,
        wanted,
        minimum: 1,
        close: false,
        window: 0,
    }
}

impl World<'_> {
    fn join(&mut self) {
        let upfront = self.rules != Rules::Slots && self.rng.bool();
        let lease = self.new_lease();
        self.nodes.push(Node { upfront, leases: vec![lease], alive: true });
    }

    fn new_lease(&mut self) -> Lease {
        self.last_id += 1;
        Lease { id: self.last_id, ..Lease::default() }
    }

    async fn step(&mut self) {
        let at = self.living();
        self.notice_the_end(at);
        match self.rng.u32(0..1_000) {
            0..300 => self.ask(at).await,
            300..620 => self.admit(at),
            620..860 => self.settle(at),
            860..920 => self.report_an_old_one(at).await,
            920..960 => self.replay().await,
            960..965 => {
                // Dies with everything it had under way. What it noted of its charges is left.
                self.nodes[at].alive = false;
                self.outcome.crashes += 1;
                self.notice_all_ended(at);
                self.join();
            }
            _ => self.desk.pass(self.rng.u64(0..5)).await,
        }
        let over = self.truth().saturating_sub(CAPACITY);
        if self.rules != Rules::Bucket {
            self.outcome.overshoot = self.outcome.overshoot.max(over);
        }
    }

    fn living(&mut self) -> usize {
        let living: Vec<usize> = (0..self.nodes.len()).filter(|&n| self.nodes[n].alive).collect();
        living[self.rng.usize(0..living.len())]
    }

    /// What was really used, and what is about to be.
    fn truth(&self) -> u64 {
        let slots = self.rules == Rules::Slots;
        let of = |node: &Node| -> u64 {
            let leases = node.leases.iter();
            leases
                .map(|lease| {
                    let used = if slots { 0 } else { lease.charged - lease.refunded };
                    let under_way = node.alive && !node.upfront;
                    used + if under_way { lease.under_way() } else { 0 }
                })
                .sum()
        };
        self.nodes.iter().map(of).sum()
    }

    /// By its own clock.
    fn notice_the_end(&mut self, at: usize) {
        let now_ms = self.desk.now_ms();
        let Some(lease) = self.nodes[at].leases.last_mut() else { return };
        if !lease.ended && lease.until_ms > 0 && now_ms >= lease.until_ms {
            self.end(at);
        }
    }

    fn notice_all_ended(&mut self, at: usize) {
        if self.nodes[at].leases.last().is_some_and(|lease| !lease.ended) {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        let Some(lease) = self.nodes[at].leases.last_mut() else { return };
        lease.ended = true;
        self.outcome.unreported += lease.charged - lease.reported + lease.under_way();
    }

    /// Sends, unless the answer is lost, and maybe more than once.
    async fn send(&mut self, op: LeaseOp) -> Option<LeaseState> {
        self.old.push(op.clone());
        let mut state = self.deliver(&op).await;
        if self.rng.u32(0..100) < 10 {
            state = self.deliver(&op).await;
        }
        (self.rng.u32(0..100) >= 5).then_some(state)
    }

    async fn deliver(&mut self, op: &LeaseOp) -> LeaseState {
        self.outcome.calls += 1;
        let state = self.desk.lease(op).await;
        let over = (state.used + state.reserved).saturating_sub(CAPACITY);
        // A used bucket is told rounded up.
        let over = if self.rules == Rules::Bucket { over.saturating_sub(1) } else { over };
        self.outcome.overbooked = self.outcome.overbooked.max(over);
        state
    }

    /// Draws more or gives back, on a new lease where the present one is over.
    async fn ask(&mut self, at: usize) {
        if self.nodes[at].leases.last().is_none_or(|lease| lease.ended) {
            let lease = self.new_lease();
            self.nodes[at].leases.push(lease);
        }
        let more = [50, 200, 1_000, 3_000][self.rng.usize(0..4)];
        let gives_back = self.rng.u32(0..100) < 25;
        let upfront = self.nodes[at].upfront;
        let part = self.rng.f64();
        let Some(lease) = self.nodes[at].leases.last_mut() else { return };
        lease.seq += 1;
        let wanted = if gives_back {
            // First it can no longer be used, then it is given back.
            let free = free(lease, upfront, self.rules);
            lease.granted -= (free as f64 * part) as u64;
            lease.granted
        } else {
            lease.granted + more
        };
        let mut op = operation(&self.meter, self.spec, lease, wanted);
        op.minimum = if self.rng.bool() { 1 } else { more / 2 };
        let (id, sent_ms) = (lease.id, self.desk.now_ms());
        let charged = lease.charged;
        let Some(state) = self.send(op).await else { return };
        let Some(lease) = self.nodes[at].leases.last_mut() else { return };
        assert_eq!(lease.id, id);
        match state.status {
            LeaseStatus::Granted | LeaseStatus::Partial | LeaseStatus::Denied => {
                assert!(state.granted >= lease.granted, "{state:?} {lease:?}");
                lease.granted = state.granted;
                lease.until_ms = sent_ms + TTL_MS - GUARD_MS;
                lease.reported = charged;
            }
            LeaseStatus::Expired => self.end(at),
            other => panic!("{other:?} cannot be here: {lease:?}"),
        }
    }

    fn admit(&mut self, at: usize) {
        let now_ms = self.desk.now_ms();
        let amount = self.rng.u64(1..400);
        let Node { upfront, leases, .. } = &mut self.nodes[at];
        let Some(lease) = leases.last_mut() else { return };
        let valid = !lease.ended && now_ms < lease.until_ms;
        if !valid || free(lease, *upfront, self.rules) < amount {
            self.outcome.denied += 1;
            return;
        }
        self.outcome.admitted += 1;
        lease.open.push(amount);
        if *upfront {
            lease.charged += amount;
        }
    }

    /// Ends a request, on whichever lease it began.
    fn settle(&mut self, at: usize) {
        let Node { upfront, leases, .. } = &mut self.nodes[at];
        let mut busy: Vec<&mut Lease> =
            leases.iter_mut().filter(|lease| !lease.open.is_empty()).collect();
        if busy.is_empty() {
            return;
        }
        let n = self.rng.usize(0..busy.len());
        let lease = &mut busy[n];
        let reserved = lease.open.swap_remove(self.rng.usize(0..lease.open.len()));
        let needed = self.rng.u64(0..=reserved);
        match (self.rules, *upfront) {
            (Rules::Slots, _) => {}
            (_, true) => lease.refunded += reserved - needed,
            (_, false) => lease.charged += needed,
        }
    }

    /// What is left of an ended lease is given back when nothing is under way on it any more.
    async fn report_an_old_one(&mut self, at: usize) {
        let upfront = self.nodes[at].upfront;
        let ended: Vec<usize> =
            (0..self.nodes[at].leases.len()).filter(|&n| self.nodes[at].leases[n].ended).collect();
        if ended.is_empty() {
            return;
        }
        let n = ended[self.rng.usize(0..ended.len())];
        let lease = &mut self.nodes[at].leases[n];
        lease.seq += 1;
        let mut op = operation(&self.meter, self.spec, lease, lease.granted);
        op.close = upfront || lease.open.is_empty();
        self.send(op).await;
    }

    async fn replay(&mut self) {
        let last = self.old.len();
        if last > 0 {
            let op = self.old[self.rng.usize(last.saturating_sub(200)..last)].clone();
            self.deliver(&op).await;
        }
    }

    /// Everybody reports what was charged, the dead ones through what they had noted.
    async fn finish(&mut self) {
        let mut last = None;
        for at in 0..self.nodes.len() {
            for n in 0..self.nodes[at].leases.len() {
                let lease = &mut self.nodes[at].leases[n];
                lease.open.clear();
                lease.seq += 1;
                let mut op = operation(&self.meter, self.spec, lease, 0);
                op.close = true;
                last = Some(self.deliver(&op).await);
            }
        }
        let Some(state) = last else { return };
        self.outcome.used = state.used;
        self.outcome.truth = self.truth();
        self.outcome.leaked = state.reserved;
    }
}

/// What of a lease's grant nobody uses.
fn free(lease: &Lease, upfront: bool, rules: Rules) -> u64 {
    let taken = match (rules, upfront) {
        (Rules::Slots, _) => lease.under_way(),
        (_, true) => lease.charged,
        (_, false) => lease.charged + lease.under_way(),
    };
    lease.granted.saturating_sub(taken)
}
