//! Limits that the whole fleet shares, as this data plane holds them.
//!
//! A request takes from the leases of every limit that is for it, all or none, and keeps a
//! [`Reservation`] that settles whatever happens. A check is an atomic on local memory as long as
//! the lease has something left; else the request waits for one answer of the control plane, which
//! all that wait for the same meter share.

mod acquire;
mod client;
mod facts;
mod meter;
mod pace;
mod reservation;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::scope::Subject;
use sluicegate_protocol::quota::Holder;
use tokio::sync::Notify;

pub use acquire::Ask;
pub use client::QuotaClient;
pub use facts::{LimitFacts, Standing, Standings, Why, reset_text};
pub use reservation::{Actual, Reservation};

use crate::usage::UsageLog;
use crate::{
    metrics::Metrics,
    policy::{
        Policy,
        limits::{self, Rule},
    },
};
use meter::{Meter, Named};

/// Meters that are kept at most; those that nobody uses are forgotten after some seconds. Whoever
/// would need another is refused: uncounted it must not pass.
const MAX_METERS: usize = 200_000;

/// How a call for limits ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Well,
    /// The control plane says that its ledger is away, or may have lost what it knew.
    LedgerAway,
    NotAtAll,
}

/// The meters of this data plane.
#[derive(Debug)]
pub struct Quota {
    meters: RwLock<HashMap<String, Arc<Meter>>>,
    /// Meters that have something to say to the control plane.
    queue: Mutex<Vec<Arc<Meter>>>,
    wake: Notify,
    /// Does anybody answer?
    available: AtomicBool,
    /// Calls in a row that were not answered.
    failures: AtomicU32,
    /// Since when nobody does.
    away_since_ms: AtomicU64,
    /// Revision of the policy that the terms are of.
    revision: AtomicU64,
    metrics: Arc<Metrics>,
    usage: Arc<UsageLog>,
}

impl Quota {
    /// Nothing held yet.
    pub fn new(metrics: Arc<Metrics>, usage: Arc<UsageLog>) -> Arc<Self> {
        Arc::new(Self {
            meters: RwLock::default(),
            queue: Mutex::default(),
            wake: Notify::new(),
            // Until somebody has failed to answer, it is worth asking.
            available: AtomicBool::new(true),
            failures: AtomicU32::new(0),
            away_since_ms: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            metrics,
            usage,
        })
    }

    /// How long nobody has answered; `None` while somebody does. Milliseconds.
    pub fn away_ms(&self) -> Option<u64> {
        (!self.available.load(Ordering::Acquire))
            .then(|| boottime_ms().saturating_sub(self.away_since_ms.load(Ordering::Acquire)))
    }

    /// Gives everything back, because the process stops; waits for the control plane to hear of it,
    /// but not longer than `patience`.
    pub async fn hand_back(&self, patience: std::time::Duration) {
        let meters: Vec<_> = self.read().values().cloned().collect();
        for meter in &meters {
            meter.with(Holder::finish);
            self.touch(meter);
        }
        let finished = async {
            for meter in &meters {
                loop {
                    let mut changed = pin!(meter.changed.notified());
                    changed.as_mut().enable();
                    if meter.with(|holder| holder.is_finished()) {
                        break;
                    }
                    changed.await;
                    // Its last request may have settled just now.
                    self.touch(meter);
                }
            }
        };
        if tokio::time::timeout(patience, finished).await.is_err() {
            tracing::info!(
                "not every limit was given back; the rest comes free when its lease ends"
            );
        }
    }

    /// Another policy is in force: what is held goes by its terms from now on. A limit that was
    /// lowered gives back what is free at once.
    pub fn policy_changed(&self, policy: &Policy) {
        self.revision.store(policy.revision, Ordering::Release);
        let rules: HashMap<&str, &Arc<Rule>> =
            policy.limits.iter().map(|rule| (rule.limit.name.as_str(), rule)).collect();
        let meters: Vec<_> = self.read().values().cloned().collect();
        for meter in meters {
            let window = rules
                .get(meter.limit.as_str())
                .and_then(|rule| rule.window(&meter.subject, &meter.tag));
            if let Some(window) = window
                && meter.set_terms(limits::terms(window))
            {
                self.touch(&meter);
            }
        }
    }

    /// The meter of one window of a limit for one subject; `None` when there are too many already, all
    /// of which were used a moment ago.
    fn meter(&self, rule: &Rule, subject: &Subject, window: &Named<'_>) -> Option<Arc<Meter>> {
        let name = format!("{}|{}|{subject}", rule.limit.name, window.tag);
        if let Some(meter) = self.read().get(&name) {
            return Some(meter.clone());
        }
        let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
        if meters.len() >= MAX_METERS && !meters.contains_key(&name) {
            return None;
        }
        let new = || Arc::new(Meter::new(rule, subject.clone(), window));
        Some(meters.entry(name).or_insert_with(new).clone())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Arc<Meter>>> {
        self.meters.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets meters that nobody has used for a while.
    fn forget_idle(&self) {
        let now = boottime_ms();
        let idle = self.read().values().any(|meter| meter.is_idle(now));
        if idle {
            let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
            // Whoever has just got one keeps it: it is asked for again under the same name.
            meters.retain(|_, meter| Arc::strong_count(meter) > 1 || !meter.is_idle(now));
        }
    }

    /// Shows operators how full each limit's fullest counter is.
    fn show_headroom(&self) {
        let now = boottime_ms();
        let mut fullest: HashMap<String, f64> = HashMap::new();
        for meter in self.read().values() {
            if let Some(ratio) = meter.headroom(now) {
                let least = fullest.entry(meter.limit.clone()).or_insert(1.0);
                *least = least.min(ratio);
            }
        }
        self.metrics.limit_headroom(fullest);
    }

    /// Something of the meter is to be said soon.
    fn touch(&self, meter: &Arc<Meter>) {
        if !meter.queued.swap(true, Ordering::AcqRel) {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(meter.clone());
            self.wake.notify_one();
        }
    }

    /// A call has ended so.
    fn answered(&self, how: Answered) {
        let well = match how {
            Answered::Well => {
                self.failures.store(0, Ordering::Release);
                true
            }
            // One call may be lost without anything being wrong.
            Answered::NotAtAll if self.failures.fetch_add(1, Ordering::AcqRel) == 0 => return,
            Answered::NotAtAll | Answered::LedgerAway => false,
        };
        if self.available.swap(well, Ordering::AcqRel) != well {
            if well {
                tracing::info!("limits are shared with the fleet again");
                // What has gathered meanwhile need not wait for the next probe.
                self.wake.notify_one();
            } else {
                self.away_since_ms.store(boottime_ms(), Ordering::Release);
                tracing::warn!(
                    "limits cannot be asked for; what is held goes on, then each limit's on_outage"
                );
            }
            self.metrics.quota_available(well);
        }
    }
}
