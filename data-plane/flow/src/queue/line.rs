//! One class of the queue: fair among tenants, and the newest first when it is late.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair queueing: a scheduling algorithm for
//! integrated services packet switching networks", SIGCOMM 1996): of the first request of each tenant the one
//! whose start tag is least goes; the tenant's next start is later by cost / weight. A tenant that comes
//! starts at the tag that was served last, so that nobody saves up a share by keeping quiet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Item, Lanes};

/// The oldest has waited so long: the queue is late. Milliseconds.
const LATE_MS: u64 = 500;
/// It is late for so long: the newest go first. Milliseconds.
const LATE_FOR_MS: u64 = 1_000;
/// A token of a tenant of weight 1, in tags.
const TAG: u128 = 1 << 32;
/// How many tenants with nothing waiting are remembered for their tags.
const REMEMBERED: usize = 1_024;

const SMALL: usize = 0;
const LARGE: usize = 1;

/// Where a flow stands among the ready ones: its tag, then the order of coming.
type Rank = (u128, u64);

#[derive(Debug)]
pub(super) struct Line<T> {
    flows: HashMap<Arc<str>, Flow<T>>,
    /// The flows that have small ones waiting, and large ones.
    ready: [BTreeMap<Rank, Arc<str>>; 2],
    /// Where each waiting one is; in the order of coming.
    places: BTreeMap<u64, Place>,
    /// The start tag served last.
    served: u128,
    flow_count: u64,
    /// The room that all who wait need.
    room: u64,
    /// The weights of the tenants that have some waiting.
    weights: u64,
    late_since_ms: Option<u64>,
    newest_first: bool,
}

/// What one tenant has waiting.
#[derive(Debug)]
struct Flow<T> {
    number: u64,
    weight: u32,
    /// The start tag of its next request.
    start: u128,
    lanes: [BTreeMap<u64, Item<T>>; 2],
}

#[derive(Debug)]
struct Place {
    tenant: Arc<str>,
    lane: usize,
    entered_ms: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            flows: HashMap::new(),
            ready: [BTreeMap::new(), BTreeMap::new()],
            places: BTreeMap::new(),
            served: 0,
            flow_count: 0,
            room: 0,
            weights: 0,
            late_since_ms: None,
            newest_first: false,
        }
    }
}

impl<T> Flow<T> {
    fn rank(&self) -> Rank {
        (self.start, self.number)
    }

    fn is_empty(&self) -> bool {
        self.lanes.iter().all(BTreeMap::is_empty)
    }
}

impl<T> Line<T> {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many of those who wait go before a newcomer of this tenant, and what room they need: all, or
    /// what goes meanwhile by its tenant's share if that is less.
    pub(super) fn before(&self, tenant: &Arc<str>, weight: u32) -> (f64, f64) {
        let flow = self.flows.get(tenant).filter(|flow| !flow.is_empty());
        let own = flow.map_or(0, |flow| flow.lanes.iter().map(BTreeMap::len).sum());
        let others = self.weights.saturating_sub(flow.map_or(0, |flow| u64::from(flow.weight)));
        let share = 1.0 + others as f64 / f64::from(weight.max(1));
        let count = (self.len() as f64).min((own + 1) as f64 * share - 1.0);
        // Of the same size on average.
        (count, self.room as f64 * count / (self.len() as f64).max(1.0))
    }

    pub(super) fn newest_first(&self) -> bool {
        self.newest_first
    }

    pub(super) fn has(&self, lanes: Lanes) -> bool {
        let [small, large] = &self.ready;
        !small.is_empty() || (lanes == Lanes::All && !large.is_empty())
    }

    /// Milliseconds since when the oldest waits.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.places.first_key_value().map(|(_, place)| place.entered_ms)
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.places.last_key_value().map(|(sequence, _)| *sequence)
    }

    /// The room that all who wait need. Tokens.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// The newest of one tenant.
    pub(super) fn newest_of(&self, tenant: &Arc<str>) -> Option<u64> {
        let lanes = self.flows.get(tenant)?.lanes.iter();
        lanes.filter_map(|items| items.last_key_value()).map(|(sequence, _)| *sequence).max()
    }

    pub(super) fn push(&mut self, sequence: u64, item: Item<T>) {
        let weight = item.weight.max(1);
        let lane = if item.large { LARGE } else { SMALL };
        let place = Place { tenant: Arc::clone(&item.tenant), lane, entered_ms: item.entered_ms };
        self.room = self.room.saturating_add(item.room);
        let flow = match self.flows.get_mut(&item.tenant) {
            Some(flow) => flow,
            None => {
                self.flow_count += 1;
                self.flows.entry(Arc::clone(&item.tenant)).or_insert(Flow {
                    number: self.flow_count,
                    weight,
                    start: self.served,
                    lanes: [BTreeMap::new(), BTreeMap::new()],
                })
            }
        };
        if flow.is_empty() {
            flow.start = flow.start.max(self.served);
        } else {
            self.weights = self.weights.saturating_sub(u64::from(flow.weight));
        }
        flow.weight = weight;
        self.weights += u64::from(weight);
        let rank = flow.rank();
        if let Some(items) = flow.lanes.get_mut(lane) {
            items.insert(sequence, item);
        }
        if let Some(ready) = self.ready.get_mut(lane) {
            ready.insert(rank, Arc::clone(&place.tenant));
        }
        self.places.insert(sequence, place);
    }

    /// Whose turn it is: the sequence number and the item.
    pub(super) fn head(&self, lanes: Lanes) -> Option<(u64, &Item<T>)> {
        let first = |lane: usize| self.ready.get(lane)?.first_key_value().map(|(rank, _)| *rank);
        let (small, large) = (first(SMALL), first(LARGE).filter(|_| lanes == Lanes::All));
        let (lane, other) = match (small, large) {
            (Some(small), Some(large)) if small == large => (SMALL, Some(LARGE)),
            (Some(small), Some(large)) => (if small < large { SMALL } else { LARGE }, None),
            (Some(_), None) => (SMALL, None),
            (None, Some(_)) => (LARGE, None),
            (None, None) => return None,
        };
        let (_, tenant) = self.ready.get(lane)?.first_key_value()?;
        let flow = self.flows.get(tenant)?;
        let end = |lane: usize| {
            let items = flow.lanes.get(lane)?;
            if self.newest_first { items.last_key_value() } else { items.first_key_value() }
        };
        let (one, two) = (end(lane)?, other.and_then(end));
        let (sequence, item) = match two {
            Some(two) if (two.0 < one.0) != self.newest_first => two,
            _ => one,
        };
        Some((*sequence, item))
    }

    /// Takes one out because it goes: its tenant has used that much of its share.
    pub(super) fn serve(&mut self, sequence: u64) -> Option<Item<T>> {
        self.take(sequence, true)
    }

    /// Takes one out that does not go: nobody's share is touched.
    pub(super) fn remove(&mut self, sequence: u64) -> Option<Item<T>> {
        self.take(sequence, false)
    }

    #[cfg(test)]
    pub(super) fn weights(&self) -> u64 {
        self.weights
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.flows.len() + self.ready.iter().map(BTreeMap::len).sum::<usize>()
    }

    fn take(&mut self, sequence: u64, served: bool) -> Option<Item<T>> {
        let place = self.places.remove(&sequence)?;
        let flow = self.flows.get_mut(&place.tenant)?;
        let item = flow.lanes.get_mut(place.lane)?.remove(&sequence)?;
        self.room = self.room.saturating_sub(item.room);
        let before = flow.rank();
        if served {
            self.served = self.served.max(flow.start);
            let share = u128::from(item.cost.max(1)) * TAG / u128::from(flow.weight);
            flow.start = flow.start.saturating_add(share.max(1));
        }
        if flow.is_empty() {
            self.weights = self.weights.saturating_sub(u64::from(flow.weight));
        }
        let after = flow.rank();
        for (ready, items) in self.ready.iter_mut().zip(&flow.lanes) {
            let tenant = ready.remove(&before);
            if !items.is_empty() {
                ready.insert(after, tenant.unwrap_or_else(|| Arc::clone(&place.tenant)));
            }
        }
        self.forget(&place.tenant);
        Some(item)
    }

    /// Forgets tenants with nothing waiting whose tags say nothing any more; all when nobody waits, as
    /// shares are shares of what is short.
    fn forget(&mut self, left: &Arc<str>) {
        let served = self.served;
        let spent = |flow: &Flow<T>| flow.is_empty() && flow.start <= served;
        if self.places.is_empty() {
            self.flows.clear();
            self.served = 0;
        } else if self.flows.get(left).is_some_and(spent) {
            self.flows.remove(left);
        } else if self.flows.len() > REMEMBERED + 2 * self.places.len() {
            self.flows.retain(|_, flow| !flow.is_empty());
        }
    }

    /// Decides who is first, the oldest or the newest. When all are late, the oldest will miss their
    /// deadlines in any case; the newest still can be in time (Maurer, "Fail at scale", ACM Queue 13,
    /// 2015).
    pub(super) fn turn(&mut self, now_ms: u64) {
        let waited_ms = self.oldest_ms().map_or(0, |since| now_ms.saturating_sub(since));
        if waited_ms <= LATE_MS {
            self.late_since_ms = None;
        } else {
            self.late_since_ms.get_or_insert(now_ms);
        }
        self.newest_first =
            self.late_since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= LATE_FOR_MS);
    }
}
