//! Which replica decides for the whole fleet: the one that holds a key of the configuration store.
//!
//! The key ends by itself unless its holder refreshes it. A holder that cannot do so in time stops
//! before the key ends, by its own clock; and whatever it writes as the leader is written together with
//! the key, so that the word of one who was the leader is never taken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluicegate_store::{Commit, Committed, ConfigStore, Op, Precondition, Revision, StoreError};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, sleep_until},
};
use uuid::Uuid;

use crate::keys::LEADER;

/// Between the name of a replica and what tells two of its starts apart.
const SEPARATOR: char = '\n';
/// Most writes beside the key in one commit.
const MAX_OPS: usize = 64;

/// How long what takes.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long the key lives without being refreshed.
    pub ttl: Duration,
    /// How often it is refreshed.
    pub refresh: Duration,
    /// How often the others look whether it is gone.
    pub look: Duration,
    /// How long before the key's end its holder stops.
    pub margin: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            refresh: Duration::from_secs(3),
            look: Duration::from_secs(1),
            margin: Duration::from_millis(1_500),
        }
    }
}

/// This replica is the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Revision that wrote the key last.
    pub revision: Revision,
    /// It stops by then unless the key is refreshed.
    until: Instant,
}

/// Why the leader's word was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("another replica decides for the fleet")]
    NotLeader,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// This replica's part in the election.
#[derive(Debug)]
pub struct Election {
    store: Arc<dyn ConfigStore>,
    timing: Timing,
    /// The value of the key while this replica holds it.
    own: String,
    /// Whoever writes the key has it: each write must know the revision of the one before.
    turn: Mutex<()>,
    term: watch::Sender<Option<Term>>,
    leads: watch::Sender<bool>,
    /// Name of the replica that holds the key, when it was last looked at.
    leader: watch::Sender<Option<String>>,
    resigned: AtomicBool,
}

impl Election {
    /// Stands for election under this name until the task is dropped.
    #[must_use]
    pub fn start(
        store: Arc<dyn ConfigStore>,
        replica: &str,
        timing: Timing,
    ) -> (Arc<Self>, AbortOnDrop<()>) {
        let election = Arc::new(Self {
            store,
            timing,
            own: format!("{replica}{SEPARATOR}{}", Uuid::new_v4()),
            turn: Mutex::default(),
            term: watch::Sender::new(None),
            leads: watch::Sender::new(false),
            leader: watch::Sender::new(None),
            resigned: AtomicBool::new(false),
        });
        let standing = election.clone();
        let running = async move {
            tokio::join!(standing.stand(), standing.end_in_time());
        };
        (election, AbortOnDrop(task::spawn("election", running)))
    }

    /// The term of this replica; `None` while another one leads, or none.
    pub fn term(&self) -> watch::Receiver<Option<Term>> {
        self.term.subscribe()
    }

    /// Is this replica the leader?
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Name of the replica that leads, as far as is known.
    pub fn leader(&self) -> watch::Receiver<Option<String>> {
        self.leader.subscribe()
    }

    /// Writes as the leader, which refreshes the key as well. What is too much for one commit is done
    /// in several.
    ///
    /// # Errors
    /// [`NotWritten::NotLeader`], with nothing more written; those of the store, where it may have
    /// happened nevertheless.
    pub async fn commit(&self, ops: Vec<Op>) -> Result<(), NotWritten> {
        let mut ops = ops;
        while !ops.is_empty() {
            let rest = ops.split_off(ops.len().min(MAX_OPS));
            self.commit_some(&ops).await?;
            ops = rest;
        }
        Ok(())
    }

    /// Lets another replica have it at once. This one does not stand any more.
    pub async fn resign(&self) {
        self.resigned.store(true, Ordering::Release);
        let _turn = self.turn.lock().await;
        let Some(term) = self.present() else { return };
        self.set(None);
        let commit = Commit {
            preconditions: vec![held(term.revision)],
            ops: vec![Op::Delete { key: LEADER.to_owned() }],
        };
        if let Err(error) = self.store.commit(commit).await {
            tracing::debug!(%error, "the leader's key is left to end by itself");
        }
    }

    async fn commit_some(&self, ops: &[Op]) -> Result<(), NotWritten> {
        let _turn = self.turn.lock().await;
        // The second time after a write of which it was unknown whether it had happened.
        for _ in 0..2 {
            let term = self.present().ok_or(NotWritten::NotLeader)?;
            if self.write(term.revision, ops.to_vec()).await? {
                return Ok(());
            }
        }
        Err(NotWritten::NotLeader)
    }

    /// Stands, and refreshes what it has, for ever.
    async fn stand(&self) {
        let mut heard = Instant::now();
        while !self.resigned.load(Ordering::Acquire) {
            let step = {
                let _turn = self.turn.lock().await;
                match self.present() {
                    Some(term) => self.write(term.revision, Vec::new()).await,
                    None => self.claim().await,
                }
            };
            let wait = match step {
                Ok(true) => self.timing.refresh,
                Ok(false) => self.timing.look,
                Err(error) => {
                    tracing::debug!(%error, "the leader's key cannot be read or written");
                    if heard.elapsed() > self.timing.ttl {
                        self.leader.send_replace(None);
                    }
                    sleep(self.timing.look).await;
                    continue;
                }
            };
            heard = Instant::now();
            sleep(wait).await;
        }
    }

    /// Stops when a term is over by this replica's clock, whatever the store is doing.
    async fn end_in_time(&self) {
        let mut terms = self.term.subscribe();
        loop {
            let until = terms.borrow_and_update().map(|term| term.until);
            let over = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = terms.changed() => if changed.is_err() { return },
                () = over => {
                    let over = |term: &Option<Term>| {
                        term.is_some_and(|term| term.until <= Instant::now())
                    };
                    if self.set_if(None, over) {
                        tracing::warn!("the leader's key could not be refreshed in time");
                    }
                }
            }
        }
    }

    /// Takes the key if nobody has it. `true`: this replica has it now.
    async fn claim(&self) -> Result<bool, StoreError> {
        let found = self.store.get(LEADER).await?;
        match found {
            None => self.write(0, Vec::new()).await,
            // Written by a commit that seemed to have failed.
            Some(entry) if entry.value == self.own.as_bytes() => {
                self.write(entry.mod_revision, Vec::new()).await
            }
            Some(entry) => {
                self.led_by(&entry.value);
                Ok(false)
            }
        }
    }

    /// Writes the key and more, if its last write was that of this revision. `false`: it was not; then
    /// it is known who has it.
    async fn write(&self, revision: Revision, mut ops: Vec<Op>) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let value = self.own.clone().into();
        ops.push(Op::Put { key: LEADER.to_owned(), value, ttl: Some(self.timing.ttl) });
        let commit = Commit { preconditions: vec![held(revision)], ops };
        match self.store.commit(commit).await? {
            Committed::At(revision) => {
                let until = begun + self.timing.ttl.saturating_sub(self.timing.margin);
                self.set(Some(Term { revision, until }));
                self.led_by(self.own.as_bytes());
                Ok(true)
            }
            Committed::Conflict(_) => {
                match (self.store.get(LEADER).await?, self.present()) {
                    (Some(entry), Some(term)) if entry.value == self.own.as_bytes() => {
                        // When it was written is not known: the term does not grow by it.
                        self.set(Some(Term { revision: entry.mod_revision, ..term }));
                    }
                    (found, _) => {
                        self.set(None);
                        found.iter().for_each(|entry| self.led_by(&entry.value));
                    }
                }
                Ok(false)
            }
        }
    }

    /// The term, if it is not over.
    fn present(&self) -> Option<Term> {
        self.term.borrow().filter(|term| Instant::now() < term.until)
    }

    fn set(&self, term: Option<Term>) {
        self.set_if(term, |_| true);
    }

    /// Sets it if what it is now is so. Both views change together.
    fn set_if(&self, term: Option<Term>, wanted: impl Fn(&Option<Term>) -> bool) -> bool {
        self.term.send_if_modified(|known| {
            let set = wanted(known);
            if set {
                *known = term;
                self.set_leads(term.is_some());
            }
            set
        })
    }

    fn set_leads(&self, leads: bool) {
        let changed =
            self.leads.send_if_modified(|before| std::mem::replace(before, leads) != leads);
        if changed && leads {
            tracing::info!("this replica decides for the fleet");
        } else if changed {
            self.leader.send_replace(None);
            tracing::info!("this replica does not decide for the fleet any more");
        }
    }

    fn led_by(&self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let name = text.split(SEPARATOR).next().unwrap_or_default();
        self.leader.send_if_modified(|known| {
            let news = known.as_deref() != Some(name);
            if news {
                *known = Some(name.to_owned());
            }
            news
        });
    }
}

fn held(revision: Revision) -> Precondition {
    Precondition { key: LEADER.to_owned(), mod_revision: revision }
}
