//! Degradation levels of the fleet: what servers say of themselves is read, conditions are looked at,
//! and levels published. One replica does it, the leader; the others publish nothing.

mod board;
mod exposition;
mod scrape;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate_model::{Kind, Resource, ResourceRef, resource::degradation::Level};
use sluicegate_protocol::degrade::{Directive, Reason, Transition};
use sluicegate_telemetry::{
    clock,
    task::{self, AbortOnDrop},
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

pub use board::{Breaker, Levels, Published};
pub use exposition::{BadMetrics, MAX_SAMPLES, Sample, samples};
pub use scrape::{MAX_BODY, Scraper};

use self::{
    board::{Board, Now},
    scrape::{Scraped, Scrapes},
};
use crate::{desired::Desired, state::State};

/// How often conditions are looked at, besides when one is changed. What arrives meanwhile is looked at
/// together, so that the work is bounded.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a data plane is to believe a level that is not repeated: long enough for another
/// replica to take over and read the metrics anew. Milliseconds.
pub const TTL_MS: u64 = 20_000;

/// The levels of all degradations.
#[derive(Debug)]
pub struct Degrade {
    board: Mutex<Board>,
    levels: watch::Sender<Arc<Levels>>,
    began: Instant,
}

impl Degrade {
    /// Follows the degradations of the desired state for as long as the returned task lives, and works
    /// on them while `leader` says so. A replica that becomes the leader begins without any level:
    /// data planes keep what they were told last for [`TTL_MS`].
    #[must_use]
    pub fn start(
        desired: &Desired,
        scraper: Arc<dyn Scraper>,
        leader: watch::Receiver<bool>,
    ) -> (Arc<Self>, AbortOnDrop<()>) {
        let degrade = Arc::new(Self {
            board: Mutex::default(),
            levels: watch::Sender::new(Arc::default()),
            began: Instant::now(),
        });
        let states = desired.subscribe();
        let working = degrade.clone().work(states, scraper, leader);
        (degrade, AbortOnDrop(task::spawn("degrade", working)))
    }

    /// The levels that hold, and whenever one changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Levels>> {
        self.levels.subscribe()
    }

    /// Calls of tools timed out: requests for this model, by its public name, of a caller with these
    /// tenants, its own and those above.
    pub fn tool_timeouts(&self, model: &str, tenants: &[&str], count: u64) {
        self.board().tool_timeouts(model, tenants, count, self.now());
    }

    /// How the breakers of all targets stand. It is to be told anew at least every ten seconds: what is
    /// older than thirty is not known any more.
    pub fn breakers(&self, breakers: Vec<Breaker>) {
        self.board().breakers(breakers, self.now());
    }

    async fn work(
        self: Arc<Self>,
        mut states: watch::Receiver<Arc<State>>,
        scraper: Arc<dyn Scraper>,
        mut leader: watch::Receiver<bool>,
    ) {
        loop {
            if leader.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let (mut scrapes, mut scraped) = Scrapes::new(scraper.clone());
            self.follow(&mut states, &mut scrapes);
            let mut looks = interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while *leader.borrow_and_update() {
                tokio::select! {
                    changed = leader.changed() => if changed.is_err() { return },
                    changed = states.changed() => match changed {
                        Ok(()) => {
                            self.follow(&mut states, &mut scrapes);
                            self.look();
                        }
                        Err(_) => return,
                    },
                    Some(Scraped { key, samples }) = scraped.recv() => {
                        self.board().scraped(key, samples, self.now());
                    }
                    _ = looks.tick() => self.look(),
                }
            }
            *self.board() = Board::default();
            self.levels.send_replace(Arc::default());
        }
    }

    fn follow(&self, states: &mut watch::Receiver<Arc<State>>, scrapes: &mut Scrapes) {
        let state = states.borrow_and_update().clone();
        let from = ResourceRef::new(Kind::Degradation, "");
        let all = state.resources.range(from..).map(|(_, stored)| &stored.parsed);
        let specs = all.map_while(|resource| match resource {
            Resource::Degradation(spec) => Some(spec),
            _ => None,
        });
        let mut board = self.board();
        let transitions = board.configure(specs, self.now());
        scrapes.follow(&state, board.sources());
        drop(board);
        transitions.iter().for_each(told);
    }

    fn look(&self) {
        let now = self.now();
        let mut board = self.board();
        let transitions = board.evaluate(now);
        let levels = board.levels(now);
        drop(board);
        transitions.iter().for_each(told);
        self.levels.send_if_modified(|before| {
            let same = before.len() == levels.len()
                && before
                    .iter()
                    .zip(&levels)
                    .all(|((name, one), (of, other))| name == of && one.says_what(other));
            if !same {
                *before = Arc::new(levels);
            }
            !same
        });
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { ms, unix_ms: clock::unix_ms() }
    }
}

/// What data planes are told of these levels, again and again.
pub fn directives(levels: &Levels) -> impl Iterator<Item = Directive> {
    let degraded = levels.iter().filter(|(_, published)| published.level != Level::Normal);
    degraded.map(|(name, published)| Directive {
        name: name.clone(),
        level: published.level,
        ttl_ms: TTL_MS,
    })
}

fn told((name, transition): &(String, Transition)) {
    let Transition { from, to, reason } = transition;
    let (from, to) = (from.number(), to.number());
    match reason {
        Reason::Readings { condition, values } => {
            let values: Vec<_> =
                values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let values = values.join(", ");
            tracing::warn!(degradation = name, from, to, condition, values, "the level changes");
        }
        Reason::ByHand { comment } => {
            tracing::warn!(degradation = name, from, to, comment, "an operator sets the level");
        }
        Reason::Initial | Reason::HandEnded | Reason::Redefined => {
            let why = match reason {
                Reason::HandEnded => "what an operator had set is over",
                _ => "the degradation was changed",
            };
            tracing::info!(degradation = name, from, to, why, "the level changes");
        }
    }
}

#[cfg(test)]
mod tests;
