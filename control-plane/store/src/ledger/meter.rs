//! One meter with its leases: what an operation does, given the time. This is the engine of the
//! embedded ledger, and what the scripts of the Redis ledger are tested against.

use std::collections::BTreeMap;

use super::{
    LeaseOp, LeaseState, LeaseStatus, MeterKind, MeterView, OnExpiry,
    counter::{Counter, DAY_MS, NEVER, Rolled, bounded},
};

/// How long it is remembered that a lease has ended. What is reported later is taken for the report
/// of a lease that the ledger lost.
const ENDED_KEPT_MS: u64 = 600_000;

/// How far a ledger trusts what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Normal,
    /// It has heard from every data plane that is alive, and maybe not yet of every lease: none
    /// expires.
    Settling,
    /// It may have lost grants: none expires, and none is given.
    Recovering,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    /// Expired, and what is left of it is still reserved.
    Held,
    /// Expired, and nothing of it is reserved.
    Over,
    Closed,
}

impl State {
    /// As it is stored.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Active => 'a',
            Self::Held => 'h',
            Self::Over => 'o',
            Self::Closed => 'c',
        }
    }

    pub(crate) fn from_letter(letter: char) -> Option<Self> {
        [Self::Active, Self::Held, Self::Over, Self::Closed]
            .into_iter()
            .find(|state| state.letter() == letter)
    }
}

/// A lease as its meter knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) granted: u64,
    pub(crate) charged: u64,
    pub(crate) refunded: u64,
    /// When it has to be looked after: expires, or is forgotten.
    pub(crate) due_ms: u64,
    /// Of the latest operation that changed the grant.
    pub(crate) seq: u64,
    pub(crate) state: State,
}

impl Lease {
    /// What of it is reserved, unless it is over.
    fn rest(&self) -> u64 {
        self.granted.saturating_sub(self.charged)
    }

    fn is_reserved(&self) -> bool {
        matches!(self.state, State::Active | State::Held)
    }
}

/// The state of one meter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meter {
    pub(crate) counter: Counter,
    pub(crate) leases: BTreeMap<String, Lease>,
    /// From then on the meter is as good as a new one.
    pub(crate) keep_until_ms: u64,
}

impl Meter {
    /// Does one operation at `now_ms`. An earlier time than one that the meter has seen counts as
    /// that one.
    pub fn apply(&mut self, now_ms: u64, op: &LeaseOp, phase: Phase) -> LeaseState {
        let op = bounded(op);
        let now_ms = now_ms.max(self.counter.at_ms);
        match self.counter.roll(now_ms, &op.spec) {
            Rolled::OtherWindow => return nothing_done(now_ms),
            Rolled::NewWindow => self.leases.clear(),
            Rolled::Same => {}
        }
        let calendar = matches!(op.spec.kind, MeterKind::Calendar { .. });
        let (status, granted) = if calendar && op.window != 0 && op.window != self.counter.window {
            (LeaseStatus::WindowOver, 0)
        } else {
            if phase == Phase::Normal && now_ms > self.counter.due_ms {
                self.sweep(op.spec.on_expiry, calendar);
            }
            let known = self.leases.get(&op.lease).copied();
            let mut lease = known.unwrap_or_else(|| self.adopt(&op));
            let status = self.operate(&mut lease, &op, phase);
            self.leases.insert(op.lease.clone(), lease);
            (status, lease.granted)
        };
        self.keep_until_ms = now_ms + self.counter.keep_ms(&op.spec);
        self.state(status, granted, op.minimum.max(1))
    }

    /// As people are to see it.
    pub fn view(&self, meter: &str, now_ms: u64) -> MeterView {
        self.counter.view(meter, now_ms)
    }

    /// Ends the leases that were not refreshed, and forgets those that ended long ago.
    fn sweep(&mut self, on_expiry: OnExpiry, calendar: bool) {
        let Self { counter, leases, .. } = self;
        let now_ms = counter.at_ms;
        let mut due_ms = NEVER;
        leases.retain(|_, lease| {
            if lease.due_ms < now_ms {
                match (lease.state, on_expiry) {
                    (State::Active, OnExpiry::Hold) => {
                        counter.holders = counter.holders.saturating_sub(1);
                        (lease.state, lease.due_ms) = (State::Held, now_ms + DAY_MS);
                    }
                    (State::Active, OnExpiry::Return) => {
                        counter.holders = counter.holders.saturating_sub(1);
                        counter.release(lease.rest());
                        (lease.state, lease.due_ms) = (State::Over, now_ms + ENDED_KEPT_MS);
                    }
                    // Until the window ends.
                    (State::Held, _) if calendar => lease.due_ms = now_ms + DAY_MS,
                    (State::Held, _) => {
                        counter.release(lease.rest());
                        return false;
                    }
                    (State::Over | State::Closed, _) => return false,
                }
            }
            due_ms = due_ms.min(lease.due_ms);
            true
        });
        counter.due_ms = due_ms;
    }

    /// A lease that is not known. A holder that says it was granted something is believed: the
    /// ledger has lost it.
    fn adopt(&mut self, op: &LeaseOp) -> Lease {
        let granted = op.granted.max(op.charged);
        if granted > 0 {
            self.counter.reserve(granted - op.charged);
            self.counter.charge_late(op.charged - op.refunded);
        }
        self.counter.holders += 1;
        let (charged, refunded, seq) = (op.charged, op.refunded, op.seq);
        Lease { granted, charged, refunded, due_ms: NEVER, seq, state: State::Active }
    }

    fn operate(&mut self, lease: &mut Lease, op: &LeaseOp, phase: Phase) -> LeaseStatus {
        if op.seq < lease.seq {
            self.merge(lease, op);
            return LeaseStatus::Overtaken;
        }
        if lease.state == State::Active && op.granted > lease.granted {
            self.counter.reserve(op.granted - lease.granted);
            lease.granted = op.granted;
        }
        self.merge(lease, op);
        let status = if op.close {
            self.close(lease, op.seq)
        } else if lease.state == State::Active {
            lease.seq = op.seq;
            self.resize(lease, op, phase)
        } else {
            LeaseStatus::Expired
        };
        let lives = match lease.state {
            State::Active => op.spec.ttl_ms,
            State::Held => DAY_MS,
            State::Over | State::Closed => ENDED_KEPT_MS,
        };
        lease.due_ms = self.counter.at_ms + lives;
        self.counter.due_ms = self.counter.due_ms.min(lease.due_ms);
        status
    }

    /// Counts what was charged and taken back since the last report.
    fn merge(&mut self, lease: &mut Lease, op: &LeaseOp) {
        let more = op.charged.saturating_sub(lease.charged);
        if more > 0 {
            self.counter.charge(more);
            if lease.is_reserved() {
                self.counter.release(more.min(lease.rest()));
            }
            lease.charged = op.charged;
            lease.granted = lease.granted.max(op.charged);
        }
        let back = op.refunded.saturating_sub(lease.refunded);
        if back > 0 {
            self.counter.refund(back);
            lease.refunded = op.refunded;
        }
    }

    fn close(&mut self, lease: &mut Lease, seq: u64) -> LeaseStatus {
        if lease.is_reserved() {
            if lease.state == State::Active {
                self.counter.holders = self.counter.holders.saturating_sub(1);
            }
            self.counter.release(lease.rest());
            (lease.state, lease.seq) = (State::Closed, seq);
            return LeaseStatus::Granted;
        }
        // The very operation that closed it, again.
        if lease.state == State::Closed && lease.seq == seq {
            return LeaseStatus::Granted;
        }
        LeaseStatus::Expired
    }

    fn resize(&mut self, lease: &mut Lease, op: &LeaseOp, phase: Phase) -> LeaseStatus {
        if op.wanted <= lease.granted {
            let to = op.wanted.max(lease.charged);
            self.counter.release(lease.granted - to);
            lease.granted = to;
            return LeaseStatus::Granted;
        }
        if phase == Phase::Recovering {
            return LeaseStatus::Recovering;
        }
        let need = op.wanted - lease.granted;
        let free = self.counter.free().floor().max(0.0) as u64;
        let give = need.min(free);
        if give == need || give >= op.minimum {
            self.counter.reserve(give);
            lease.granted += give;
        }
        // By what the holder knows: it may not have heard of what was given before.
        if lease.granted >= op.wanted {
            LeaseStatus::Granted
        } else if lease.granted > op.granted {
            LeaseStatus::Partial
        } else {
            LeaseStatus::Denied
        }
    }

    fn state(&self, status: LeaseStatus, granted: u64, amount: u64) -> LeaseState {
        let counter = &self.counter;
        let calendar = counter.counting == super::counter::Counting::Calendar;
        let free = counter.free();
        LeaseState {
            status,
            granted,
            used: counter.used_up(),
            reserved: counter.reserved,
            holders: counter.holders,
            retry_ms: counter.retry_ms(amount),
            reset_ms: counter.reset_ms(),
            window: if calendar { counter.window } else { 0 },
            window_left_ms: counter.window_left(),
            only_reserved: free < amount as f64
                && counter.capacity as f64 - counter.weighted() - counter.used >= amount as f64,
            now_ms: counter.at_ms,
        }
    }
}

fn nothing_done(now_ms: u64) -> LeaseState {
    LeaseState {
        status: LeaseStatus::OtherWindow,
        granted: 0,
        used: 0,
        reserved: 0,
        holders: 0,
        retry_ms: 0,
        reset_ms: 0,
        window: 0,
        window_left_ms: 0,
        only_reserved: false,
        now_ms,
    }
}
