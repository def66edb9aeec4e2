//! One meter's lease: which operation to send next, and what came of it.

use std::sync::Arc;

use sluicegate_proto::quota::v1::{self as pb, LeaseStatus as Status};

use super::{
    Drain, GUARD_MS, View,
    demand::Demand,
    ended::{OLD_MS, Old},
    lease::Lease,
    op::{Op, Terms},
};

/// A lease holds what requests will ask for in this time. Milliseconds.
const HORIZON_MS: f64 = 500.0;
/// Below what this time will ask for, more is drawn. Milliseconds.
const LOW_MS: f64 = 250.0;
/// A lease that nobody asks for is given back after this time. Milliseconds.
const IDLE_MS: u64 = 2_000;
/// A lease that has something left is looked at so often. Milliseconds.
const LOOK_MS: u64 = 500;
/// A lease is refreshed so often. Short, so that a ledger that lost its latest grants hears of them
/// before it grants anew. Milliseconds.
const REFRESH_MS: u64 = 1_500;
/// What is left over is given back after this time where limits are too small to be shared out.
const GIVE_BACK_MS: u64 = 20;
/// A limit is shared out only when each data plane may hold this many of the largest requests.
const REQUESTS_EACH: u64 = 20;
/// A refusal is repeated without asking for so long. Milliseconds.
const CERTAIN_MS: u64 = 1_000;
/// After an answer that gave less than was waited for, the next question waits so long: what is
/// given back meanwhile serves many. Milliseconds.
const ASK_AGAIN_MS: u64 = 20;
/// More charges than these end a lease: totals must stay far below what is counted exactly.
const MAX_CHARGED: u64 = 1 << 48;

/// How the ledger answered those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing has come since.
    NotYet,
    /// It gave what it could.
    Given,
    /// The limit is used up.
    Denied,
    /// The control plane does not know the limit (any more).
    Unknown,
    /// Nobody can tell: no control plane, or no ledger behind it.
    Unavailable,
}

/// Everything a data plane knows and wants of one meter.
#[derive(Debug)]
pub struct Holder {
    terms: Terms,
    lease: Arc<Lease>,
    /// Is the lease open at the ledger?
    open: bool,
    granted: u64,
    seq: u64,
    in_flight: Option<u64>,
    sent_at_ms: u64,
    reported: (u64, u64),
    waiting: Vec<u64>,
    answered_seq: u64,
    answer: Answer,
    /// Not to be asked for more before.
    ask_again_ms: u64,
    view: Option<View>,
    demand: Demand,
    old: Vec<Old>,
    /// Leases of slots that are over while requests fill them on.
    carried: Vec<Arc<Lease>>,
    /// Leases that have been reported in full.
    over: Vec<u64>,
    /// The process stops: everything is to be given back.
    finishing: bool,
    /// When there first was something to give back.
    spare_since_ms: Option<u64>,
    /// Something was given back that the ledger has not been told.
    given_back: bool,
    next_id: fn() -> u64,
}

impl Holder {
    /// A meter that nobody has asked for yet. `next_id` makes lease ids that are never used again.
    pub fn new(terms: Terms, next_id: fn() -> u64) -> Self {
        Self {
            terms,
            lease: Arc::new(Lease::new(next_id())),
            open: false,
            granted: 0,
            seq: 0,
            in_flight: None,
            sent_at_ms: 0,
            reported: (0, 0),
            waiting: Vec::new(),
            answered_seq: 0,
            answer: Answer::NotYet,
            ask_again_ms: 0,
            view: None,
            demand: Demand::default(),
            old: Vec::new(),
            carried: Vec::new(),
            over: Vec::new(),
            finishing: false,
            spare_since_ms: None,
            given_back: false,
            next_id,
        }
    }

    /// The lease that requests take from.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The meter as last described.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The policy changed. What is free is given back at once, since less may be allowed now.
    pub fn set_terms(&mut self, terms: Terms) {
        if self.terms != terms {
            self.terms = terms;
            self.view = None;
            self.give_back();
        }
    }

    /// Gives back what is free; the next operation, due at once, says so.
    fn give_back(&mut self) {
        self.lease.set_low(0);
        let back = self.lease.balance.withdraw(u64::MAX);
        self.granted = self.granted.saturating_sub(back);
        self.given_back |= back > 0;
    }

    /// A request waits for `amount`. Returns the number of the first operation whose answer counts.
    pub fn enter(&mut self, amount: u64) -> u64 {
        self.waiting.push(amount);
        self.seq + 1
    }

    /// A request does not wait any more.
    pub fn leave(&mut self, amount: u64) {
        if let Some(index) = self.waiting.iter().position(|waiting| *waiting == amount) {
            self.waiting.swap_remove(index);
        }
    }

    /// What was said to those who entered with this number.
    pub fn answer(&self, ticket: u64) -> Answer {
        if self.answered_seq >= ticket { self.answer } else { Answer::NotYet }
    }

    /// Would `amount` be refused for certain, whatever others give back? Known for a moment only:
    /// what was refunded elsewhere is not.
    pub fn is_hopeless(&self, now_ms: u64, amount: u64) -> bool {
        let refunds = self.lease.balance.refunded() != self.reported.1;
        !refunds
            && self.view.as_ref().is_some_and(|view| {
                now_ms.saturating_sub(view.at_ms) < CERTAIN_MS && view.is_refused(now_ms, amount)
            })
    }

    /// Is there no limit large enough to be shared out, so that every request asks by itself?
    pub fn is_direct(&self, now_ms: u64) -> bool {
        let Some(view) = &self.view else { return true };
        let holders = u64::from(view.holders);
        let largest = self.demand.largest().max(1);
        let each = holders.saturating_mul(largest);
        view.capacity / each < REQUESTS_EACH
            || view.free(now_ms).saturating_add(self.lease.balance.free().max(0).unsigned_abs())
                < each
    }

    /// May it be forgotten?
    pub fn is_idle(&self, now_ms: u64) -> bool {
        self.old.is_empty()
            && !self.open
            && self.in_flight.is_none()
            && self.waiting.is_empty()
            && !self.lease.balance.is_open()
            && self.demand.idle_ms(now_ms) > 5 * IDLE_MS
    }

    /// What is this data plane's and free, and refunds of which the ledger has not heard.
    pub fn coming_back(&self) -> u64 {
        let balance = &self.lease.balance;
        let refunds = balance.refunded().saturating_sub(self.reported.1);
        balance.free().max(0).unsigned_abs().saturating_add(refunds)
    }

    /// What running requests hold; slots also where the lease that they came from is over.
    pub fn held(&self) -> u64 {
        self.lease.balance.held().saturating_add(self.carried())
    }

    /// The process stops: gives back what is free, and the rest as requests end.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.give_back();
    }

    /// Is nothing held, and has the ledger heard of everything?
    pub fn is_finished(&self) -> bool {
        !self.open && self.in_flight.is_none() && self.old.is_empty()
    }

    /// Leases to which nothing more will be charged, and all of whose charges the ledger has heard;
    /// each is named once.
    pub fn take_over(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.over)
    }

    /// The operations that are due now.
    pub fn due(&mut self, now_ms: u64) -> Vec<Op> {
        let mut ops = Vec::new();
        let (asked, largest) = self.lease.take_asked();
        self.demand.note(now_ms, asked, largest);
        self.over.extend(self.old.iter().filter(|old| old.is_done()).map(|old| old.lease.id));
        self.old.retain(|old| !old.is_done());
        self.carried.retain(|lease| lease.balance.held() > 0);
        ops.extend(self.old.iter_mut().filter_map(|old| old.due(now_ms)));
        if self.in_flight.is_none() {
            ops.extend(self.current(now_ms));
        }
        ops
    }

    /// An operation that changes nothing, to find out whether anybody answers.
    pub fn probe(&mut self, now_ms: u64) -> Option<Op> {
        self.in_flight.is_none().then(|| self.op(now_ms, 0, 0))
    }

    /// When [`Holder::due`] should be asked again, unless something happens before.
    pub fn next_due(&self, now_ms: u64) -> u64 {
        if self.in_flight.is_some() {
            return now_ms + REFRESH_MS;
        }
        let mut next = now_ms + REFRESH_MS;
        if !self.waiting.is_empty() {
            next = next.min(self.ask_again_ms);
        }
        if self.lease.balance.free() > 0 {
            // Whether anybody still asks is only seen by looking.
            next = next.min(now_ms + LOOK_MS);
        }
        if self.open {
            next = next.min(self.sent_at_ms + REFRESH_MS);
            if self.unreported() {
                next = next.min(self.sent_at_ms + self.terms.report_ms());
            }
            if let Some(since) = self.spare_since_ms {
                next = next.min(since + GIVE_BACK_MS);
            }
            if self.given_back {
                next = now_ms;
            }
        }
        if !self.old.is_empty() {
            next = next.min(now_ms + OLD_MS);
        }
        next.max(now_ms + 1)
    }

    fn unreported(&self) -> bool {
        let balance = &self.lease.balance;
        (balance.charged(), balance.refunded()) != self.reported
    }

    fn current(&mut self, now_ms: u64) -> Option<Op> {
        let balance = &self.lease.balance;
        if self.open && !balance.is_valid(now_ms) {
            // Nobody refreshed it in time. The ledger may have given the rest to others.
            self.retire();
        } else if self.open && balance.charged() > MAX_CHARGED {
            let back = self.lease.balance.withdraw(u64::MAX);
            self.granted = self.granted.saturating_sub(back);
            self.retire();
        }
        if self.terms.drain == Drain::Never {
            // Who runs fills a slot, also who was let in while nobody could be asked.
            let uncovered = self.lease.balance.free().min(0).unsigned_abs();
            self.lease.balance.cover(uncovered);
            self.granted = self.granted.saturating_add(uncovered);
        }
        let balance = &self.lease.balance;
        let free = balance.free();
        let waiting = self.waiting.iter().fold(0_u64, |sum, amount| sum.saturating_add(*amount));
        let direct = self.is_direct(now_ms);
        let slice = if direct { 0 } else { self.slice(now_ms) };
        let low = if direct { 0 } else { self.demand.in_ms(LOW_MS).min(slice) };
        self.lease.set_low(low);
        let idle =
            self.waiting.is_empty() && (self.finishing || self.demand.idle_ms(now_ms) >= IDLE_MS);
        let short = waiting > 0 || (!idle && free < signed(low));
        if short && now_ms >= self.ask_again_ms {
            let wanted = signed(waiting.saturating_add(slice));
            let more = wanted.saturating_sub(free).max(0).unsigned_abs();
            let least = self.waiting.iter().copied().min().unwrap_or(1);
            let minimum = least.saturating_add(self.uncovered(free)).min(more);
            return Some(self.op(now_ms, more, minimum));
        }
        if !self.open {
            let slots = self.terms.drain == Drain::Never && self.lease.balance.held() > 0;
            let tell = self.unreported() || self.carried() > 0 || slots;
            return (!short && tell).then(|| self.op(now_ms, 0, 0));
        }
        let keep = if idle || direct { 0 } else { signed(slice.saturating_mul(2)) };
        if free > keep && !short {
            let since = *self.spare_since_ms.get_or_insert(now_ms);
            if idle || now_ms >= since + GIVE_BACK_MS {
                let back = self.lease.balance.withdraw((free - keep).unsigned_abs());
                self.granted = self.granted.saturating_sub(back);
                self.given_back |= back > 0;
            }
        } else {
            self.spare_since_ms = None;
        }
        // With nothing free, nobody can take anything any more: what is not held now never is.
        let unheld = self.lease.balance.held() == 0 && self.carried() == 0;
        if idle && self.lease.balance.free() <= 0 && unheld {
            return Some(self.close(now_ms));
        }
        let waited = now_ms.saturating_sub(self.sent_at_ms);
        let report = self.unreported() && waited >= self.terms.report_ms();
        (self.given_back || report || waited >= REFRESH_MS).then(|| self.op(now_ms, 0, 0))
    }

    /// What requests hold without a grant, and without a charge that the ledger would see.
    fn uncovered(&self, free: i64) -> u64 {
        let seen = self.lease.balance.charged().saturating_sub(self.granted);
        free.min(0).unsigned_abs().saturating_sub(seen)
    }

    /// What a lease should hold beyond what is waited for.
    fn slice(&self, now_ms: u64) -> u64 {
        let Some(view) = &self.view else { return 0 };
        let demand = self.demand.in_ms(HORIZON_MS).max(self.demand.largest());
        let fair = view.free(now_ms) / u64::from(view.holders).saturating_mul(2).max(1);
        demand.min(fair.max(self.lease.balance.free().max(0).unsigned_abs()))
    }

    fn op(&mut self, now_ms: u64, more: u64, minimum: u64) -> Op {
        self.seq += 1;
        self.in_flight = Some(self.seq);
        self.sent_at_ms = now_ms;
        self.spare_since_ms = None;
        self.given_back = false;
        let balance = &self.lease.balance;
        // Refunds first: a refund that is seen belongs to a charge that is seen.
        let refunded = balance.refunded();
        let charged = balance.charged();
        let carried = self.carried();
        Op {
            lease: self.lease.id,
            seq: self.seq,
            charged,
            refunded,
            granted: self.granted.saturating_add(carried),
            wanted: self.granted.saturating_add(carried).saturating_add(more).max(charged),
            minimum,
            close: false,
            window: self.lease.window(),
        }
    }

    /// Ends the present lease, of which nothing is left and nothing is held.
    fn close(&mut self, now_ms: u64) -> Op {
        let mut old = self.give_up();
        let op = old.op(now_ms);
        self.old.push(old);
        op
    }

    /// Takes no more from the present lease; what is held still settles into it.
    fn retire(&mut self) {
        let held = self.lease.balance.held();
        let old = self.give_up();
        if self.terms.drain == Drain::Never && held > 0 {
            // Running requests go on filling their slots, though the ledger has let go of them.
            self.carried.push(old.lease.clone());
        }
        self.old.push(old);
    }

    /// Slots that requests fill which took them from leases that are over.
    fn carried(&self) -> u64 {
        self.carried.iter().map(|lease| lease.balance.held()).sum()
    }

    fn give_up(&mut self) -> Old {
        self.lease.balance.void();
        let fresh = Arc::new(Lease::new((self.next_id)()));
        let lease = std::mem::replace(&mut self.lease, fresh);
        let old = Old::new(lease, self.granted, self.seq);
        self.open = false;
        self.granted = 0;
        self.in_flight = None;
        self.reported = (0, 0);
        self.spare_since_ms = None;
        self.given_back = false;
        old
    }

    /// Takes in what came of an operation. `sent_ms` is when it was sent: from then on counts the
    /// lease's time.
    pub fn on_state(&mut self, now_ms: u64, sent_ms: u64, op: &Op, state: &pb::LeaseState) {
        let status = Status::try_from(state.status).unwrap_or(Status::Unavailable);
        if !matches!(status, Status::Unavailable | Status::UnknownLimit | Status::Unspecified) {
            let minimum = op.minimum.max(1);
            self.view = Some(View::new(now_ms, self.terms.drain, minimum, state));
        }
        if op.lease != self.lease.id {
            self.on_old(now_ms, op, status);
            return;
        }
        if self.in_flight == Some(op.seq) {
            self.in_flight = None;
        }
        if op.seq < self.seq || status == Status::Overtaken {
            return;
        }
        let answer = match status {
            Status::Unavailable | Status::Recovering | Status::Unspecified => Answer::Unavailable,
            Status::UnknownLimit => Answer::Unknown,
            Status::Denied => Answer::Denied,
            Status::Granted | Status::Partial => Answer::Given,
            // Another lease is opened at once for those who wait.
            Status::Expired | Status::WindowOver => {
                self.retire();
                return;
            }
            Status::Overtaken => return,
        };
        self.answered_seq = op.seq;
        self.answer = answer;
        if matches!(status, Status::Denied | Status::Partial) {
            self.ask_again_ms = now_ms + ASK_AGAIN_MS;
        }
        match answer {
            Answer::Given | Answer::Denied => self.refreshed(sent_ms, op, state),
            Answer::Unavailable if status == Status::Recovering => {
                self.refreshed(sent_ms, op, state);
            }
            Answer::NotYet | Answer::Unavailable | Answer::Unknown => {}
        }
    }

    fn refreshed(&mut self, sent_ms: u64, op: &Op, state: &pb::LeaseState) {
        self.open = true;
        self.reported = (op.charged, op.refunded);
        self.lease.set_window(state.window);
        let more = state.granted.saturating_sub(op.granted);
        // Something may have been given back since.
        self.granted = self.granted.saturating_add(more);
        let until = sent_ms + u64::from(state.ttl_ms).saturating_sub(GUARD_MS);
        self.lease.balance.grant(more, until);
    }

    fn on_old(&mut self, now_ms: u64, op: &Op, status: Status) {
        let Some(index) = self.old.iter().position(|old| old.lease.id == op.lease) else { return };
        let Some(old) = self.old.get_mut(index) else { return };
        if old.on_status(now_ms, op, status) {
            self.over.push(op.lease);
            self.old.swap_remove(index);
        }
    }

    /// No answer came, or none that helps.
    pub fn on_failure(&mut self, op: &Op) {
        if op.lease != self.lease.id {
            if let Some(old) = self.old.iter_mut().find(|old| old.lease.id == op.lease) {
                old.in_flight = false;
            }
            return;
        }
        if self.in_flight == Some(op.seq) {
            self.in_flight = None;
            self.answered_seq = op.seq;
            self.answer = Answer::Unavailable;
        }
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
