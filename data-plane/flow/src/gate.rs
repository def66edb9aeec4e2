//! The door of one target, for tasks: [`Admission`] behind one short lock.
//!
//! Who waits holds a channel through which its [`Guard`] comes. A guard that nobody receives any more drops,
//! which gives its room to the next: a waiter that is dropped, whenever, leaves nothing behind.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::admission::{Admission, Next, Refused, Request, View};
use crate::capacity::{self, Slot};
use crate::queue::{Bounds, Ticket};

/// Nobody waits longer.
const DAY: Duration = Duration::from_secs(86_400);

type Answer = Result<Guard, Refused>;
type Waiter = oneshot::Sender<Answer>;

/// A request that wants to go, and how.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub request: Request<'a>,
    /// When its answer must have begun.
    pub deadline: Instant,
    /// Whether it waits where it cannot go at once.
    pub wait: bool,
}

/// One target's door.
pub struct Gate {
    /// Zero of the milliseconds.
    since: Instant,
    admission: Mutex<Admission<Waiter>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Gate").field(&self.view()).finish()
    }
}

/// Room at a target, for as long as it is held.
#[derive(Debug)]
#[must_use = "dropping it gives the room back"]
pub struct Guard {
    gate: Arc<Gate>,
    /// `None` once it was given back.
    slot: Option<Slot>,
    entered_ms: u64,
}

/// A place among those who wait, which is left whatever happens to the one who has it.
struct Place<'a> {
    gate: &'a Arc<Gate>,
    ticket: Ticket,
}

impl Gate {
    pub fn new(capacity: capacity::Settings, queue: Bounds) -> Arc<Self> {
        let admission = Mutex::new(Admission::new(capacity, queue));
        Arc::new(Self { since: Instant::now(), admission })
    }

    /// Takes other settings. Nobody inside or waiting is disturbed; who fits now goes.
    pub fn set(self: &Arc<Self>, capacity: capacity::Settings, queue: Bounds) {
        self.change(self.now_ms(), |admission| admission.set(capacity, queue));
    }

    /// Goes in, or waits for it. The future may be dropped at any time.
    ///
    /// # Errors
    /// Why it may not, and when to come back.
    pub async fn enter(self: &Arc<Self>, ask: Ask<'_>) -> Result<Guard, Refused> {
        let now_ms = self.now_ms();
        let entered = self.lock().enter(&ask.request, now_ms);
        match entered {
            Ok(slot) => Ok(self.guard(slot, now_ms)),
            Err(_) if ask.wait => self.wait(&ask, now_ms).await,
            Err(refused) => Err(refused),
        }
    }

    /// Goes in, if it can at once.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn try_enter(self: &Arc<Self>, request: &Request<'_>) -> Result<Guard, Refused> {
        let now_ms = self.now_ms();
        let slot = self.lock().enter(request, now_ms)?;
        Ok(self.guard(slot, now_ms))
    }

    /// What there is to see of the target.
    pub fn view(&self) -> View {
        self.lock().view(self.now_ms())
    }

    async fn wait(self: &Arc<Self>, ask: &Ask<'_>, now_ms: u64) -> Result<Guard, Refused> {
        let deadline_ms = self.millis(ask.deadline);
        let (waiter, mut answer) = oneshot::channel();
        let waiting = self.change(now_ms, |admission| {
            admission.wait(&ask.request, deadline_ms, waiter, now_ms)
        })?;
        let place = Place { gate: self, ticket: waiting.ticket };
        if let Some((displaced, refused)) = waiting.displaced {
            // It may have gone by itself.
            drop(displaced.send(Err(refused)));
        }
        let longest = Duration::from_millis(waiting.until_ms.saturating_sub(now_ms)).min(DAY);
        let in_time = tokio::time::timeout(longest, &mut answer).await;
        // From here on nobody sends any more, but an answer may have come while this left.
        drop(place);
        match in_time {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => answer.try_recv().unwrap_or_else(|_| {
                let now_ms = self.now_ms();
                Err(Refused::Late { wait_ms: self.lock().wait_ms(&ask.request, now_ms) })
            }),
        }
    }

    /// Changes something, and tells those for whom that made room.
    fn change<R>(
        self: &Arc<Self>,
        now_ms: u64,
        change: impl FnOnce(&mut Admission<Waiter>) -> R,
    ) -> R {
        let mut told = Vec::new();
        let result = {
            let mut admission = self.lock();
            let result = change(&mut admission);
            told.extend(std::iter::from_fn(|| admission.next(now_ms)));
            result
        };
        self.tell(told, now_ms);
        result
    }

    /// Tells all these. The room of one that left in this very moment is for the next: that is seen to
    /// here, and not when its guard drops, so that a crowd that leaves at once is a loop and no recursion.
    fn tell(self: &Arc<Self>, mut told: Vec<Next<Waiter>>, now_ms: u64) {
        while let Some(next) = told.pop() {
            let unheard = match next {
                Next::Go(waiter, slot) => waiter.send(Ok(self.guard(slot, now_ms))).err(),
                Next::Refused(waiter, refused) => waiter.send(Err(refused)).err(),
            };
            if let Some(slot) = unheard.and_then(Result::ok).and_then(|mut guard| guard.slot.take())
            {
                let mut admission = self.lock();
                admission.leave(slot, 0, now_ms);
                told.extend(std::iter::from_fn(|| admission.next(now_ms)));
            }
        }
    }

    fn guard(self: &Arc<Self>, slot: Slot, now_ms: u64) -> Guard {
        Guard { gate: Arc::clone(self), slot: Some(slot), entered_ms: now_ms }
    }

    /// A panic elsewhere leaves the accounts whole: they are changed by code that does not panic.
    fn lock(&self) -> MutexGuard<'_, Admission<Waiter>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.millis(Instant::now())
    }

    fn millis(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.since).as_millis();
        u64::try_from(passed).unwrap_or(u64::MAX)
    }
}

impl Guard {
    /// The upstream said that it has too much: 429, 503, or "overloaded" in whatever words.
    pub fn refused(&self) {
        let now_ms = self.gate.now_ms();
        self.gate.lock().refused(now_ms);
    }

    /// The first meaningful event came after so many milliseconds, to a prompt of so many tokens.
    pub fn first_event(&self, took_ms: u64, prompt_tokens: u64) {
        let now_ms = self.gate.now_ms();
        self.gate.lock().first_event(took_ms, prompt_tokens, now_ms);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let now_ms = self.gate.now_ms();
            let stayed_ms = now_ms.saturating_sub(self.entered_ms);
            self.gate.change(now_ms, |admission| admission.leave(slot, stayed_ms, now_ms));
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let now_ms = self.gate.now_ms();
        // Whoever stood behind it may fit where it did not.
        drop(self.gate.change(now_ms, |admission| admission.cancel(self.ticket, now_ms)));
    }
}

#[cfg(test)]
mod tests;
