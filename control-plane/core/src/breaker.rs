//! The breakers of the fleet: what data planes see of targets comes in, one replica draws the
//! conclusions, every data plane is told.
//!
//! Replicas tell each other what their data planes see in notes of the ledger. The elected one merges
//! it, and writes how targets stand into the configuration store, where all replicas read it. Without a
//! ledger it goes by its own data planes; without a leader each data plane decides alone, as soon as
//! what it was told last is over.

mod board;
mod exchange;
mod lead;
mod plan;
mod status;
mod verdict;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use sluicegate_model::{Violation, path::Path};
use sluicegate_proto::{admin::v1 as admin, health::v1 as pb};
use sluicegate_protocol::breaker::{Report, State};
use sluicegate_store::{
    Change, ConfigStore, Entry, Op, StoreError, WatchEvent, WatchStream, ledger::Ledger,
};
use sluicegate_telemetry::{
    clock,
    task::{self, AbortOnDrop},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use uuid::Uuid;

pub use self::board::News;
use self::{board::Board, lead::Lead, plan::Plan, verdict::Verdict};
use crate::{
    desired::Desired,
    election::{Election, NotWritten},
    error::CoreError,
    keys,
};

/// How often the leader draws conclusions, besides when a report tells of a change or an open time ends.
const TICK: Duration = Duration::from_millis(500);
/// How long the store keeps how a target stands without its being said again. What holds is said again
/// every ten seconds.
const KEPT: Duration = Duration::from_secs(60);
/// Between attempts to watch a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The breakers of the fleet.
#[derive(Debug)]
pub struct Breakers {
    desired: Arc<Desired>,
    store: Arc<dyn ConfigStore>,
    ledger: Arc<dyn Ledger>,
    election: Arc<Election>,
    inner: Mutex<Inner>,
    /// Grows with everything that data planes are to be told.
    version: watch::Sender<u64>,
    /// A report tells of a change.
    wake: Notify,
    /// Name of this replica's notes.
    note: String,
    origin: Instant,
}

#[derive(Debug)]
struct Inner {
    board: Board,
    plan: Arc<Plan>,
    /// On the leader.
    lead: Option<Lead>,
}

impl Breakers {
    /// Begins to keep the state, until the returned task is dropped.
    #[must_use]
    pub fn start(
        desired: Arc<Desired>,
        store: Arc<dyn ConfigStore>,
        ledger: Arc<dyn Ledger>,
        election: Arc<Election>,
    ) -> (Arc<Self>, AbortOnDrop<()>) {
        let plan = Arc::new(Plan::of(&desired.snapshot()));
        let breakers = Arc::new(Self {
            desired,
            store,
            ledger,
            election,
            inner: Mutex::new(Inner { board: Board::default(), plan, lead: None }),
            version: watch::Sender::new(0),
            wake: Notify::new(),
            note: format!("{}{}", exchange::NOTE, Uuid::new_v4()),
            origin: Instant::now(),
        });
        let [deciding, telling, following] = std::array::from_fn(|_| breakers.clone());
        let working = task::spawn("breakers", async move {
            tokio::join!(deciding.decide_all(), telling.exchange_all(), following.follow_all());
        });
        (breakers, AbortOnDrop(working))
    }

    /// Takes in what a data plane sees.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], with nothing done, when the request is none that a data plane makes.
    pub fn report(&self, request: pb::ReportRequest) -> Result<(), CoreError> {
        let report = Report::try_from(request).map_err(|bad| {
            let violation = Violation::new(Path::parse(&bad.field), bad.what);
            CoreError::Invalid(violation.hint("this build takes no such report").into())
        })?;
        let now_ms = self.now_ms();
        let (changed, version) = {
            let mut inner = self.lock();
            let changed = inner.board.report(&report, now_ms);
            if let Some(lead) = &mut inner.lead {
                lead.report(&report, now_ms);
            }
            (changed, inner.board.version)
        };
        self.announce(version);
        if changed {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Grows with everything that data planes are to be told.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Whoever decides for the fleet.
    pub fn leader(&self) -> watch::Receiver<Option<String>> {
        self.election.leader()
    }

    /// What a data plane is to be told since a version (0: everything), and the version that this
    /// leads to.
    pub fn since(&self, version: u64, node: &str) -> (News, u64) {
        let now_ms = self.now_ms();
        let inner = self.lock();
        (inner.board.since(version, node, now_ms), inner.board.version)
    }

    /// Data planes that were heard of lately in the whole fleet, as far as is known here.
    pub fn nodes(&self) -> u32 {
        let inner = self.lock();
        inner.board.all_kept().map(|kept| kept.verdict.nodes).max().unwrap_or(0)
    }

    /// How targets stand, for people.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] for what names no target, [`CoreError::NotFound`] for a provider that is
    /// not there.
    pub async fn status(
        &self,
        request: &admin::BreakerStatusRequest,
    ) -> Result<admin::BreakerStatusReply, CoreError> {
        let wanted = status::Wanted::parse(&request.target, &self.desired.snapshot())?;
        // What the data planes of other replicas see.
        let others = self.others().await;
        let health = crate::quota::standing::health(&self.ledger.health().borrow());
        let leader = self.election.leader().borrow().clone().unwrap_or_default();
        let now_ms = self.now_ms();
        let inner = self.lock();
        let Inner { board, plan, .. } = &*inner;
        let view = status::View { board, plan, others: &others, now_ms, unix_ms: clock::unix_ms() };
        Ok(view.reply(&wanted, leader, health))
    }

    /// The state of each target that is not closed, and of each of the configuration.
    pub fn states(&self) -> Vec<(String, String, State)> {
        let inner = self.lock();
        status::states(&inner.board, &inner.plan, self.now_ms())
    }

    /// Decides whenever it is time to, while this replica leads.
    async fn decide_all(&self) {
        let mut states = self.desired.subscribe();
        let mut leads = self.election.leads();
        let mut wait = TICK;
        loop {
            tokio::select! {
                () = sleep(wait) => {}
                () = self.wake.notified() => {}
                changed = leads.changed() => if changed.is_err() { return },
                changed = states.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let plan = Arc::new(Plan::of(&states.borrow_and_update().clone()));
                    let mut inner = self.lock();
                    inner.plan = plan.clone();
                    if let Some(lead) = &mut inner.lead {
                        lead.follow(plan);
                    }
                }
            }
            wait = TICK;
            let leading = *leads.borrow_and_update();
            self.lock().board.tidy(self.now_ms());
            if !leading {
                self.lock().lead = None;
                continue;
            }
            match self.decide().await {
                // An open time may end sooner.
                Ok(()) => wait = self.next().min(TICK),
                Err(error) => tracing::debug!(%error, "how targets stand cannot be written down"),
            }
        }
    }

    async fn decide(&self) -> Result<(), NotWritten> {
        if self.lock().lead.is_none() {
            self.begin().await?;
        }
        let verdicts = {
            let mut inner = self.lock();
            let now_ms = self.now_ms();
            inner.lead.as_mut().map(|lead| lead.tick(now_ms, clock::unix_ms())).unwrap_or_default()
        };
        if verdicts.is_empty() {
            return Ok(());
        }
        let ops = verdicts.iter().map(|verdict| {
            let target = verdict.word.target();
            let key = keys::breaker(&target.provider, &target.model);
            Op::Put { key, value: verdict.encode(), ttl: Some(KEPT) }
        });
        self.election.commit(ops.collect()).await?;
        if let Some(lead) = &mut self.lock().lead {
            lead.written(&verdicts);
        }
        Ok(())
    }

    /// How long nothing ends by itself.
    fn next(&self) -> Duration {
        let next_ms = self.lock().lead.as_ref().and_then(|lead| lead.next_ms(self.now_ms()));
        next_ms.map_or(TICK, |ms| Duration::from_millis(ms.max(1)))
    }

    /// Takes over where the leader before left off.
    async fn begin(&self) -> Result<(), StoreError> {
        let listing = self.store.list(keys::BREAKER).await?;
        let mut inner = self.lock();
        let now_ms = self.now_ms();
        let kept = listing.entries.iter().filter_map(|entry| {
            let verdict = readable(entry)?;
            // When it was written is only known of what this replica saw come.
            let known = inner.board.kept(&entry.key);
            let known = known.filter(|kept| kept.revision == entry.mod_revision);
            Some((verdict, known.map_or(0, |kept| now_ms.saturating_sub(kept.at_ms))))
        });
        let kept: Vec<_> = kept.collect();
        let mut lead = Lead::begin(inner.plan.clone(), kept, fastrand::u64(..), now_ms);
        for report in inner.board.reports(now_ms) {
            lead.report(&report, now_ms);
        }
        inner.lead = Some(lead);
        Ok(())
    }

    /// Follows what is written about targets, for ever.
    async fn follow_all(&self) {
        loop {
            match self.open().await {
                Ok(mut events) => {
                    while let Some(event) = events.next().await {
                        self.on_event(event);
                    }
                }
                Err(error) => tracing::debug!(%error, "how targets stand cannot be read"),
            }
            sleep(RETRY_AFTER).await;
        }
    }

    async fn open(&self) -> Result<WatchStream, StoreError> {
        // The epoch first: should it change meanwhile, the watch finds out and lists again.
        let epoch = self.store.epoch().await?;
        let listing = self.store.list(keys::BREAKER).await?;
        let events = self.store.watch(keys::BREAKER, epoch, listing.revision + 1).await?;
        self.relist(&listing.entries);
        Ok(events)
    }

    fn on_event(&self, event: WatchEvent) {
        match event {
            WatchEvent::Changes(set) => {
                let now_ms = self.now_ms();
                let version = {
                    let mut inner = self.lock();
                    for change in &set.changes {
                        match change {
                            Change::Put(entry) => learn(&mut inner.board, entry, now_ms),
                            Change::Delete { key } => inner.board.forget(key),
                        }
                    }
                    inner.board.version
                };
                self.announce(version);
            }
            WatchEvent::Relisted { listing, .. } => self.relist(&listing.entries),
            WatchEvent::Interrupted(_) | WatchEvent::Resumed => {}
        }
    }

    fn relist(&self, entries: &[Entry]) {
        let now_ms = self.now_ms();
        let version = {
            let mut inner = self.lock();
            let board = &mut inner.board;
            board.retain(|key| entries.iter().any(|entry| entry.key == key));
            for entry in entries {
                if board.kept(&entry.key).is_none_or(|it| it.revision != entry.mod_revision) {
                    learn(board, entry, now_ms);
                }
            }
            board.version
        };
        self.announce(version);
    }

    fn announce(&self, version: u64) {
        self.version.send_if_modified(|known| {
            let news = *known < version;
            if news {
                *known = version;
            }
            news
        });
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn learn(board: &mut Board, entry: &Entry, now_ms: u64) {
    if let Some(verdict) = readable(entry) {
        board.learn(&entry.key, verdict, entry.mod_revision, now_ms);
    }
}

fn readable(entry: &Entry) -> Option<Verdict> {
    let verdict = Verdict::decode(&entry.value);
    if verdict.is_none() {
        tracing::warn!(key = entry.key, "how a target stands cannot be read and is left out");
    }
    verdict
}
