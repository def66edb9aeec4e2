//! Every data plane that is connected, or was a short while ago: what it runs and what it refused.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate_protocol::policy::{Follower, Lane, Point};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// How long a data plane is remembered that is not connected.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The data planes of this replica.
#[derive(Debug)]
pub struct Fleet {
    inner: Mutex<Inner>,
    /// Counts changes, so that waiting needs no polling.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    head: Option<Point>,
    last_session: u64,
    /// By name; of two streams with one name the newer counts.
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    session: u64,
    follower: Follower,
    peer: String,
    /// Since when it is not connected.
    gone: Option<Instant>,
    /// Since when it does not run the head.
    behind: Option<Instant>,
}

/// A data plane, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct DataPlane {
    pub follower: Follower,
    /// Address that its stream comes from.
    pub peer: String,
    pub connected: bool,
    /// How long it has not run the head; zero: it does.
    pub lag: Duration,
}

/// How far a revision has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Data planes that run it.
    pub acknowledged: usize,
    /// Data planes that are connected.
    pub connected: usize,
    /// Names of connected ones that do not run it.
    pub behind: Vec<String>,
}

impl Fleet {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), changed: watch::Sender::new(0) })
    }

    /// The configuration moved: from now on, whoever runs something else is behind.
    pub fn head_moved(&self, head: Point) {
        self.update(|inner| {
            inner.head = Some(head);
            let Inner { head, nodes, .. } = inner;
            nodes.values_mut().for_each(|node| node.measure(head.as_ref()));
        });
    }

    /// A stream of a data plane began. It counts once it has reported, until the session is dropped.
    #[must_use]
    pub fn session(self: &Arc<Self>, peer: String) -> Session {
        let mut inner = self.lock();
        inner.last_session += 1;
        Session { fleet: self.clone(), id: inner.last_session, peer, node: None }
    }

    /// Every data plane by name.
    pub fn list(&self) -> Vec<DataPlane> {
        let now = Instant::now();
        let shown = |node: &Node| DataPlane {
            follower: node.follower.clone(),
            peer: node.peer.clone(),
            connected: node.gone.is_none(),
            lag: node.behind.map_or(Duration::ZERO, |since| now.duration_since(since)),
        };
        let mut inner = self.lock();
        inner.forget(now);
        inner.nodes.values().map(shown).collect()
    }

    /// How many are connected.
    pub fn connected(&self) -> usize {
        self.lock().nodes.values().filter(|node| node.gone.is_none()).count()
    }

    /// How far a revision has come now. `lane`: the one that a data plane may have it by, if it has it not
    /// by the configuration.
    pub fn progress(&self, at: &Point, lane: Lane) -> Progress {
        self.look(at, lane).0
    }

    /// Waits until this share of the connected data planes runs `at`, at most for `patience`, and
    /// not once so many have refused it that the share cannot be reached. Then tells how far it came.
    pub async fn wait_for(
        &self,
        at: &Point,
        lane: Lane,
        fraction: f32,
        patience: Duration,
    ) -> Progress {
        let deadline = Instant::now() + patience;
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (progress, refused) = self.look(at, lane);
            let share = |count: usize| count as f64 / progress.connected.max(1) as f64;
            let wanted = f64::from(fraction) - 1e-6;
            if progress.connected == 0
                || share(progress.acknowledged) >= wanted
                || share(progress.connected - refused) < wanted
            {
                return progress;
            }
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return self.progress(at, lane);
            }
        }
    }

    /// How far a revision has come, and how many refused it.
    fn look(&self, at: &Point, lane: Lane) -> (Progress, usize) {
        let inner = self.lock();
        let mut progress = Progress::default();
        let mut refused = 0;
        for (name, node) in inner.nodes.iter().filter(|(_, node)| node.gone.is_none()) {
            progress.connected += 1;
            let lanes = &node.follower.lanes;
            let has = |lane| runs(lanes.get(lane).at.as_ref(), at, inner.head.as_ref());
            if has(Lane::Config) || has(lane) {
                progress.acknowledged += 1;
            } else {
                let refuses = runs(lanes.config.refused.as_ref(), at, inner.head.as_ref());
                refused += usize::from(refuses && lane == Lane::Config);
                progress.behind.push(name.clone());
            }
        }
        (progress, refused)
    }

    fn update(&self, update: impl FnOnce(&mut Inner)) {
        {
            let mut inner = self.lock();
            update(&mut inner);
            inner.forget(Instant::now());
        }
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget(&mut self, now: Instant) {
        let fresh = |since: Instant| now.duration_since(since) < REMEMBERED;
        self.nodes.retain(|_, node| node.gone.is_none_or(fresh));
    }
}

impl Node {
    fn measure(&mut self, head: Option<&Point>) {
        match head {
            Some(head) if !runs(self.follower.lanes.config.at.as_ref(), head, Some(head)) => {
                self.behind.get_or_insert_with(Instant::now);
            }
            _ => self.behind = None,
        }
    }
}

/// Is `has` the point `wanted` or a later one, up to the head? What lies beyond the head is of a
/// history that the store has lost, or that this replica has not read yet: it proves nothing.
fn runs(has: Option<&Point>, wanted: &Point, head: Option<&Point>) -> bool {
    let newest = head.map_or(0, |head| head.revision).max(wanted.revision);
    has.is_some_and(|has| {
        has.epoch == wanted.epoch && (wanted.revision..=newest).contains(&has.revision)
    })
}

/// One stream's entry in the fleet; dropping it says that the stream has ended.
#[derive(Debug)]
pub struct Session {
    fleet: Arc<Fleet>,
    id: u64,
    peer: String,
    node: Option<String>,
}

impl Session {
    /// The data plane's view of itself changed.
    pub fn report(&mut self, follower: Follower) {
        let name = self.node.get_or_insert_with(|| follower.node.node_id.clone()).clone();
        let (id, peer) = (self.id, self.peer.clone());
        self.fleet.update(|inner| {
            if let Some(other) = inner.nodes.get(&name) {
                if other.session > id {
                    // A newer stream of the same data plane speaks for it.
                    return;
                }
                let twin = other.session != id
                    && other.gone.is_none()
                    && other.follower.node.incarnation != follower.node.incarnation;
                if twin {
                    tracing::warn!(
                        node = name,
                        was = other.peer,
                        now = peer,
                        "a data plane of this name is connected already; two must not share a name"
                    );
                }
            }
            let behind = inner.nodes.get(&name).and_then(|node| node.behind);
            let mut node = Node { session: id, follower, peer, gone: None, behind };
            node.measure(inner.head.as_ref());
            inner.nodes.insert(name, node);
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(name) = self.node.take() else { return };
        self.fleet.update(|inner| {
            if let Some(node) = inner.nodes.get_mut(&name)
                && node.session == self.id
            {
                node.gone = Some(Instant::now());
            }
        });
    }
}
