//! Who may go to a target, and when: its capacity and its queue as one state machine.
//!
//! No clock, no task: the caller brings the time, and after whatever may have made room takes
//! [`Admission::next`] until there is none. `T` is whatever wakes one who waits.

use std::sync::Arc;

use crate::capacity::{self, Capacity, Limits, Load, Slot};
use crate::class::Class;
use crate::leaving::{Crowd, Leaving};
use crate::queue::{Bounds, Item, Lanes, Newcomer, PushError, Queue, Ticket};

/// What one time to the first event weighs in the usual one.
const WEIGHT: f64 = 1.0 / 16.0;

/// A request that wants to go to a target.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who shares with others by weight.
    pub tenant: &'a Arc<str>,
    /// Its share against those of others; 0 counts as 1.
    pub weight: u32,
    pub class: Class,
    /// Tokens of the prompt, and those that may be generated.
    pub cost: u64,
}

/// Why one may not go. `wait_ms`: when it makes sense to come back, by the rate at which requests leave the
/// target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No room, and it does not want to wait.
    #[error("the target is full for some {wait_ms} ms")]
    Full { wait_ms: u64 },
    /// Its turn did not come, or would not come, in time.
    #[error("the target has no room in time, but in some {wait_ms} ms")]
    Late { wait_ms: u64 },
    /// As many wait as may, in all or of its tenant; or a more urgent one took its place.
    #[error("too many wait for the target, for some {wait_ms} ms")]
    Crowded { wait_ms: u64 },
}

impl Refused {
    /// When it makes sense to come back. Milliseconds.
    pub fn wait_ms(self) -> u64 {
        match self {
            Self::Full { wait_ms } | Self::Late { wait_ms } | Self::Crowded { wait_ms } => wait_ms,
        }
    }
}

/// One that waits now.
#[derive(Debug)]
pub struct Waiting<T> {
    pub ticket: Ticket,
    /// Until when, in milliseconds: then [`Admission::next`] says that it is late.
    pub until_ms: u64,
    /// Another that had to go for it, and what it is to be told.
    pub displaced: Option<(T, Refused)>,
}

/// What one who waited is to be told.
#[derive(Debug)]
pub enum Next<T> {
    Go(T, Slot),
    Refused(T, Refused),
}

/// What there is to see of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    pub used: Load,
    pub limits: Limits,
    pub waiting: usize,
    /// How long the one has waited that waits longest.
    pub oldest_ms: u64,
}

/// Capacity and queue of one target.
#[derive(Debug)]
pub struct Admission<T> {
    capacity: Capacity,
    queue: Queue<T>,
    leaving: Leaving,
    first_event_ms: f64,
}

impl<T> Admission<T> {
    pub fn new(capacity: capacity::Settings, queue: Bounds) -> Self {
        Self {
            capacity: Capacity::new(capacity),
            queue: Queue::new(queue),
            leaving: Leaving::default(),
            first_event_ms: 0.0,
        }
    }

    /// Takes other settings; nobody inside or waiting is touched.
    pub fn set(&mut self, capacity: capacity::Settings, queue: Bounds) {
        self.capacity.set(capacity);
        self.queue.set(queue);
    }

    /// Goes at once, if there is room that nobody waits for.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn enter(&mut self, request: &Request<'_>, now_ms: u64) -> Result<Slot, Refused> {
        let slot = if self.queue.is_empty() {
            self.capacity.try_take(request.cost, now_ms)
        } else if self.queue.has(Lanes::Small) {
            None
        } else {
            // Only large ones wait; a small one is not in their way.
            self.capacity.try_take_beside(request.cost, now_ms)
        };
        let Some(slot) = slot else {
            self.leaving.full(now_ms);
            return Err(Refused::Full { wait_ms: self.wait_ms(request, now_ms) });
        };
        self.leaving.entered(now_ms);
        Ok(slot)
    }

    /// Waits for room, after [`Admission::enter`] found none; not beyond `deadline_ms`, when its answer must
    /// have begun.
    ///
    /// # Errors
    /// [`Refused::Late`] if by all that is known its turn would come too late, [`Refused::Crowded`] if it
    /// has no place.
    pub fn wait(
        &mut self,
        request: &Request<'_>,
        deadline_ms: u64,
        payload: T,
        now_ms: u64,
    ) -> Result<Waiting<T>, Refused> {
        let wait_ms = self.wait_ms(request, now_ms);
        if self.in_vain(request, deadline_ms, now_ms) {
            return Err(Refused::Late { wait_ms });
        }
        let newcomer = Newcomer {
            tenant: Arc::clone(request.tenant),
            weight: request.weight,
            class: request.class,
            cost: request.cost,
            room: self.capacity.counts_for(request.cost),
            large: self.capacity.is_large(request.cost),
            deadline_ms,
            service_ms: self.service_ms(),
            payload,
        };
        let pushed = self.queue.push(newcomer, now_ms).map_err(|error| match error {
            PushError::Full(_) | PushError::Tenant(_) => Refused::Crowded { wait_ms },
        })?;
        let displaced = pushed.displaced.map(|item| {
            let wait_ms = self.wait_ms(&asked(&item), now_ms);
            (item.payload, Refused::Crowded { wait_ms })
        });
        Ok(Waiting { ticket: pushed.ticket, until_ms: pushed.until_ms, displaced })
    }

    /// One who waits does not any more; `None` if it does not wait.
    pub fn cancel(&mut self, ticket: Ticket, now_ms: u64) -> Option<T> {
        self.queue.cancel(ticket, now_ms).map(|item| item.payload)
    }

    /// A request that stayed so long is over.
    pub fn leave(&mut self, slot: Slot, stayed_ms: u64, now_ms: u64) {
        self.leaving.left(slot.tokens(), stayed_ms, !self.queue.is_empty(), now_ms);
        self.capacity.give_back(slot);
    }

    /// See [`Capacity::refused`].
    pub fn refused(&mut self, now_ms: u64) {
        self.capacity.refused(now_ms);
    }

    /// See [`Capacity::first_event`].
    pub fn first_event(&mut self, took_ms: u64, prompt_tokens: u64, now_ms: u64) {
        self.first_event_ms += (took_ms as f64 - self.first_event_ms) * WEIGHT;
        self.capacity.first_event(took_ms, prompt_tokens, now_ms);
    }

    /// The next one who is to be told something. After each change it is taken until there is none.
    pub fn next(&mut self, now_ms: u64) -> Option<Next<T>> {
        if let Some(item) = self.queue.expired(now_ms) {
            let wait_ms = self.wait_ms(&asked(&item), now_ms);
            return Some(Next::Refused(item.payload, Refused::Late { wait_ms }));
        }
        let (ticket, head) = self.queue.head(Lanes::All)?;
        // The usual time may have become longer since it came.
        if now_ms.saturating_add(self.service_ms()) > head.deadline_ms {
            let item = self.queue.cancel(ticket, now_ms)?;
            let wait_ms = self.wait_ms(&asked(&item), now_ms);
            return Some(Next::Refused(item.payload, Refused::Late { wait_ms }));
        }
        if let Some(slot) = self.capacity.try_take(head.cost, now_ms) {
            return self.go(ticket, slot, now_ms);
        }
        if !head.large {
            return None;
        }
        // A large one gets room by and by. Meanwhile small ones pass, in the share that is theirs.
        let (ticket, head) = self.queue.head(Lanes::Small)?;
        let slot = self.capacity.try_take_beside(head.cost, now_ms)?;
        self.go(ticket, slot, now_ms)
    }

    /// What there is to see.
    pub fn view(&self, now_ms: u64) -> View {
        View {
            used: self.capacity.used(),
            limits: self.capacity.limits(),
            waiting: self.queue.len(),
            oldest_ms: self.queue.oldest_ms(now_ms),
        }
    }

    /// How long such a request would wait if it came now. Milliseconds.
    pub fn wait_ms(&self, request: &Request<'_>, now_ms: u64) -> u64 {
        let (before, inside, by_tokens) = self.crowd(request);
        self.leaving.wait_ms(before, inside, by_tokens, now_ms)
    }

    fn go(&mut self, ticket: Ticket, slot: Slot, now_ms: u64) -> Option<Next<T>> {
        match self.queue.serve(ticket, now_ms) {
            Some(item) => {
                self.leaving.entered(now_ms);
                Some(Next::Go(item.payload, slot))
            }
            None => {
                self.capacity.give_back(slot);
                None
            }
        }
    }

    /// The usual time to a first event. Milliseconds.
    fn service_ms(&self) -> u64 {
        self.first_event_ms as u64
    }

    /// Whether waiting makes no sense: there is no time left, or the line is twice as long as it may wait
    /// (estimates err). Where the newest go first the line says nothing.
    fn in_vain(&self, request: &Request<'_>, deadline_ms: u64, now_ms: u64) -> bool {
        let left_ms = deadline_ms.saturating_sub(now_ms).saturating_sub(self.service_ms());
        let left_ms = left_ms.min(self.queue.bounds().wait_ms);
        let (before, inside, by_tokens) = self.crowd(request);
        let wait_ms = self.leaving.estimate_ms(before, inside, by_tokens, now_ms);
        left_ms == 0
            || !self.queue.newest_first(request.class)
                && wait_ms.is_some_and(|wait_ms| wait_ms > 2.0 * left_ms as f64)
    }

    /// What is before a newcomer, with itself; what is inside; whether tokens are limited.
    fn crowd(&self, request: &Request<'_>) -> (Crowd, Crowd, bool) {
        let (requests, tokens) = self.queue.before(request.class, request.tenant, request.weight);
        let own = self.capacity.counts_for(request.cost);
        let (used, limits) = (self.capacity.used(), self.capacity.limits());
        // The bound may have come down since they went in.
        let beyond = limits.requests.map_or(0, |most| used.requests.saturating_sub(most));
        (
            Crowd { requests: requests + beyond as f64 + 1.0, tokens: tokens + own as f64 },
            Crowd { requests: used.requests as f64, tokens: used.tokens as f64 },
            limits.tokens.is_some(),
        )
    }
}

/// What one that waited had asked for.
fn asked<T>(item: &Item<T>) -> Request<'_> {
    Request { tenant: &item.tenant, weight: item.weight, class: item.class, cost: item.cost }
}

#[cfg(test)]
mod tests;
