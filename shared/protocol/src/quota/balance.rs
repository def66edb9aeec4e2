//! What is left of a lease. Any number of threads take from it and settle; one reports.

#[cfg(not(sluicegate_loom))]
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[cfg(sluicegate_loom)]
use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// More than any balance: what is subtracted from one that must not be used any more.
const VOID: i64 = 1 << 60;

/// The counters of one lease. What was granted is always `free + held + charged`, but for what was
/// charged without cover.
#[derive(Debug)]
pub struct Balance {
    /// Granted and neither held nor charged. Below zero: charged or forced without cover, or void.
    free: AtomicI64,
    /// Taken by requests that have not settled.
    held: AtomicU64,
    /// Charged, in all.
    charged: AtomicU64,
    /// Taken back of it, in all.
    refunded: AtomicU64,
    /// Charged for requests that run on: to be corrected.
    early: AtomicU64,
    /// When the lease may not be used any more.
    valid_until_ms: AtomicU64,
}

/// What became of an attempt to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Done; so much is left.
    Yes { left: u64 },
    /// There is not so much.
    Short,
    /// The lease's time is over.
    Stale,
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            free: AtomicI64::new(0),
            held: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            refunded: AtomicU64::new(0),
            early: AtomicU64::new(0),
            valid_until_ms: AtomicU64::new(0),
        }
    }
}

impl Balance {
    /// Takes `amount`, if that much is free.
    pub fn take(&self, amount: u64, now_ms: u64) -> Taken {
        if now_ms >= self.valid_until_ms.load(Ordering::Acquire) {
            return Taken::Stale;
        }
        let wanted = signed(amount);
        let mut free = self.free.load(Ordering::Acquire);
        while free >= wanted {
            let left = free - wanted;
            match self.free.compare_exchange_weak(free, left, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.held.fetch_add(amount, Ordering::AcqRel);
                    return Taken::Yes { left: left.unsigned_abs() };
                }
                Err(seen) => free = seen,
            }
        }
        Taken::Short
    }

    /// Takes `amount` whether it is there or not.
    pub fn force(&self, amount: u64) {
        self.free.fetch_sub(signed(amount), Ordering::AcqRel);
        self.held.fetch_add(amount, Ordering::AcqRel);
    }

    /// What was taken is charged at once, all of it; [`Balance::correct`] ends it.
    pub fn charge(&self, taken: u64) {
        self.early.fetch_add(taken, Ordering::AcqRel);
        self.charged.fetch_add(taken, Ordering::AcqRel);
        self.held.fetch_sub(taken, Ordering::AcqRel);
    }

    /// Ends what [`Balance::take`] took: `actual` of it, or more, is charged, the rest is free again.
    pub fn settle(&self, taken: u64, actual: u64) {
        self.charged.fetch_add(actual, Ordering::AcqRel);
        self.free.fetch_add(signed(taken) - signed(actual), Ordering::AcqRel);
        self.held.fetch_sub(taken, Ordering::AcqRel);
    }

    /// Corrects what [`Balance::charge`] charged for a request that has used `actual`.
    pub fn correct(&self, charged: u64, actual: u64) {
        if actual < charged {
            self.refunded.fetch_add(charged - actual, Ordering::AcqRel);
        } else if actual > charged {
            let more = actual - charged;
            self.charged.fetch_add(more, Ordering::AcqRel);
            self.free.fetch_sub(signed(more), Ordering::AcqRel);
        }
        self.early.fetch_sub(charged, Ordering::AcqRel);
    }

    /// More was granted, until then.
    pub fn grant(&self, amount: u64, valid_until_ms: u64) {
        self.free.fetch_add(signed(amount), Ordering::AcqRel);
        self.valid_until_ms.store(valid_until_ms, Ordering::Release);
    }

    /// What was taken without a grant is granted after all.
    pub fn cover(&self, amount: u64) {
        self.free.fetch_add(signed(amount), Ordering::AcqRel);
    }

    /// Takes at most so much of what is free, to give it back; returns how much.
    pub fn withdraw(&self, most: u64) -> u64 {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            let amount = free.clamp(0, signed(most));
            if amount == 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(
                free,
                free - amount,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return amount.unsigned_abs(),
                Err(seen) => free = seen,
            }
        }
    }

    /// Nothing can be taken any more; what is held still settles.
    pub fn void(&self) {
        self.valid_until_ms.store(0, Ordering::Release);
        self.free.fetch_sub(VOID, Ordering::AcqRel);
    }

    /// What is free now; below zero: the debt.
    pub fn free(&self) -> i64 {
        self.free.load(Ordering::Acquire)
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Does a request run on that was taken from here?
    pub fn is_open(&self) -> bool {
        self.early.load(Ordering::Acquire) > 0 || self.held() > 0
    }

    pub fn charged(&self) -> u64 {
        self.charged.load(Ordering::Acquire)
    }

    pub fn refunded(&self) -> u64 {
        self.refunded.load(Ordering::Acquire)
    }

    /// May it still be taken from?
    pub fn is_valid(&self, now_ms: u64) -> bool {
        now_ms < self.valid_until_ms.load(Ordering::Acquire)
    }
}

/// Amounts are far below 2^60, and a larger one is never there.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX).min(VOID - 1)
}

#[cfg(all(test, not(sluicegate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn d4_what_is_taken_settles_to_what_was_used() {
        let balance = Balance::default();
        assert_eq!(balance.take(1, 0), Taken::Stale, "nothing was granted");
        balance.grant(100, 1000);
        assert_eq!(balance.take(60, 999), Taken::Yes { left: 40 });
        assert_eq!(balance.take(41, 999), Taken::Short);
        assert_eq!(balance.take(40, 1000), Taken::Stale);
        balance.settle(60, 10);
        assert_eq!((balance.free(), balance.held(), balance.charged()), (90, 0, 10));
        assert_eq!(balance.take(90, 0), Taken::Yes { left: 0 });
        balance.settle(90, 120);
        assert_eq!((balance.free(), balance.held(), balance.charged()), (-30, 0, 130));
        balance.grant(31, 1000);
        assert_eq!(balance.take(2, 0), Taken::Short, "the debt comes first");
        assert_eq!(balance.take(1, 0), Taken::Yes { left: 0 });
    }

    #[test]
    fn what_is_charged_at_once_is_corrected_later() {
        let balance = Balance::default();
        balance.grant(100, 1000);
        assert_eq!(balance.take(60, 0), Taken::Yes { left: 40 });
        balance.charge(60);
        assert!(balance.is_open(), "it is to be corrected");
        balance.correct(60, 25);
        assert!(!balance.is_open());
        assert_eq!((balance.charged(), balance.refunded(), balance.free()), (60, 35, 40));
        balance.grant(60, 1000);
        assert_eq!(balance.take(60, 0), Taken::Yes { left: 40 });
        balance.charge(60);
        balance.correct(60, 70);
        assert_eq!((balance.charged(), balance.refunded(), balance.free()), (130, 35, 30));
    }

    #[test]
    fn a_void_balance_still_settles() {
        let balance = Balance::default();
        balance.grant(10, 1000);
        assert_eq!(balance.take(4, 0), Taken::Yes { left: 6 });
        balance.void();
        assert_eq!(balance.take(1, 0), Taken::Stale);
        balance.settle(4, 3);
        assert_eq!((balance.held(), balance.charged(), balance.withdraw(u64::MAX)), (0, 3, 0));
    }
}

#[cfg(all(test, sluicegate_loom))]
mod races {
    use loom::{sync::Arc, thread};

    use super::*;

    /// Whatever order two takers, a reporter that gives back and a grant meet in: nothing is given
    /// twice and nothing is lost.
    #[test]
    fn nothing_is_given_twice_and_nothing_is_lost() {
        loom::model(|| {
            let balance = Arc::new(Balance::default());
            balance.grant(3, 1000);
            let takers: Vec<_> = [2_u64, 2]
                .into_iter()
                .map(|amount| {
                    let balance = balance.clone();
                    thread::spawn(move || match balance.take(amount, 0) {
                        Taken::Yes { .. } => {
                            balance.settle(amount, 1);
                            amount
                        }
                        Taken::Short | Taken::Stale => 0,
                    })
                })
                .collect();
            let back = balance.withdraw(2);
            let taken: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
            let uses = taken / 2;
            assert_eq!(balance.held(), 0);
            assert_eq!(balance.charged(), uses);
            assert_eq!(balance.free(), 3 - signed(back) - signed(uses));
            assert!(balance.free() >= 0);
        });
    }

    /// A lease that is given up while a request takes from it: either the request has it, and it
    /// settles, or it does not.
    #[test]
    fn giving_up_and_taking_at_once() {
        loom::model(|| {
            let balance = Arc::new(Balance::default());
            balance.grant(2, 1000);
            let taker = {
                let balance = balance.clone();
                thread::spawn(move || match balance.take(2, 0) {
                    Taken::Yes { .. } => {
                        balance.settle(2, 2);
                        2
                    }
                    Taken::Short | Taken::Stale => 0,
                })
            };
            balance.void();
            let after = balance.take(1, 0);
            let taken = taker.join().unwrap();
            assert_eq!(after, Taken::Stale);
            assert_eq!((balance.charged(), balance.held()), (taken, 0));
        });
    }
}
