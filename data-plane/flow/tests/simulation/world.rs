//! Callers, the admission and the server, a millisecond at a time.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sluicegate_flow::Class;
use sluicegate_flow::admission::{Admission, Next, Request};
use sluicegate_flow::capacity::{self, Slot};
use sluicegate_flow::queue::Bounds;

use crate::server::Server;

/// Requests that come at random moments.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) per_second: f64,
    pub(crate) tokens: Range<u64>,
    pub(crate) base_ms: u64,
    pub(crate) tokens_per_ms: u64,
    pub(crate) tenant: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Finished(u64),
    Refused(u64),
    Failed(u64),
}

#[derive(Debug)]
struct Call {
    tenant: &'static str,
    tokens: u64,
    takes_ms: u64,
    came_ms: u64,
    began_ms: u64,
    slot: Option<Slot>,
    fate: Fate,
}

#[derive(Debug)]
pub(crate) struct World {
    server: Server,
    admission: Admission<usize>,
    random: fastrand::Rng,
    calls: Vec<Call>,
    pub(crate) longest_line: usize,
}

/// What became of one tenant's requests.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) succeeded: usize,
    pub(crate) refused: usize,
    pub(crate) failed: usize,
    pub(crate) p50_ms: u64,
    pub(crate) p99_ms: u64,
    pub(crate) longest_refusal_ms: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { succeeded, refused, failed, p50_ms, p99_ms, longest_refusal_ms } = self;
        write!(
            formatter,
            "{succeeded} succeeded (p50 {p50_ms} ms, p99 {p99_ms} ms), {refused} refused (within \
             {longest_refusal_ms} ms), {failed} failed"
        )
    }
}

impl World {
    pub(crate) fn new(
        server: Server,
        settings: capacity::Settings,
        bounds: Bounds,
        seed: u64,
    ) -> Self {
        Self {
            server,
            admission: Admission::new(settings, bounds),
            random: fastrand::Rng::with_seed(seed),
            calls: Vec::new(),
            longest_line: 0,
        }
    }

    /// Requests come for so long, and then all that is open ends.
    pub(crate) fn run(&mut self, for_ms: u64, sources: &[Source]) {
        let tenants: HashMap<_, Arc<str>> =
            sources.iter().map(|source| (source.tenant, source.tenant.into())).collect();
        let mut now_ms = 0;
        while now_ms < for_ms || self.calls.iter().any(|call| call.fate == Fate::Open) {
            for job in self.server.step() {
                self.end(job.id, Fate::Finished(now_ms), now_ms);
            }
            self.tell(now_ms);
            for source in sources.iter().filter(|_| now_ms < for_ms) {
                if self.random.f64() < source.per_second / 1_000.0 {
                    self.come(source, &tenants[source.tenant], now_ms);
                }
            }
            self.longest_line = self.longest_line.max(self.admission.view(now_ms).waiting);
            now_ms += 1;
        }
        let view = self.admission.view(now_ms);
        assert_eq!((view.used, view.waiting), Default::default(), "nothing is left");
    }

    fn come(&mut self, source: &Source, tenant: &Arc<str>, now_ms: u64) {
        let tokens = self.random.u64(source.tokens.clone());
        let id = self.calls.len();
        self.calls.push(Call {
            tenant: source.tenant,
            tokens,
            takes_ms: source.base_ms + tokens / source.tokens_per_ms,
            came_ms: now_ms,
            began_ms: 0,
            slot: None,
            fate: Fate::Open,
        });
        let request = Request { tenant, weight: 1, class: Class::Default, cost: tokens };
        match self.admission.enter(&request, now_ms) {
            Ok(slot) => self.begin(id, slot, now_ms),
            Err(_) => match self.admission.wait(&request, now_ms + 60_000, id, now_ms) {
                Ok(waiting) => assert!(waiting.displaced.is_none(), "there is one class"),
                Err(_) => self.calls[id].fate = Fate::Refused(now_ms),
            },
        }
        self.tell(now_ms);
    }

    fn tell(&mut self, now_ms: u64) {
        while let Some(next) = self.admission.next(now_ms) {
            match next {
                Next::Go(id, slot) => self.begin(id, slot, now_ms),
                Next::Refused(id, _) => self.calls[id].fate = Fate::Refused(now_ms),
            }
        }
    }

    fn begin(&mut self, id: usize, slot: Slot, now_ms: u64) {
        let call = &mut self.calls[id];
        (call.slot, call.began_ms) = (Some(slot), now_ms);
        if !self.server.begin(id, call.tokens, call.takes_ms) {
            self.admission.refused(now_ms);
            self.end(id, Fate::Failed(now_ms), now_ms);
        }
    }

    fn end(&mut self, id: usize, fate: Fate, now_ms: u64) {
        let call = &mut self.calls[id];
        call.fate = fate;
        let slot = call.slot.take().expect("it began once and ends once");
        self.admission.leave(slot, now_ms - call.began_ms, now_ms);
    }

    pub(crate) fn report(&self, tenant: &str) -> Report {
        let calls = || self.calls.iter().filter(|call| call.tenant == tenant);
        let mut times: Vec<_> = calls()
            .filter_map(|call| match call.fate {
                Fate::Finished(at) => Some(at - call.came_ms),
                Fate::Open | Fate::Refused(_) | Fate::Failed(_) => None,
            })
            .collect();
        times.sort_unstable();
        let part = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(0);
        let refusals = calls().filter_map(|call| match call.fate {
            Fate::Refused(at) => Some(at - call.came_ms),
            Fate::Open | Fate::Finished(_) | Fate::Failed(_) => None,
        });
        Report {
            succeeded: times.len(),
            refused: refusals.clone().count(),
            failed: calls().filter(|call| matches!(call.fate, Fate::Failed(_))).count(),
            p50_ms: part(50),
            p99_ms: part(99),
            longest_refusal_ms: refusals.max().unwrap_or(0),
        }
    }

    pub(crate) fn finished_between(&self, from_ms: u64, to_ms: u64) -> usize {
        self.count(|fate| matches!(fate, Fate::Finished(at) if (from_ms..to_ms).contains(&at)))
    }

    pub(crate) fn failed_between(&self, from_ms: u64, to_ms: u64) -> usize {
        self.count(|fate| matches!(fate, Fate::Failed(at) if (from_ms..to_ms).contains(&at)))
    }

    fn count(&self, of: impl Fn(Fate) -> bool) -> usize {
        self.calls.iter().filter(|call| of(call.fate)).count()
    }
}
