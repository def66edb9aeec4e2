//! Degradation levels of the fleet: what servers say of themselves is read, conditions are looked at,
//! and levels published. One replica does it, the leader; the others publish nothing.

mod board;
mod exposition;
mod scrape;
mod status;
mod telling;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate_model::{Violation, path::Path};
use sluicegate_proto::degrade::v1 as pb;
use sluicegate_protocol::degrade::{Nodes, Reason, Report, Transition};
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
pub use telling::{TTL_MS, again, changed, first};

use self::{
    board::{Board, Now},
    scrape::{Scraped, Scrapes},
};
use crate::{desired::Desired, error::CoreError, state::State};

/// How often conditions are looked at, besides when one is changed. What arrives meanwhile is looked at
/// together, so that the work is bounded.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often what data planes tell of breakers is taken together.
const GATHER_EVERY: Duration = Duration::from_secs(1);

/// The levels of all degradations.
#[derive(Debug)]
pub struct Degrade {
    board: Mutex<Board>,
    nodes: Mutex<Nodes>,
    levels: watch::Sender<Arc<Levels>>,
    leader: watch::Receiver<bool>,
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
        let degrade = Arc::new(Self::new(leader));
        let working = degrade.clone().work(desired.subscribe(), scraper);
        (degrade, AbortOnDrop(task::spawn("degrade", working)))
    }

    fn new(leader: watch::Receiver<bool>) -> Self {
        Self {
            board: Mutex::default(),
            nodes: Mutex::default(),
            levels: watch::Sender::new(Arc::default()),
            leader,
            began: Instant::now(),
        }
    }

    /// The levels that hold, and whenever one changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Levels>> {
        self.levels.subscribe()
    }

    /// Whether this replica works on degradations, and whenever that changes.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leader.clone()
    }

    /// Takes in what a data plane has seen. What it tells a second time counts once.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], with nothing done, when the request is none that a data plane makes.
    pub fn report(&self, request: pb::ReportRequest) -> Result<(), CoreError> {
        let report = Report::try_from(request).map_err(|fault| {
            let violation = Violation::new(Path::root(), fault.to_string());
            CoreError::Invalid(violation.hint("this build takes no such report").into())
        })?;
        let timeouts = self.nodes().take(report, self.now().ms);
        for one in timeouts {
            let tenants: Vec<_> = one.tenants.iter().map(String::as_str).collect();
            self.tool_timeouts(&one.model, &tenants, one.count.into());
        }
        Ok(())
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
    ) {
        let mut leader = self.leader.clone();
        loop {
            if leader.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let (mut scrapes, mut scraped) = Scrapes::new(scraper.clone());
            self.follow(&mut states, &mut scrapes);
            let mut looks = interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut gathers = interval(GATHER_EVERY);
            gathers.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                    _ = gathers.tick() => self.gather(),
                }
            }
            *self.board() = Board::default();
            *self.nodes() = Nodes::default();
            self.levels.send_replace(Arc::default());
        }
    }

    fn follow(&self, states: &mut watch::Receiver<Arc<State>>, scrapes: &mut Scrapes) {
        let state = states.borrow_and_update().clone();
        let mut board = self.board();
        let transitions = board.configure(status::specs(&state), self.now());
        scrapes.follow(&state, board.sources());
        drop(board);
        transitions.iter().for_each(told);
    }

    /// What data planes tell of breakers, taken together.
    fn gather(&self) {
        let seen = self.nodes().breakers(self.now().ms);
        if !seen.is_empty() {
            let breakers = seen.into_iter();
            self.breakers(
                breakers.map(|one| Breaker { model: one.model, open: one.open }).collect(),
            );
        }
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

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { ms, unix_ms: clock::unix_ms() }
    }
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
