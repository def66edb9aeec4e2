//! One limit's window for one subject, as this data plane holds it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::{
    resource::limit::{Algorithm, Dimension, Window},
    scope::Subject,
};
use sluicegate_proto::quota::v1 as pb;
use sluicegate_protocol::quota::{Drain, Holder, Lease, Share, Terms};
use tokio::sync::Notify;

use super::{Standing, facts::decimal, pace::Line};
use crate::policy::limits::{self, Rule};

/// Meters that drain faster than this have their charges reported at once. Milliseconds.
const FAST_DRAIN_MS: f64 = 10_000.0;

/// A window together with the name that it counts under.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) window: &'a Window,
    pub(super) tag: &'a str,
}

/// A meter. The lease is read without a lock; everything else is behind the holder's.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) limit: String,
    pub(super) tag: String,
    pub(super) subject: Subject,
    pub(super) dimension: Dimension,
    pub(super) wire: pb::Meter,
    lease: ArcSwap<Lease>,
    holder: Mutex<Holder>,
    /// What is let through while nobody answers.
    share: Mutex<Option<Share>>,
    /// The holder has learned something.
    pub(super) changed: Notify,
    /// Is it waiting to be looked after?
    pub(super) queued: AtomicBool,
    /// When it is to be looked after.
    pub(super) due_ms: AtomicU64,
    /// Who waits for its turn, where bursts are smoothed.
    pub(super) line: Line,
    /// Settling is worth a word at once.
    urgent: AtomicBool,
}

impl Meter {
    pub(super) fn new(rule: &Rule, subject: Subject, named: &Named<'_>) -> Self {
        let holder = Holder::new(limits::terms(named.window), next_lease_id);
        Self {
            limit: rule.limit.name.clone(),
            tag: named.tag.to_owned(),
            dimension: rule.limit.dimension,
            wire: pb::Meter {
                limit: rule.limit.name.clone(),
                window_s: named.window.window_s(),
                subject: Some(subject.to_proto()),
                tag: named.tag.to_owned(),
            },
            subject,
            lease: ArcSwap::new(holder.lease().clone()),
            holder: Mutex::new(holder),
            share: Mutex::default(),
            changed: Notify::new(),
            queued: AtomicBool::new(false),
            due_ms: AtomicU64::new(0),
            line: Line::default(),
            urgent: AtomicBool::new(true),
        }
    }

    pub(super) fn lease(&self) -> Arc<Lease> {
        self.lease.load_full()
    }

    /// Lets the holder do something, and shows everyone the lease that it has then.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Holder) -> T) -> T {
        let mut holder = self.lock();
        let outcome = act(&mut holder);
        if !Arc::ptr_eq(holder.lease(), &self.lease.load()) {
            self.lease.store(holder.lease().clone());
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terms of a new policy; false: they are the same.
    pub(super) fn set_terms(&self, terms: Terms) -> bool {
        self.with(|holder| {
            let differs = *holder.terms() != terms;
            holder.set_terms(terms);
            differs
        })
    }

    /// Notes whether settling should be told at once.
    pub(super) fn note_urgency(&self, now_ms: u64) {
        let urgent = self.with(|holder| {
            let capacity = holder.terms().capacity;
            let fast = match holder.terms().drain {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                Drain::Steady { per_ms } | Drain::Sliding { per_ms } => {
                    (capacity as f64) < per_ms * FAST_DRAIN_MS
                }
                Drain::AtOnce => false,
                Drain::Never => true,
            };
            fast || holder.is_direct(now_ms)
        });
        self.urgent.store(urgent, Ordering::Relaxed);
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed)
    }

    pub(super) fn is_idle(&self, now_ms: u64) -> bool {
        self.lock().is_idle(now_ms)
    }

    /// What is left of the whole, 0 to 1; `None` while nobody has told.
    pub(super) fn headroom(&self, now_ms: u64) -> Option<f64> {
        let holder = self.lock();
        let view = holder.view()?;
        let own = holder.lease().balance.free().max(0).unsigned_abs();
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = view.free(now_ms).saturating_add(own) as f64 / view.capacity.max(1) as f64;
        Some(ratio.min(1.0))
    }

    /// Lets `amount` through on this data plane's own share; false: not any more.
    pub(super) fn share(&self, now_ms: u64, amount: u64, most_ms: u64, held: u64) -> bool {
        let (view, terms) = self.with(|holder| (holder.view().copied(), *holder.terms()));
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        let share = share
            .get_or_insert_with(|| Share::new(now_ms, view.as_ref(), terms.capacity, terms.drain));
        share.age_ms(now_ms) <= most_ms && share.take(now_ms, amount, held)
    }

    /// When the share may let something through again. Milliseconds.
    pub(super) fn share_retry_ms(&self) -> u64 {
        let share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.map_or(1_000, |share| share.retry_ms(boottime_ms()))
    }

    /// How close whoever it counts is to it; `None` while nobody has told.
    pub(super) fn standing(&self) -> Option<Standing> {
        let now = boottime_ms();
        let holder = self.lock();
        let view = holder.view()?;
        let limit = holder.terms().capacity;
        let remaining = view.free(now).saturating_add(holder.coming_back());
        let remaining = remaining.min(limit);
        Some(Standing { limit, remaining, reset_ms: view.reset_ms(now) })
    }

    /// Somebody answers again.
    pub(super) fn end_share(&self) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What a meter's window is called in refusals, after "in a"; `dimension` is what it counts.
pub(super) fn window_name(window: &Window, dimension: Dimension) -> String {
    let length = |window_s| match window_s {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3_600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        other => format!("{other} s"),
    };
    match window {
        Window::Rate { window_s, amount, burst, algorithm: Algorithm::Bucket }
            if amount != burst =>
        {
            let amount = decimal(*amount, dimension.quanta());
            format!("burst ({amount} in a {})", length(*window_s))
        }
        Window::Rate { window_s, .. } => length(*window_s),
        Window::Calendar { period, .. } => format!("calendar {}", period.name()),
        Window::Slots { .. } => "at one time".to_owned(),
    }
}

/// Lease ids are unique within one start of the process, whose number goes with them.
fn next_lease_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
