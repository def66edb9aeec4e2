//! Taking from every limit that is for a request: all, or none.

use std::{pin::pin, sync::Arc, sync::atomic::Ordering, time::Duration};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::{
    TokenRates,
    resource::limit::{Dimension, OnOutage, Reserve, Window},
    scope::Subject,
};
use sluicegate_protocol::quota::{Answer, Taken};
use tokio::time::{Instant, timeout_at};

use super::{
    LimitFacts, Quota, Reservation, Standings, Why,
    meter::{Meter, Named, window_name},
    reservation::Hold,
};
use crate::{
    estimate::Sizes,
    policy::{
        Policy,
        limits::{Rule, Who, charges_early},
    },
};

/// Longest wait for one answer of the control plane, should even its failure not be noticed.
const ANSWER: Duration = Duration::from_secs(1);

/// The wait that is advised where nobody can be asked at all.
const UNAVAILABLE_RETRY_MS: u64 = 1_000;
/// Longest wait that is advised while nobody can be asked: that may be over at any time.
const SHARE_RETRY_MS: u64 = 5_000;

/// A request as limits see it.
#[derive(Debug)]
pub struct Ask<'a> {
    pub who: Who<'a>,
    pub sizes: &'a mut Sizes,
    pub units: TokenRates,
    pub prices: TokenRates,
    /// Is it worth waiting for what others may give back? Not where there is another way.
    pub patient: bool,
    /// When the caller stops waiting, if it says so.
    pub deadline: Option<Instant>,
}

/// One meter that a request must take from.
pub(super) struct Wanted<'a> {
    pub(super) rule: &'a Arc<Rule>,
    pub(super) subject: Subject,
    pub(super) window: &'a Window,
    pub(super) meter: Arc<Meter>,
    pub(super) amount: u64,
}

/// A wanted amount that the holder knows of; it forgets when this is dropped.
struct Waiting<'a> {
    wanted: &'a Wanted<'a>,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.wanted.meter.with(|holder| holder.leave(self.wanted.amount));
    }
}

impl Ask<'_> {
    /// What a request of so many tokens comes to.
    fn amount(&self, dimension: Dimension, prompt: u64, output: u64) -> u64 {
        match dimension {
            Dimension::Requests | Dimension::Concurrency => 1,
            Dimension::Tokens => prompt.saturating_add(output),
            Dimension::Units => self.units.most(prompt, output),
            Dimension::Cost => self.prices.most(prompt, output),
        }
    }

    /// The longest answer that fits into `capacity` behind the prompt.
    fn room(&self, dimension: Dimension, capacity: u64, prompt: u64) -> u64 {
        let left = capacity.saturating_sub(self.amount(dimension, prompt, 0));
        let each = match dimension {
            Dimension::Tokens => return left,
            Dimension::Units => self.units.output.max(self.units.reasoning),
            Dimension::Cost => self.prices.output.max(self.prices.reasoning),
            Dimension::Requests | Dimension::Concurrency => 0,
        };
        left.saturating_mul(1000).checked_div(each).unwrap_or(u64::MAX)
    }

    /// Shortens an answer whose length the caller left open, so that the limits can hold it at all.
    fn fit(&mut self, wanted: &[Wanted<'_>]) {
        if self.sizes.capped {
            return;
        }
        let prompt = self.sizes.prompt();
        let room = wanted
            .iter()
            .filter(|wanted| {
                !wanted.rule.limit.shadow && wanted.rule.limit.dimension.measures_tokens()
            })
            .map(|wanted| self.room(wanted.rule.limit.dimension, wanted.window.capacity(), prompt))
            .min();
        if let Some(room) = room {
            self.sizes.output = self.sizes.output.min(room).max(self.sizes.generated);
        }
        self.sizes.send |= wanted.iter().any(|wanted| wanted.rule.limit.strict);
    }

    fn size(&self, rule: &Rule) -> u64 {
        if !rule.limit.dimension.measures_tokens() {
            return 1;
        }
        let output = match rule.limit.reserve {
            Reserve::Cap => self.sizes.output,
            Reserve::Expected => {
                self.sizes.expected.unwrap_or(self.sizes.output).min(self.sizes.output)
            }
        };
        self.amount(rule.limit.dimension, self.sizes.prompt(), output)
    }
}

impl Quota {
    /// Takes from every limit that is for the request. `of_attempt`: from those that ask where an
    /// attempt goes; else from the others.
    ///
    /// # Errors
    /// The facts of the limit that refused; nothing is taken then.
    pub async fn reserve(
        self: &Arc<Self>,
        policy: &Policy,
        ask: &mut Ask<'_>,
        of_attempt: bool,
    ) -> Result<Reservation, Box<LimitFacts>> {
        let matching = policy.limits.matching(&ask.who, of_attempt);
        if matching.is_empty() {
            return Ok(Reservation::default());
        }
        let mut wanted = Vec::with_capacity(matching.len());
        for (rule, subject) in matching {
            for (window, tag) in rule.windows(&subject) {
                let Some(meter) = self.meter(rule, &subject, &Named { window, tag }) else {
                    self.metrics.limit_refused(&rule.limit.name, rule.limit.dimension, false);
                    return Err(uncounted(rule, &subject, window));
                };
                wanted.push(Wanted { rule, subject: subject.clone(), window, meter, amount: 1 });
            }
        }
        if wanted.iter().any(|wanted| wanted.rule.limit.dimension.measures_tokens()) {
            ask.fit(&wanted);
        }
        for wanted in &mut wanted {
            wanted.amount = ask.size(wanted.rule);
            let refuses = !wanted.rule.limit.shadow;
            if wanted.amount > wanted.window.capacity() && refuses {
                return Err(self.refuse(wanted, Why::TooLarge));
            }
        }
        // Of a model without prices or weights, a request comes to nothing: there is nothing to ask.
        wanted.retain(|wanted| wanted.amount > 0);
        let mut outcome = self.take_all(&wanted, ask).await;
        let standings = match &mut outcome {
            Ok(reservation) => &mut reservation.standings,
            Err(facts) => &mut facts.standings,
        };
        wanted.iter().for_each(|wanted| wanted.stand(standings));
        outcome
    }

    async fn take_all(
        self: &Arc<Self>,
        wanted: &[Wanted<'_>],
        ask: &Ask<'_>,
    ) -> Result<Reservation, Box<LimitFacts>> {
        let mut reservation = Reservation::new(self, wanted.len());
        let paces = |wanted: &&Wanted<'_>| ask.patient && wanted.is_paced();
        // Who waits for its turn holds nothing that others could use meanwhile.
        for wanted in wanted.iter().filter(paces) {
            reservation.push(self.take_in_turn(wanted, ask.deadline).await?);
        }
        let now = boottime_ms();
        let mut missing = Vec::new();
        for wanted in wanted.iter().filter(|wanted| !paces(wanted)) {
            let lease = wanted.meter.lease();
            match lease.take(wanted.amount, now) {
                (Taken::Yes { .. }, low) => {
                    if low {
                        self.touch(&wanted.meter);
                    }
                    reservation.push(wanted.hold(lease));
                }
                (Taken::Short | Taken::Stale, _) => missing.push(wanted),
            }
        }
        let mut waiting = Vec::with_capacity(missing.len());
        for wanted in missing {
            if wanted.is_hopeless(now) {
                reservation.push(self.refused(wanted, Why::Exhausted)?);
                continue;
            }
            waiting.push(self.enter(wanted));
        }
        for waiting in waiting {
            let wanted = waiting.wanted;
            let hold = match self.wait_for(waiting, ask.patient).await {
                Ok(hold) => hold,
                Err(why) => self.refused(wanted, why)?,
            };
            reservation.push(hold);
        }
        Ok(reservation)
    }

    fn enter<'w>(self: &Arc<Self>, wanted: &'w Wanted<'w>) -> Waiting<'w> {
        let ticket = wanted.meter.with(|holder| holder.enter(wanted.amount));
        self.touch(&wanted.meter);
        Waiting { wanted, ticket }
    }

    /// Asks for the amount, and waits for the answer, or where it may be worth it, for what others give
    /// back.
    pub(super) async fn ask_for<'w>(self: &Arc<Self>, wanted: &'w Wanted<'w>) -> Result<Hold, Why> {
        self.wait_for(self.enter(wanted), false).await
    }

    /// Waits until the amount is there, or it is clear that it will not be.
    async fn wait_for(
        self: &Arc<Self>,
        mut waiting: Waiting<'_>,
        patient: bool,
    ) -> Result<Hold, Why> {
        let wanted = waiting.wanted;
        let begun = Instant::now();
        let patience = if patient { begun + wanted.rule.limit.wait } else { begun };
        let mut answer_by = begun + ANSWER;
        loop {
            let mut changed = pin!(wanted.meter.changed.notified());
            changed.as_mut().enable();
            let now = boottime_ms();
            let lease = wanted.meter.lease();
            if let (Taken::Yes { .. }, _) = lease.take_again(wanted.amount, now) {
                return Ok(wanted.hold(lease));
            }
            if !self.available.load(Ordering::Acquire) {
                return self.without(wanted);
            }
            match wanted.meter.with(|holder| holder.answer(waiting.ticket)) {
                Answer::NotYet => {}
                // A limit that the control plane does not know (any more, or yet) cannot be asked.
                Answer::Unavailable | Answer::Unknown => return self.without(wanted),
                answer @ (Answer::Given | Answer::Denied) => {
                    // Others may have taken what was granted for this one, and more may be there.
                    let more = answer == Answer::Given
                        && Instant::now() < begun + ANSWER
                        && wanted.is_free(now);
                    let waits = Instant::now() < patience && wanted.may_free_up(now);
                    if !more && !waits {
                        return Err(Why::Exhausted);
                    }
                    waiting.ticket = wanted.meter.with(|holder| {
                        holder.leave(wanted.amount);
                        holder.enter(wanted.amount)
                    });
                    answer_by = Instant::now() + ANSWER;
                }
            }
            if timeout_at(answer_by, changed).await.is_err() {
                return self.without(wanted);
            }
        }
    }

    /// Nobody can be asked.
    fn without(&self, wanted: &Wanted<'_>) -> Result<Hold, Why> {
        let limit = &wanted.rule.limit;
        let lets_through = match limit.on_outage {
            OnOutage::Allow => true,
            OnOutage::Deny => false,
            OnOutage::LastShare => {
                let most = u64::try_from(limit.outage_max.as_millis()).unwrap_or(u64::MAX);
                let held = wanted.meter.with(|holder| holder.held());
                wanted.meter.share(boottime_ms(), wanted.amount, most, held)
            }
        };
        if lets_through {
            self.metrics.limit_unasked(&limit.name);
            return Ok(wanted.force());
        }
        let deny = limit.on_outage == OnOutage::Deny;
        Err(if deny { Why::Unavailable } else { Why::ShareUsedUp })
    }

    /// Refuses, or where the limit only counts, takes all the same.
    pub(super) fn refused(&self, wanted: &Wanted<'_>, why: Why) -> Result<Hold, Box<LimitFacts>> {
        let limit = &wanted.rule.limit;
        self.metrics.limit_refused(&limit.name, limit.dimension, limit.shadow);
        if limit.shadow { Ok(wanted.force()) } else { Err(wanted.facts(why)) }
    }

    fn refuse(&self, wanted: &Wanted<'_>, why: Why) -> Box<LimitFacts> {
        let limit = &wanted.rule.limit;
        self.metrics.limit_refused(&limit.name, limit.dimension, false);
        wanted.facts(why)
    }
}

/// The refusal where no more subjects can be told apart.
fn uncounted(rule: &Rule, subject: &Subject, window: &Window) -> Box<LimitFacts> {
    let limit = &rule.limit;
    Box::new(LimitFacts {
        why: Why::Unavailable,
        limit: limit.name.clone(),
        scope: subject.to_string(),
        dimension: limit.dimension,
        window: window_name(window, limit.dimension),
        capacity: window.capacity(),
        used: 0,
        reserved: 0,
        remaining: 0,
        asked: 0,
        reset_ms: UNAVAILABLE_RETRY_MS,
        retry_ms: UNAVAILABLE_RETRY_MS,
        standings: Standings::default(),
    })
}

impl Wanted<'_> {
    pub(super) fn hold(&self, lease: Arc<sluicegate_protocol::quota::Lease>) -> Hold {
        Hold {
            meter: self.meter.clone(),
            lease,
            amount: self.amount,
            early: charges_early(&self.rule.limit, self.window),
            shown: self.is_shown(),
        }
    }

    /// Takes it whether it is there or not; the ledger hears of it.
    fn force(&self) -> Hold {
        let lease = self.meter.lease();
        lease.balance.force(self.amount);
        self.hold(lease)
    }

    fn is_hopeless(&self, now_ms: u64) -> bool {
        self.rule.limit.dimension == Dimension::Requests
            && self.meter.with(|holder| {
                holder.lease().balance.held() == 0 && holder.is_hopeless(now_ms, self.amount)
            })
    }

    /// Was the amount left when the ledger last told?
    fn is_free(&self, now_ms: u64) -> bool {
        self.meter.with(|holder| holder.view().is_some_and(|view| view.free(now_ms) >= self.amount))
    }

    /// Is it worth waiting a moment, because what others hold may come back?
    fn may_free_up(&self, now_ms: u64) -> bool {
        let early = charges_early(&self.rule.limit, self.window);
        if early && self.rule.limit.dimension.measures_tokens() {
            return true;
        }
        self.meter.with(|holder| {
            let view = holder.view();
            view.is_none_or(|view| view.fits_without_reservations(now_ms, self.amount))
        })
    }

    fn is_shown(&self) -> bool {
        let limit = &self.rule.limit;
        !limit.shadow && matches!(limit.dimension, Dimension::Requests | Dimension::Tokens)
    }

    /// Shows how close the caller is to it.
    fn stand(&self, standings: &mut Standings) {
        if self.is_shown()
            && let Some(standing) = self.meter.standing()
        {
            standings.note(self.rule.limit.dimension, standing);
        }
    }

    pub(super) fn facts(&self, why: Why) -> Box<LimitFacts> {
        let now = boottime_ms();
        let limit = &self.rule.limit;
        let capacity = self.window.capacity();
        let (used, reserved, remaining, reset_ms, retry_ms) = self.meter.with(|holder| {
            let own = holder.lease().balance.free().max(0).unsigned_abs();
            match holder.view() {
                None => (0, 0, 0, 1_000, 1_000),
                Some(view) => {
                    let used = view.used(now).min(capacity);
                    let remaining = view.free(now).saturating_add(own).min(capacity - used);
                    let waits_for_others = view.fits_without_reservations(now, self.amount);
                    let retry = view.retry_ms(now, self.amount);
                    let retry = if waits_for_others { retry.min(1_000) } else { retry };
                    let reserved = capacity - used - remaining;
                    (used, reserved, remaining, view.reset_ms(now), retry)
                }
            }
        });
        let (remaining, reserved, retry_ms) = match why {
            Why::Exhausted | Why::TooLarge => (remaining, reserved, retry_ms),
            Why::Unavailable => (remaining, reserved, UNAVAILABLE_RETRY_MS),
            // What others hold, nobody here can know.
            Why::ShareUsedUp => {
                (0, capacity - used, self.meter.share_retry_ms().min(SHARE_RETRY_MS))
            }
        };
        Box::new(LimitFacts {
            why,
            limit: limit.name.clone(),
            scope: self.subject.to_string(),
            dimension: limit.dimension,
            window: window_name(self.window, limit.dimension),
            capacity,
            used,
            reserved,
            remaining,
            asked: self.amount,
            reset_ms: reset_ms.max(retry_ms),
            retry_ms,
            standings: Standings::default(),
        })
    }
}
