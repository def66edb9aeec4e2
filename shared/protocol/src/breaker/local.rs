//! The breaker of one target on one data plane.

mod check;
mod force;
mod orders;
mod phase;
mod probe;
mod ticket;

use std::sync::Arc;

use super::{
    Changed, Probe, Reason, Rules, State, Transition, Window,
    backoff::Backoff,
    dice::Dice,
    evidence::{Evidence, Failure},
    history::{History, Size},
    settings::RAMP,
};
use orders::Heard;
use phase::Phase;
use probe::Permit;
use ticket::PermitId;
pub use ticket::{End, Ticket};

/// A suspicion lasts at least so long. Milliseconds.
const SUSPECT_MS: u64 = 5_000;
/// Whoever is refused and cannot be told better may ask again after this time. Milliseconds.
const ASK_AGAIN_MS: u64 = 1_000;
/// So long after a call was refused for want of a probe, one is wished for. Milliseconds.
const WISH_MS: u64 = 2_000;
/// The short window that is reported. Milliseconds.
const RECENT_MS: u64 = 5_000;
/// With fewer failures traffic that comes back is not stopped. One engine that dies is enough.
const RAMP_FAILURES: u32 = 3;

/// The breaker of one target on one data plane.
///
/// It opens by what its own node saw, at once and without asking, and what it opened alone it probes
/// alone. While the fleet gives orders it follows them; when they end it goes on by itself from where
/// it is.
#[derive(Debug, Clone)]
pub struct Local {
    rules: Arc<Rules>,
    dice: Dice,
    evidence: Evidence,
    history: History,
    phase: Phase,
    reason: Reason,
    /// Grows whenever it opens or half-opens: what was sent before says nothing of what comes after.
    generation: u64,
    backoff: Backoff,
    orders: Option<orders::Orders>,
    /// The policy's own word, above every order.
    forced: Option<orders::Orders>,
    heard: Option<Heard>,
    granted: Option<Heard>,
    permit: Option<Permit>,
    permits: u64,
    /// Nodes of the fleet; `away`: no control plane is heard.
    nodes: u32,
    away: bool,
    in_flight: u32,
    wished_ms: Option<u64>,
    seq: u64,
}

/// Whether a call may be sent, and what the question changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Admission {
    pub answer: Result<Ticket, Refused>,
    pub changed: Changed,
}

/// A call that must not be sent to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the target is {state}: {reason}")]
pub struct Refused {
    pub state: State,
    /// When it may be worth to ask again.
    pub left_ms: u64,
    pub reason: Reason,
}

impl Local {
    /// A closed breaker. `seed` spreads its times apart from those of other nodes.
    pub fn new(rules: Arc<Rules>, seed: u64) -> Self {
        Self {
            evidence: Evidence::new(&rules),
            rules,
            dice: Dice::new(seed),
            history: History::default(),
            phase: Phase::Closed,
            reason: Reason::Well,
            generation: 0,
            backoff: Backoff::default(),
            orders: None,
            forced: None,
            heard: None,
            granted: None,
            permit: None,
            permits: 0,
            nodes: 1,
            away: true,
            in_flight: 0,
            wished_ms: None,
            seq: 0,
        }
    }

    /// The policy changed. The counts begin anew; the state stays, unless the breaker is off now.
    pub fn set_rules(&mut self, rules: Arc<Rules>, now_ms: u64) -> Changed {
        if self.rules == rules {
            return Changed::default();
        }
        self.evidence = Evidence::new(&rules);
        self.rules = rules;
        let off = self.rules.off && self.is_free() && self.phase != Phase::Closed;
        if off { self.close(Reason::Operator, now_ms).into() } else { Changed::default() }
    }

    /// The control plane is there, and the fleet has so many nodes.
    pub fn fleet_present(&mut self, nodes: u32) {
        self.nodes = nodes.max(1);
        self.away = false;
    }

    /// No control plane is heard. Orders hold until their time is over.
    pub fn fleet_away(&mut self) {
        self.away = true;
    }

    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// Why it is in its state.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Calls that were let in and have not ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Share of its weight with which a target is to be chosen. A ramp's share is not in it:
    /// [`Local::admit`] counts that out.
    pub fn weight_percent(&self) -> u8 {
        match self.phase {
            Phase::Closed | Phase::Ramping(_) => 100,
            Phase::Suspect { .. } => 50,
            Phase::Open { .. } | Phase::HalfOpen { .. } => 0,
        }
    }

    /// May a call be sent? `prompt_tokens` decide when its first event is slow. What is let in must
    /// [end](Local::ended), once.
    pub fn admit(&mut self, prompt_tokens: u64, now_ms: u64) -> Admission {
        let changed = self.tick(now_ms);
        let permit = self.take_permit(now_ms);
        let answer = match self.refuses(permit, now_ms) {
            Some(refused) => Err(refused),
            None => Ok(self.ticket(permit, prompt_tokens, now_ms)),
        };
        Admission { answer, changed }
    }

    /// Why a call is refused that has this permit.
    fn refuses(&mut self, permit: Option<PermitId>, now_ms: u64) -> Option<Refused> {
        if permit.is_some() {
            return None;
        }
        let (state, idle) = (self.state(), self.in_flight == 0);
        match &mut self.phase {
            Phase::Closed | Phase::Suspect { .. } => None,
            Phase::Open { until_ms } => {
                let left_ms = until_ms.saturating_sub(now_ms);
                Some(Refused { state, left_ms, reason: self.reason })
            }
            Phase::HalfOpen { .. } => {
                self.wished_ms = Some(now_ms);
                let answered = self.permit.as_ref().map(|permit| permit.left_ms(now_ms));
                let left_ms = answered.unwrap_or(ASK_AGAIN_MS);
                Some(Refused { state, left_ms, reason: Reason::AwaitsProbe })
            }
            Phase::Ramping(ramp) => {
                let reason = Reason::Share { percent: ramp.percent };
                (!ramp.takes(idle, now_ms)).then_some(Refused {
                    state,
                    left_ms: ASK_AGAIN_MS,
                    reason,
                })
            }
        }
    }

    fn ticket(&mut self, permit: Option<PermitId>, prompt_tokens: u64, now_ms: u64) -> Ticket {
        let size = Size::of(prompt_tokens);
        let slow_after = self.rules.slow_after;
        let more_ms = prompt_tokens.saturating_mul(slow_after.per_1k_prompt_tokens_ms) / 1_000;
        let usual_ms = self.history.p95_ms(size, now_ms).unwrap_or(0).saturating_mul(3);
        self.in_flight = self.in_flight.saturating_add(1);
        self.evidence.started(now_ms);
        Ticket {
            generation: self.generation,
            permit,
            started_ms: now_ms,
            slow_after_ms: slow_after.base_ms.saturating_add(more_ms).max(usual_ms),
            size,
            first_ms: None,
            late: false,
        }
    }

    /// No first event has come within [`Ticket::slow_after_ms`]: counts as slow without waiting for
    /// its end. Not needed, but sooner.
    pub fn late(&mut self, ticket: &mut Ticket, now_ms: u64) -> Changed {
        if ticket.late || ticket.first_ms.is_some() {
            return Changed::default();
        }
        ticket.late = true;
        if ticket.generation == self.generation {
            self.evidence.timed(true, &self.rules, now_ms);
        }
        self.weighed(*ticket, Probe::Failed, None, now_ms)
    }

    /// The first event came. Answers a probe; the ticket remembers it for its end.
    pub fn first_event(&mut self, ticket: &mut Ticket, now_ms: u64) -> Changed {
        let took_ms = now_ms.saturating_sub(ticket.started_ms);
        self.answered(ticket, took_ms, now_ms)
    }

    /// As [`Local::first_event`], where it is known by other means how long the first event took: an
    /// answer that comes all at once has been generated in the meantime.
    pub fn answered(&mut self, ticket: &mut Ticket, took_ms: u64, now_ms: u64) -> Changed {
        if ticket.first_ms.is_some() {
            return Changed::default();
        }
        ticket.first_ms = Some(now_ms);
        let slow = ticket.late || took_ms > ticket.slow_after_ms;
        self.history.note(ticket.size, took_ms, now_ms);
        if ticket.generation == self.generation {
            if !ticket.late {
                self.evidence.timed(slow, &self.rules, now_ms);
            }
            self.evidence.answered(now_ms);
        }
        let probe = if slow { Probe::Failed } else { Probe::Ok };
        self.weighed(*ticket, probe, None, now_ms)
    }

    /// The call has ended. What began before the breaker last opened or half-opened changes nothing.
    pub fn ended(&mut self, ticket: Ticket, end: End, now_ms: u64) -> Changed {
        self.in_flight = self.in_flight.saturating_sub(1);
        if ticket.generation == self.generation {
            self.count(ticket, end, now_ms);
        }
        let probe = match end {
            End::Success => Probe::Ok,
            End::Neutral => Probe::Unused,
            _ => Probe::Failed,
        };
        self.weighed(ticket, probe, Some(end), now_ms)
    }

    fn count(&mut self, ticket: Ticket, end: End, now_ms: u64) {
        let failure = match end {
            End::Success => {
                self.evidence.completed();
                if ticket.first_ms.is_none() {
                    self.evidence.answered(now_ms);
                }
                return;
            }
            End::Neutral | End::RateLimited => {
                if ticket.first_ms.is_none() {
                    self.evidence.unstarted(ticket.started_ms);
                }
                return;
            }
            End::Hard | End::TimedOut | End::Truncated => Failure::Hard,
            End::Stalled => Failure::Stalled,
            End::OutOfMemory => Failure::Memory,
            End::EngineDead => Failure::Dead,
        };
        if end == End::TimedOut && !ticket.late && ticket.first_ms.is_none() {
            self.evidence.timed(true, &self.rules, now_ms);
        }
        self.evidence.failed(failure, ticket.first_ms, now_ms);
    }

    /// Draws the conclusions from what a call has shown.
    fn weighed(&mut self, of: Ticket, probe: Probe, end: Option<End>, now_ms: u64) -> Changed {
        let changed =
            if self.is_probe(of) { self.probed(probe, now_ms) } else { Changed::default() };
        if of.generation != self.generation || changed.transition.is_some() {
            return changed;
        }
        changed.then(self.judged(end, now_ms).into())
    }

    /// Opens, or suspects, if that is what the node saw.
    fn judged(&mut self, end: Option<End>, now_ms: u64) -> Option<Transition> {
        if self.rules.off || self.is_forced() {
            return None;
        }
        match &mut self.phase {
            Phase::Open { .. } | Phase::HalfOpen { .. } => None,
            Phase::Ramping(_) => {
                let reason = match end {
                    Some(End::EngineDead) => Some(Reason::EngineDead),
                    Some(End::OutOfMemory) => {
                        let window_ms = self.rules.memory_errors.window_ms;
                        Some(Reason::MemoryErrors { count: 1, window_ms })
                    }
                    _ => self.ramp_fails(now_ms),
                };
                let reason = reason.or_else(|| self.evidence.opens(&self.rules, now_ms))?;
                self.trip(reason, now_ms)
            }
            Phase::Closed | Phase::Suspect { .. } => {
                let dead = end == Some(End::EngineDead) && self.rules.engine_dead;
                let opens = dead.then_some(Reason::EngineDead);
                if let Some(reason) = opens.or_else(|| self.evidence.opens(&self.rules, now_ms)) {
                    return self.trip(reason, now_ms);
                }
                let reason = self.evidence.suspects(&self.rules, now_ms)?;
                let until_ms = now_ms.saturating_add(SUSPECT_MS);
                // Of a split view the reason stays.
                let reason = if self.orders.is_some() { self.reason } else { reason };
                self.go(Phase::Suspect { until_ms }, reason)
            }
        }
    }

    fn ramp_fails(&self, now_ms: u64) -> Option<Reason> {
        let counts = self.evidence.counts(self.rules.ramp.step_ms, now_ms);
        let fails =
            counts.failed >= RAMP_FAILURES && counts.failure_ratio() > self.rules.ramp.reopen_ratio;
        fails.then_some(Reason::RampFailed { failed: counts.failed, of: counts.attempts() })
    }

    /// What time alone changes. To be asked about once a second; [`Local::admit`] asks, too.
    pub fn tick(&mut self, now_ms: u64) -> Changed {
        self.orders.take_if(|orders| orders.until_ms <= now_ms);
        let changed = self.permit_expired(now_ms);
        if self.forced.is_some_and(|forced| forced.until_ms > now_ms) {
            return changed;
        }
        if self.forced.is_some() {
            return changed.then(self.unforced(now_ms).into());
        }
        let transition = match &self.orders {
            Some(orders) => {
                let order = orders.order;
                // It saw the target well and goes on doing so, or does as it is told.
                let split = matches!(self.phase, Phase::Suspect { .. });
                if split { self.apply(order, now_ms) } else { None }
            }
            None => self.goes_on(now_ms),
        };
        changed.then(transition.into())
    }

    /// What time changes while nobody gives orders.
    fn goes_on(&mut self, now_ms: u64) -> Option<Transition> {
        match &mut self.phase {
            Phase::Suspect { until_ms } if *until_ms <= now_ms => {
                if self.evidence.suspects(&self.rules, now_ms).is_some() {
                    *until_ms = now_ms.saturating_add(SUSPECT_MS);
                    return None;
                }
                self.close(Reason::Well, now_ms)
            }
            Phase::Open { until_ms } if *until_ms <= now_ms => {
                self.half_open(Reason::OpenTimeOver, now_ms)
            }
            Phase::HalfOpen { draw_ms, drawn } if self.away && *draw_ms <= now_ms => {
                *drawn = self.dice.one_in(self.nodes);
                *draw_ms = now_ms.saturating_add(self.rules.open_ms);
                None
            }
            Phase::Ramping(_) => self.ramp_goes_on(now_ms),
            _ => None,
        }
    }

    fn ramp_goes_on(&mut self, now_ms: u64) -> Option<Transition> {
        let rules = self.rules.clone();
        let counts = self.evidence.counts(rules.ramp.step_ms, now_ms);
        let Phase::Ramping(ramp) = &mut self.phase else { return None };
        while now_ms.saturating_sub(ramp.since_ms) >= rules.ramp.step_ms {
            if !rules.ramp.goes_on(&counts) {
                ramp.since_ms = now_ms;
                return None;
            }
            let Some(percent) = RAMP.into_iter().find(|percent| *percent > ramp.percent) else {
                return self.close(Reason::RampDone, now_ms);
            };
            ramp.percent = percent;
            ramp.since_ms = ramp.since_ms.saturating_add(rules.ramp.step_ms);
        }
        None
    }

    /// What the node tells the fleet about once a second, and at once after a change.
    pub fn window(&mut self, now_ms: u64) -> Window {
        self.seq = self.seq.saturating_add(1);
        Window {
            seq: self.seq,
            state: self.state(),
            own: self.is_free(),
            fatal: self.state() == State::Open && self.is_free() && self.reason.is_fatal(),
            split: matches!(self.reason, Reason::SplitView { .. }),
            generation: self.generation,
            heard: self.heard.map_or(0, |heard| heard.generation),
            waiting: self.wished_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < WISH_MS),
            in_flight: self.in_flight,
            recent: self.evidence.counts(RECENT_MS, now_ms),
            long: self.evidence.long(now_ms),
        }
    }
}
