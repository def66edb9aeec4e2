//! An amount that is held: what requests take from, without asking anybody.

#[cfg(not(sluicegate_loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(sluicegate_loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use super::{Balance, Taken};

/// An amount that the control plane has granted to this data plane.
#[derive(Debug)]
pub struct Lease {
    pub id: u64,
    pub balance: Balance,
    /// Calendar window; 0: none, or not known yet.
    window: AtomicU64,
    asked: AtomicU64,
    largest: AtomicU64,
    /// Below this balance more should be drawn.
    low: AtomicU64,
}

impl Lease {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            balance: Balance::default(),
            window: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            low: AtomicU64::new(0),
        }
    }

    /// Takes `amount`. The second value says that more should be drawn soon.
    pub fn take(&self, amount: u64, now_ms: u64) -> (Taken, bool) {
        self.asked.fetch_add(amount, Ordering::Relaxed);
        self.largest.fetch_max(amount, Ordering::Relaxed);
        self.take_again(amount, now_ms)
    }

    /// As [`Lease::take`], for a request that has asked before.
    pub fn take_again(&self, amount: u64, now_ms: u64) -> (Taken, bool) {
        let taken = self.balance.take(amount, now_ms);
        let low = match taken {
            Taken::Yes { left } => left < self.low.load(Ordering::Relaxed),
            Taken::Short | Taken::Stale => false,
        };
        (taken, low)
    }

    /// The calendar window that it belongs to; 0: none.
    pub fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    pub(super) fn set_window(&self, window: u64) {
        self.window.store(window, Ordering::Relaxed);
    }

    /// What was asked for since the last time, in all and at most at once.
    pub(super) fn take_asked(&self) -> (u64, u64) {
        (self.asked.swap(0, Ordering::Relaxed), self.largest.swap(0, Ordering::Relaxed))
    }

    /// Below this balance, more should be drawn.
    pub(super) fn set_low(&self, low: u64) {
        self.low.store(low, Ordering::Relaxed);
    }
}
