//! Requests that wait for room at one target: bounded in length and time, fair, and without starvation.
//!
//! - Among classes the more urgent goes first, but of what goes while a less urgent one waits a tenth
//!   (by cost) is for the less urgent, and of that a tenth for those below.
//! - Within a class tenants share by weight and cost, each first come first served; see `queue/line.rs`.
//! - Nobody waits longer than it may, or for a turn that would come too late.
//! - While large requests wait for room, small ones can be asked for alone.

mod line;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use line::Line;

use crate::capacity::MAX_COST;
use crate::class::Class;

/// Bounds of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most requests that wait; 0: nobody does.
    pub length: usize,
    /// The most of them that one tenant may have, in percent; one at least. 100 where there is one tenant.
    pub tenant_percent: u8,
    /// Longest wait. Milliseconds.
    pub wait_ms: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { length: 1_000, tenant_percent: 50, wait_ms: 2_000 }
    }
}

/// Which requests are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    All,
    /// Those that were small when they came.
    Small,
}

/// A request that comes to wait.
#[derive(Debug)]
pub struct Newcomer<T> {
    pub tenant: Arc<str>,
    /// Its tenant's weight; 0 counts as 1.
    pub weight: u32,
    pub class: Class,
    /// What its tenant pays of its share. Tokens; at most [`MAX_COST`] count.
    pub cost: u64,
    /// What it will count for at the target. Tokens.
    pub room: u64,
    pub large: bool,
    /// When its answer must have begun. Milliseconds, in the time of `now_ms`.
    pub deadline_ms: u64,
    /// How long that takes once it goes, by all that is known. Milliseconds.
    pub service_ms: u64,
    /// Whatever wakes it.
    pub payload: T,
}

/// One that waits.
#[derive(Debug)]
pub struct Item<T> {
    pub tenant: Arc<str>,
    pub weight: u32,
    pub class: Class,
    pub cost: u64,
    pub room: u64,
    pub large: bool,
    pub entered_ms: u64,
    /// Until when it waits.
    pub until_ms: u64,
    /// When its answer must have begun.
    pub deadline_ms: u64,
    pub payload: T,
}

/// Names one that waits, as long as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    class: Class,
    sequence: u64,
}

/// Why a newcomer cannot wait; it is given back.
#[derive(Debug, thiserror::Error)]
pub enum PushError<T> {
    #[error("as many wait as may")]
    Full(T),
    #[error("as many of one tenant wait as may")]
    Tenant(T),
}

/// A place in the queue.
#[derive(Debug)]
pub struct Pushed<T> {
    pub ticket: Ticket,
    pub until_ms: u64,
    /// A less urgent one that had to go for it.
    pub displaced: Option<Item<T>>,
}

/// The queue; `T` is whatever wakes the one who waits.
#[derive(Debug)]
pub struct Queue<T> {
    bounds: Bounds,
    /// By class, the most urgent first.
    lines: [Line<T>; 4],
    /// What the classes below are owed by each.
    owed: [u64; 4],
    until: BTreeSet<(u64, Ticket)>,
    tenants: HashMap<Arc<str>, usize>,
    last: u64,
}

impl<T> Queue<T> {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lines: std::array::from_fn(|_| Line::default()),
            owed: [0; 4],
            until: BTreeSet::new(),
            tenants: HashMap::new(),
            last: 0,
        }
    }

    /// Takes other bounds. Who waits already stays for as long as it was told.
    pub fn set(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub fn len(&self) -> usize {
        self.until.len()
    }

    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether any wait of those asked for.
    pub fn has(&self, lanes: Lanes) -> bool {
        self.lines.iter().any(|line| line.has(lanes))
    }

    /// About how many go before a newcomer of such a class and tenant, and what room they need, in tokens:
    /// all that are more urgent, and of its own class what its tenant's share leaves to others.
    pub fn before(&self, class: Class, tenant: &Arc<str>, weight: u32) -> (f64, f64) {
        let urgent = Class::ALL.iter().zip(&self.lines).filter(|(of, _)| **of < class);
        let own =
            self.lines.get(class as usize).map_or((0.0, 0.0), |line| line.before(tenant, weight));
        urgent.fold(own, |(count, room), (_, line)| {
            (count + line.len() as f64, room + line.room() as f64)
        })
    }

    /// How long the one that waits longest has waited. Milliseconds.
    pub fn oldest_ms(&self, now_ms: u64) -> u64 {
        let since = self.lines.iter().filter_map(Line::oldest_ms).min();
        since.map_or(0, |since| now_ms.saturating_sub(since))
    }

    /// Whether the newest of a class go first now, as it has been late for a while.
    pub fn newest_first(&self, class: Class) -> bool {
        self.lines.get(class as usize).is_some_and(Line::newest_first)
    }

    /// Has a newcomer wait. Where as many wait as may, the newest of the least urgent class below its own
    /// has to go for it; where its tenant has as many as it may, one of its tenant.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn push(&mut self, newcomer: Newcomer<T>, now_ms: u64) -> Result<Pushed<T>, PushError<T>> {
        let percent = usize::from(self.bounds.tenant_percent.min(100));
        let most = (self.bounds.length.saturating_mul(percent) / 100).max(1);
        let own = self.tenants.get(&newcomer.tenant).is_some_and(|count| *count >= most);
        let displaced = if own {
            self.displace(newcomer.class, |line| line.newest_of(&newcomer.tenant))
        } else if self.len() >= self.bounds.length {
            self.displace(newcomer.class, Line::newest)
        } else {
            None
        };
        if displaced.is_none() {
            if own {
                return Err(PushError::Tenant(newcomer.payload));
            }
            if self.len() >= self.bounds.length {
                return Err(PushError::Full(newcomer.payload));
            }
        }
        self.last += 1;
        let ticket = Ticket { class: newcomer.class, sequence: self.last };
        let latest_ms = newcomer.deadline_ms.saturating_sub(newcomer.service_ms);
        let until_ms = now_ms.saturating_add(self.bounds.wait_ms).min(latest_ms);
        let item = Item {
            tenant: newcomer.tenant,
            weight: newcomer.weight,
            class: newcomer.class,
            cost: newcomer.cost.min(MAX_COST),
            room: newcomer.room.min(MAX_COST),
            large: newcomer.large,
            entered_ms: now_ms,
            until_ms,
            deadline_ms: newcomer.deadline_ms,
            payload: newcomer.payload,
        };
        *self.tenants.entry(Arc::clone(&item.tenant)).or_default() += 1;
        self.until.insert((until_ms, ticket));
        if let Some(line) = self.lines.get_mut(ticket.class as usize) {
            line.push(ticket.sequence, item);
            line.turn(now_ms);
        }
        Ok(Pushed { ticket, until_ms, displaced })
    }

    /// Whose turn it is.
    pub fn head(&self, lanes: Lanes) -> Option<(Ticket, &Item<T>)> {
        self.pick(&Class::ALL, lanes)
    }

    /// Takes out one that goes.
    pub fn serve(&mut self, ticket: Ticket, now_ms: u64) -> Option<Item<T>> {
        let line = self.lines.get_mut(ticket.class as usize)?;
        let item = line.serve(ticket.sequence)?;
        line.turn(now_ms);
        self.account(ticket.class, item.cost);
        self.left(ticket, &item);
        Some(item)
    }

    /// Takes out one that does not want to wait any more, or that must not; `None` if it does not wait.
    pub fn cancel(&mut self, ticket: Ticket, now_ms: u64) -> Option<Item<T>> {
        let line = self.lines.get_mut(ticket.class as usize)?;
        let item = line.remove(ticket.sequence)?;
        line.turn(now_ms);
        self.left(ticket, &item);
        Some(item)
    }

    /// Takes out one whose time to wait is over.
    pub fn expired(&mut self, now_ms: u64) -> Option<Item<T>> {
        let (until_ms, ticket) = *self.until.first()?;
        if until_ms > now_ms { None } else { self.cancel(ticket, now_ms) }
    }

    /// When the next one's time is over. Milliseconds.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.until.first().map(|(until_ms, _)| *until_ms)
    }

    /// Whose turn it is among these classes.
    fn pick(&self, classes: &[Class], lanes: Lanes) -> Option<(Ticket, &Item<T>)> {
        let (class, below) = classes.split_first()?;
        let lower = self.pick(below, lanes);
        let Some((sequence, item)) = self.lines.get(*class as usize)?.head(lanes) else {
            return lower;
        };
        let owed = self.owed.get(*class as usize).copied().unwrap_or(0);
        match lower {
            Some((ticket, item)) if owed >= item.cost.max(1) => Some((ticket, item)),
            _ => Some((Ticket { class: *class, sequence }, item)),
        }
    }

    /// One of this class goes. It owes a ninth of its cost to those below, which makes their tenth; and
    /// it was owed by those above.
    fn account(&mut self, served: Class, cost: u64) {
        let waiting: [bool; 4] =
            std::array::from_fn(|at| self.lines.get(at).is_some_and(|line| line.has(Lanes::All)));
        for (at, owed) in self.owed.iter_mut().enumerate() {
            let below = waiting.iter().skip(at + 1).any(|waits| *waits);
            if at < served as usize {
                *owed = owed.saturating_sub(cost.max(1));
            } else if at == served as usize {
                *owed = owed.saturating_add(cost.max(9) / 9);
            }
            // Nobody is there to be owed.
            if !below {
                *owed = 0;
            }
        }
    }

    fn left(&mut self, ticket: Ticket, item: &Item<T>) {
        self.until.remove(&(item.until_ms, ticket));
        if let Some(count) = self.tenants.get_mut(&item.tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(&item.tenant);
            }
        }
    }

    /// Takes out one of the least urgent class below this one.
    fn displace(
        &mut self,
        class: Class,
        which: impl Fn(&Line<T>) -> Option<u64>,
    ) -> Option<Item<T>> {
        let below = Class::ALL.into_iter().rev().take_while(|of| *of > class);
        let ticket = below.into_iter().find_map(|class| {
            let sequence = which(self.lines.get(class as usize)?)?;
            Some(Ticket { class, sequence })
        })?;
        let item = self.lines.get_mut(ticket.class as usize)?.remove(ticket.sequence)?;
        self.left(ticket, &item);
        Some(item)
    }
}

#[cfg(test)]
mod tests;
