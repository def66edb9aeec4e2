//! How much one target may have in flight, in requests and in tokens.
//!
//! Maxima are either set, or found out by additive increase and multiplicative decrease, which is what
//! brings several that share something to fair and efficient shares (Chiu and Jain, "Analysis of the
//! increase and decrease algorithms for congestion avoidance", Computer Networks and ISDN Systems 17,
//! 1989): data planes that share an upstream need not know of each other.
//!
//! - A window without refusals, in which the limit was in use, adds a request (in tokens: what one costs on
//!   average), or 2 % if that is more.
//! - A 429, a 503 or "overloaded", or times to the first event twice the usual, leave 0.7 of it; once in
//!   a window, as what comes within one window tells the same thing.
//! - Nothing is limited until the upstream refuses. Then the limit begins at 0.7 of what was in flight.
//!
//! Large requests shall not keep small ones out. A request is large that costs more than the share kept for
//! small ones (a quarter of the token limit). The large together never have more than the rest, and one that is
//! larger than that runs when no other large one does: alone among the large, rather than never.

mod limit;
mod slowness;

use std::num::NonZeroU64;

use limit::Limit;
use slowness::Slowness;

/// No request counts for more, so that sums of costs stay numbers. Tokens.
pub const MAX_COST: u64 = 1 << 40;

/// Limits of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most requests at once. With adaptation the ceiling, where the limit begins. `None`: as many as come.
    pub max_requests: Option<NonZeroU64>,
    /// Most tokens at once: prompts, and what may be generated. `None`: as many as come.
    pub max_tokens: Option<NonZeroU64>,
    /// The share of the tokens that large requests cannot have, in percent; at most 90 counts.
    pub small_percent: u8,
    /// `None`: the maxima are all there is.
    pub adaptive: Option<Adaptive>,
}

/// How limits adapt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    /// What the upstream is trusted with whatever it says. Requests.
    pub floor_requests: NonZeroU64,
    /// The same in tokens.
    pub floor_tokens: NonZeroU64,
    /// Limits grow, and are cut, at most once in so long. Milliseconds; about what an answer takes.
    pub window_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let adaptive = Some(Adaptive::default());
        Self { max_requests: None, max_tokens: None, small_percent: 25, adaptive }
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            floor_requests: NonZeroU64::MIN.saturating_add(1),
            floor_tokens: NonZeroU64::MIN.saturating_add(8_191),
            window_ms: 1_000,
        }
    }
}

/// What one request holds. It must come back through [`Capacity::give_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is not given back is lost"]
pub struct Slot {
    tokens: u64,
    large: bool,
}

impl Slot {
    /// The tokens it counts for: its cost, or all that large requests may have if that is less.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// What is in flight, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    pub requests: u64,
    pub tokens: u64,
}

/// The limits of now; `None` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
}

/// Accounts of one target.
#[derive(Debug, Clone)]
pub struct Capacity {
    settings: Settings,
    requests: Limit,
    tokens: Limit,
    used: Load,
    /// Tokens of `used` that large requests hold.
    large: u64,
    /// What a request costs on average.
    mean_cost: f64,
    window_since_ms: u64,
    /// The upstream refused, or was slow, in this window.
    strained: bool,
    last_cut_ms: Option<u64>,
    slowness: Slowness,
}

impl Capacity {
    pub fn new(settings: Settings) -> Self {
        let (floor_requests, floor_tokens) = floors(&settings);
        Self {
            settings,
            requests: Limit::new(floor_requests, settings.max_requests.map(NonZeroU64::get)),
            tokens: Limit::new(floor_tokens, settings.max_tokens.map(NonZeroU64::get)),
            used: Load::default(),
            large: 0,
            mean_cost: 0.0,
            window_since_ms: 0,
            strained: false,
            last_cut_ms: None,
            slowness: Slowness::default(),
        }
    }

    /// Takes other settings. What is in flight stays; what was learned does as far as they allow it.
    pub fn set(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        if settings.adaptive.is_some() {
            let (floor_requests, floor_tokens) = floors(&settings);
            self.requests.set(floor_requests, settings.max_requests.map(NonZeroU64::get));
            self.tokens.set(floor_tokens, settings.max_tokens.map(NonZeroU64::get));
        } else {
            self.requests = Limit::new(1, settings.max_requests.map(NonZeroU64::get));
            self.tokens = Limit::new(1, settings.max_tokens.map(NonZeroU64::get));
        }
        self.settings = settings;
    }

    /// Takes room for a request of `cost` tokens, if there is some.
    pub fn try_take(&mut self, cost: u64, now_ms: u64) -> Option<Slot> {
        self.take(cost, false, now_ms)
    }

    /// The same while a large request waits for room: only of what is kept for small ones, so that the rest
    /// becomes free for the large one.
    pub fn try_take_beside(&mut self, cost: u64, now_ms: u64) -> Option<Slot> {
        self.take(cost, true, now_ms)
    }

    /// Ends what was taken.
    pub fn give_back(&mut self, slot: Slot) {
        self.used.requests = self.used.requests.saturating_sub(1);
        self.used.tokens = self.used.tokens.saturating_sub(slot.tokens);
        if slot.large {
            self.large = self.large.saturating_sub(slot.tokens);
        }
    }

    /// The upstream said that it has too much: 429, 503, or "overloaded" in whatever words. Without
    /// adaptation nothing follows.
    pub fn refused(&mut self, now_ms: u64) {
        self.turn(now_ms);
        self.cut(now_ms);
    }

    /// The first event came after so many milliseconds. Where limits adapt and there is one, times that
    /// became slow cut it.
    pub fn first_event(&mut self, took_ms: u64, prompt_tokens: u64, now_ms: u64) {
        self.turn(now_ms);
        let slow = self.slowness.note(took_ms, prompt_tokens);
        let limited = self.requests.get().is_some() || self.tokens.get().is_some();
        if slow && limited {
            self.cut(now_ms);
        }
    }

    /// Whether a request of such a cost counts as large now.
    pub fn is_large(&self, cost: u64) -> bool {
        self.tokens.get().is_some_and(|limit| cost > self.kept_for_small(limit))
    }

    /// The tokens a request of such a cost would count for now.
    pub fn counts_for(&self, cost: u64) -> u64 {
        match self.tokens.get() {
            Some(limit) => cost.min(limit - self.kept_for_small(limit)),
            None => cost.min(MAX_COST),
        }
    }

    /// What is in flight.
    pub fn used(&self) -> Load {
        self.used
    }

    /// What may be in flight.
    pub fn limits(&self) -> Limits {
        Limits { requests: self.requests.get(), tokens: self.tokens.get() }
    }

    fn take(&mut self, cost: u64, beside: bool, now_ms: u64) -> Option<Slot> {
        self.turn(now_ms);
        if self.requests.get().is_some_and(|limit| self.used.requests >= limit) {
            self.requests.press();
            return None;
        }
        let slot = self.slot(cost, beside)?;
        self.used.requests += 1;
        self.used.tokens = self.used.tokens.saturating_add(slot.tokens);
        if slot.large {
            self.large = self.large.saturating_add(slot.tokens);
        }
        self.mean_cost += (slot.tokens as f64 - self.mean_cost) / 16.0;
        self.requests.note(self.used.requests);
        self.tokens.note(self.used.tokens);
        Some(slot)
    }

    /// Where such a request finds its tokens, if it does.
    fn slot(&mut self, cost: u64, beside: bool) -> Option<Slot> {
        let tokens = self.counts_for(cost);
        let Some(limit) = self.tokens.get() else {
            return Some(Slot { tokens, large: false });
        };
        let kept = self.kept_for_small(limit);
        let large = cost > kept;
        let fits = self.used.tokens.saturating_add(tokens) <= limit
            && if large {
                !beside && self.large.saturating_add(tokens) <= limit - kept
            } else {
                !beside
                    || self.used.tokens.saturating_sub(self.large).saturating_add(tokens) <= kept
            };
        if !fits {
            self.tokens.press();
        }
        fits.then_some(Slot { tokens, large })
    }

    /// Below the limit by one at least.
    fn kept_for_small(&self, limit: u64) -> u64 {
        let percent = u128::from(self.settings.small_percent.min(90));
        u64::try_from(u128::from(limit) * percent / 100).unwrap_or(0)
    }

    /// Ends the window if its time is over.
    fn turn(&mut self, now_ms: u64) {
        let Some(adaptive) = self.settings.adaptive else { return };
        if now_ms.saturating_sub(self.window_since_ms) < adaptive.window_ms {
            return;
        }
        if !self.strained {
            self.requests.grow(1.0);
            self.tokens.grow(self.mean_cost);
        }
        self.strained = false;
        self.window_since_ms = now_ms;
    }

    fn cut(&mut self, now_ms: u64) {
        let Some(adaptive) = self.settings.adaptive else { return };
        self.strained = true;
        if self.last_cut_ms.is_some_and(|at| now_ms.saturating_sub(at) < adaptive.window_ms) {
            return;
        }
        self.last_cut_ms = Some(now_ms);
        self.requests.cut(self.used.requests);
        self.tokens.cut(self.used.tokens);
    }
}

fn floors(settings: &Settings) -> (u64, u64) {
    let floor = |of: fn(&Adaptive) -> u64| settings.adaptive.as_ref().map_or(1, of);
    (floor(|with| with.floor_requests.get()), floor(|with| with.floor_tokens.get()))
}

#[cfg(test)]
mod tests;
