//! Bursts over a rate, smoothed: who finds it used up waits its turn instead of being refused.
//!
//! Each meter has one line, first come first served. Only its head asks, and sleeps until the rate may have
//! room; whoever would have to wait for too long behind all the others is refused at once, and told how
//! long that would have been.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::resource::limit::Window;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use super::{LimitFacts, Quota, Why, acquire::Wanted, reservation::Hold};

/// Shortest sleep of the head, so that clocks that differ a little do not make it spin.
const NAP: Duration = Duration::from_millis(5);

/// Those that wait for one meter.
#[derive(Debug)]
pub(super) struct Line {
    /// Handed out in the order in which it was asked for.
    turn: Semaphore,
    /// What all of them want together.
    wanted: AtomicU64,
}

impl Default for Line {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), wanted: AtomicU64::new(0) }
    }
}

/// A place in the line, given up when dropped.
struct Place<'a> {
    line: &'a Line,
    amount: u64,
    /// What those before it want.
    ahead: u64,
}

impl Line {
    fn join(&self, amount: u64) -> Place<'_> {
        let ahead = self.wanted.fetch_add(amount, Ordering::AcqRel);
        Place { line: self, amount, ahead }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.wanted.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

impl Wanted<'_> {
    /// Are bursts over it smoothed?
    pub(super) fn is_paced(&self) -> bool {
        !self.rule.limit.pace.is_zero() && matches!(self.window, Window::Rate { .. })
    }

    /// How long until all before it, and then it, may have gone. Milliseconds.
    fn turn_ms(&self, ahead: u64) -> u64 {
        let all = ahead.saturating_add(self.amount);
        let capacity = self.window.capacity();
        let at_once = all.min(capacity);
        let now_ms = boottime_ms();
        // Of a meter that nobody has told of lately, all is there.
        let first_ms = self.meter.with(|holder| {
            let own = holder.lease().balance.free().max(0).unsigned_abs();
            let missing = at_once.saturating_sub(own);
            let view = holder.view().filter(|_| missing > 0);
            view.map_or(0, |view| view.retry_ms(now_ms, missing))
        });
        first_ms.saturating_add(self.time_for(all - at_once))
    }

    /// How long the rate needs for so much. Milliseconds.
    fn time_for(&self, amount: u64) -> u64 {
        let Window::Rate { window_s, amount: rate, .. } = self.window else { return 0 };
        let ms = u128::from(amount) * u128::from(*window_s) * 1000 / u128::from((*rate).max(1));
        u64::try_from(ms).unwrap_or(u64::MAX)
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

impl Quota {
    /// Takes the amount when its turn has come.
    ///
    /// # Errors
    /// The facts, where the turn would come too late; with the time until then.
    pub(super) async fn take_in_turn(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        deadline: Option<Instant>,
    ) -> Result<Hold, Box<LimitFacts>> {
        let line = &wanted.meter.line;
        let place = line.join(wanted.amount);
        let mut why = Why::Exhausted;
        if place.ahead == 0 {
            match self.ask_for(wanted).await {
                Ok(hold) => return Ok(hold),
                Err(found) => why = found,
            }
        }
        let turn_ms = wanted.turn_ms(place.ahead);
        let own = Instant::now() + wanted.rule.limit.pace;
        let until = deadline.map_or(own, |deadline| deadline.min(own));
        let too_late = Duration::from_millis(turn_ms) > left(until);
        // What cannot be asked has no turns.
        if why != Why::Exhausted || too_late {
            return self.refuse_turn(wanted, why, turn_ms);
        }
        let Ok(Ok(_turn)) = timeout_at(until, line.turn.acquire()).await else {
            return self.refuse_turn(wanted, why, turn_ms);
        };
        loop {
            match self.ask_for(wanted).await {
                Ok(hold) => return Ok(hold),
                Err(Why::Exhausted) => {}
                Err(why) => return self.refused(wanted, why),
            }
            let wait = Duration::from_millis(wanted.facts(Why::Exhausted).retry_ms).max(NAP);
            if wait > left(until) {
                return self.refused(wanted, Why::Exhausted);
            }
            sleep(wait).await;
        }
    }

    fn refuse_turn(
        &self,
        wanted: &Wanted<'_>,
        why: Why,
        turn_ms: u64,
    ) -> Result<Hold, Box<LimitFacts>> {
        self.refused(wanted, why).map_err(|mut facts| {
            facts.retry_ms = facts.retry_ms.max(turn_ms);
            facts.reset_ms = facts.reset_ms.max(facts.retry_ms);
            facts
        })
    }
}
