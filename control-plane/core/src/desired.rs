//! The desired state in memory: read once, kept by one watch.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use sluicegate_protocol::policy::Point;
use sluicegate_store::{ConfigStore, Revision, StoreError, WatchEvent, WatchStream};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    error::CoreError,
    keys,
    ring::{RING, Ring},
    state::{ChangeEvent, State},
};

/// Between attempts to reach a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Between log lines that say that it still does not.
const REMIND_AFTER: Duration = Duration::from_secs(10);

/// The desired state, kept current. Cheap to read, never waits for the store.
#[derive(Debug)]
pub struct Desired {
    state: watch::Sender<Arc<State>>,
    /// Why the store cannot be watched at the moment.
    outage: watch::Sender<Option<String>>,
    ring: Mutex<Ring>,
}

/// What happened after some point.
#[derive(Debug)]
pub enum Changes {
    /// These changes, in order; maybe none.
    These(Vec<Arc<ChangeEvent>>),
    /// Too much, or another history: this state replaces everything.
    Reset(Arc<State>),
}

impl Desired {
    /// Reads the state and starts watching. While the store does not answer, it is asked again,
    /// for at most `patience`. The state stands still once the returned task is dropped.
    ///
    /// # Errors
    /// [`CoreError::StoreAway`] after `patience`; [`CoreError::Store`] when the store refuses.
    pub async fn start(
        store: Arc<dyn ConfigStore>,
        patience: Duration,
    ) -> Result<(Arc<Self>, AbortOnDrop<()>), CoreError> {
        let (state, events) = open(&*store, patience).await?;
        let desired = Arc::new(Self {
            ring: Mutex::new(Ring::new(state.point(), RING)),
            state: watch::Sender::new(Arc::new(state)),
            outage: watch::Sender::new(None),
        });
        let watching = task::spawn("desired-watch", desired.clone().keep(store, events));
        Ok((desired, AbortOnDrop(watching)))
    }

    /// The newest state.
    pub fn snapshot(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Tells whenever the state moved.
    pub fn subscribe(&self) -> watch::Receiver<Arc<State>> {
        self.state.subscribe()
    }

    /// Why the store cannot be watched at the moment; `None`: it can.
    pub fn outage(&self) -> Option<String> {
        self.outage.borrow().clone()
    }

    /// Tells whenever the store went away or came back.
    pub fn subscribe_outage(&self) -> watch::Receiver<Option<String>> {
        self.outage.subscribe()
    }

    /// Waits until the state has reached `revision`, at most for `patience`. False: it has not.
    pub async fn reached(&self, revision: Revision, patience: Duration) -> bool {
        let mut state = self.state.subscribe();
        let reached = state.wait_for(|state| state.revision >= revision);
        timeout(patience, reached).await.is_ok_and(|state| state.is_ok())
    }

    /// What happened after `cursor`.
    pub fn changes_after(&self, cursor: &Point) -> Changes {
        let events = self.ring.lock().unwrap_or_else(PoisonError::into_inner).after(cursor);
        match events {
            Some(events) => Changes::These(events),
            None => Changes::Reset(self.snapshot()),
        }
    }

    async fn keep(self: Arc<Self>, store: Arc<dyn ConfigStore>, mut events: WatchStream) {
        loop {
            while let Some(event) = events.next().await {
                self.on_event(event);
            }
            // A watch only ends when it is dropped; but if one does, the state must not stand still.
            self.on_event(WatchEvent::Interrupted("the watch ended".to_owned()));
            events = loop {
                sleep(RETRY_AFTER).await;
                let at = self.snapshot().point();
                let epoch = sluicegate_store::Epoch(at.epoch);
                if let Ok(events) = store.watch(keys::CONFIG, epoch, at.revision + 1).await {
                    break events;
                }
            };
        }
    }

    fn on_event(&self, event: WatchEvent) {
        match event {
            WatchEvent::Changes(set) => {
                self.state.send_modify(|state| {
                    let event = Arc::make_mut(state).take(set);
                    self.ring.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(event));
                });
                self.outage.send_if_modified(|outage| outage.take().is_some());
            }
            WatchEvent::Relisted { epoch, listing } => {
                let state = State::from_listing(epoch, listing);
                tracing::warn!(revision = state.revision, "the configuration was read anew");
                self.state.send_modify(|current| {
                    let ring = Ring::new(state.point(), RING);
                    *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = ring;
                    *current = Arc::new(state);
                });
                self.outage.send_if_modified(|outage| outage.take().is_some());
            }
            WatchEvent::Interrupted(reason) => {
                tracing::warn!(reason, "the configuration store is away; its last state is served");
                self.outage.send_replace(Some(reason));
            }
            WatchEvent::Resumed => {
                tracing::info!("the configuration store is back");
                self.outage.send_replace(None);
            }
        }
    }
}

async fn open(
    store: &dyn ConfigStore,
    patience: Duration,
) -> Result<(State, WatchStream), CoreError> {
    let started = Instant::now();
    let mut reminded: Option<Instant> = None;
    loop {
        let error = match try_open(store).await {
            Err(error @ StoreError::Unavailable { .. }) => error,
            done => return Ok(done?),
        };
        let location = store.location();
        if started.elapsed() >= patience {
            return Err(CoreError::StoreAway { location, waited: patience, last: error });
        }
        if reminded.is_none_or(|at| at.elapsed() >= REMIND_AFTER) {
            reminded = Some(Instant::now());
            tracing::warn!(location, %error, "waiting for the configuration store");
        }
        sleep(RETRY_AFTER.min(patience)).await;
    }
}

async fn try_open(store: &dyn ConfigStore) -> Result<(State, WatchStream), StoreError> {
    // The epoch first: should it change meanwhile, the watch finds out and lists again.
    let epoch = store.epoch().await?;
    let listing = store.list(keys::CONFIG).await?;
    let events = store.watch(keys::CONFIG, epoch.clone(), listing.revision + 1).await?;
    Ok((State::from_listing(epoch, listing), events))
}
