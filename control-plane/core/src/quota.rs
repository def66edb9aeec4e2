//! What data planes may draw on limits that the whole fleet shares: finds the limit and the override
//! that an operation is about, and asks the ledger.

mod meter;
mod reading;
pub mod standing;
mod table;

use std::{sync::Arc, time::Duration};

use sluicegate_model::{Violation, path::Path, rule::Rule, scope::Subject};
use sluicegate_proto::quota::v1 as pb;
use sluicegate_store::{
    StoreError,
    ledger::{LeaseOp, LeaseState, LeaseStatus, Ledger, MAX_AMOUNT},
};
use sluicegate_telemetry::clock;

pub use self::table::{Limits, Table};
use crate::{error::CoreError, ledger_clock::LedgerClock};

/// How long a request waits for the revision that the data plane runs.
const CATCH_UP: Duration = Duration::from_millis(200);

/// Answers data planes.
#[derive(Debug)]
pub struct Quota {
    limits: Arc<Limits>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<LedgerClock>,
}

/// One operation that the ledger is asked to do, and where its answer belongs.
struct Asked<'a> {
    index: usize,
    entry: Arc<Rule>,
    subject: Subject,
    wire: &'a pb::LeaseOp,
    op: LeaseOp,
}

impl Quota {
    pub fn new(limits: Arc<Limits>, ledger: Arc<dyn Ledger>, clock: Arc<LedgerClock>) -> Self {
        Self { limits, ledger, clock }
    }

    /// Does the operations of one request and answers each in turn. A ledger that does not answer
    /// is told in each answer, at once.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], with nothing done, when the request is none that a data plane makes.
    pub async fn lease(&self, request: &pb::LeaseRequest) -> Result<pb::LeaseReply, CoreError> {
        let subjects = reading::subjects(request)?;
        let table = self.limits.at_least(request.policy_revision, CATCH_UP).await;
        let states = match self.states(request, subjects, &table).await {
            Ok(states) => states,
            Err(error) => {
                match &error {
                    // Its health says so already, once.
                    StoreError::Unavailable { .. } => tracing::debug!(%error, "no leases"),
                    _ => tracing::warn!(%error, node = request.node_id, "no leases"),
                }
                vec![only(pb::LeaseStatus::Unavailable); request.ops.len()]
            }
        };
        Ok(pb::LeaseReply { states })
    }

    async fn states(
        &self,
        request: &pb::LeaseRequest,
        subjects: Vec<Subject>,
        table: &Table,
    ) -> Result<Vec<pb::LeaseState>, StoreError> {
        let mut states = vec![only(pb::LeaseStatus::UnknownLimit); request.ops.len()];
        let now_ms = self.clock.now_ms().await?;
        let asked =
            request.ops.iter().zip(subjects).enumerate().filter_map(|(index, (wire, subject))| {
                let entry = table.get(&wire.meter.as_ref()?.limit)?.clone();
                let op = op(request.incarnation, wire, &entry, &subject, now_ms)?;
                Some(Asked { index, entry, subject, wire, op })
            });
        let mut asked: Vec<_> = asked.collect();
        let mut moved = self.ask(&asked, &mut states).await?;
        if let Some(now_ms) = moved.first().map(|(_, now_ms)| *now_ms) {
            // The ledger's time is in other windows than this replica thought: as of now it is known.
            asked.retain(|one| moved.iter().any(|(index, _)| *index == one.index));
            asked.retain_mut(|one| {
                let again = op(request.incarnation, one.wire, &one.entry, &one.subject, now_ms);
                again.map(|again| one.op = again).is_some()
            });
            moved = self.ask(&asked, &mut states).await?;
            if !moved.is_empty() {
                tracing::error!("the ledger refuses the windows of its own time");
            }
        }
        Ok(states)
    }

    /// Asks the ledger and files its answers. Gives those whose windows were others, with the
    /// ledger's time; they stand as unavailable.
    async fn ask(
        &self,
        asked: &[Asked<'_>],
        states: &mut [pb::LeaseState],
    ) -> Result<Vec<(usize, u64)>, StoreError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let ops: Vec<_> = asked.iter().map(|one| one.op.clone()).collect();
        let answers = self.ledger.lease(&ops).await?;
        if answers.len() != ops.len() {
            let reason = format!("{} answers to {} operations", answers.len(), ops.len());
            return Err(StoreError::Unavailable { store: self.ledger.kind(), reason });
        }
        if let Some(last) = answers.last() {
            self.clock.saw(last.now_ms);
        }
        let mut moved = Vec::new();
        for (one, answer) in asked.iter().zip(&answers) {
            if answer.status == LeaseStatus::OtherWindow {
                moved.push((one.index, answer.now_ms));
            }
            if let Some(state) = states.get_mut(one.index) {
                *state = told(answer, &one.op);
            }
        }
        Ok(moved)
    }
}

/// What the ledger is to do; `None` when the limit has no such window.
fn op(
    incarnation: u64,
    wire: &pb::LeaseOp,
    entry: &Rule,
    subject: &Subject,
    now_ms: u64,
) -> Option<LeaseOp> {
    let pb::Meter { window_s, tag, .. } = wire.meter.as_ref()?;
    // Overrides end when the operator's clock says so: that is the time they were written in.
    let windows = entry.windows(subject, Some(clock::unix_ms()));
    let window = windows.iter().find(|window| window.window_s() == *window_s)?;
    // What the data plane counts may be what the limit counted before it was changed.
    if !tag.is_empty() && *tag != entry.limit.tag(window) {
        return None;
    }
    Some(LeaseOp {
        meter: meter::text(&entry.limit, window, subject),
        spec: meter::spec(&entry.limit, window, now_ms)?,
        lease: format!("{incarnation:016x}-{:016x}", wire.lease),
        seq: wire.seq,
        charged: wire.charged.min(MAX_AMOUNT),
        refunded: wire.refunded.min(MAX_AMOUNT),
        granted: wire.granted.min(MAX_AMOUNT),
        wanted: wire.wanted.min(MAX_AMOUNT),
        minimum: wire.minimum.min(MAX_AMOUNT),
        close: wire.close,
        window: wire.window,
    })
}

/// A state that says nothing but its status.
fn only(status: pb::LeaseStatus) -> pb::LeaseState {
    pb::LeaseState { status: status.into(), ..pb::LeaseState::default() }
}

fn told(state: &LeaseState, op: &LeaseOp) -> pb::LeaseState {
    let status = match state.status {
        LeaseStatus::Granted => pb::LeaseStatus::Granted,
        LeaseStatus::Partial => pb::LeaseStatus::Partial,
        LeaseStatus::Denied => pb::LeaseStatus::Denied,
        LeaseStatus::Expired => pb::LeaseStatus::Expired,
        LeaseStatus::WindowOver => pb::LeaseStatus::WindowOver,
        LeaseStatus::OtherWindow => return only(pb::LeaseStatus::Unavailable),
        LeaseStatus::Overtaken => pb::LeaseStatus::Overtaken,
        LeaseStatus::Recovering => pb::LeaseStatus::Recovering,
    };
    pb::LeaseState {
        status: status.into(),
        granted: state.granted,
        ttl_ms: u32::try_from(op.spec.ttl_ms).unwrap_or(u32::MAX),
        capacity: op.spec.capacity,
        used: state.used,
        reserved: state.reserved,
        holders: state.holders,
        retry_ms: state.retry_ms,
        reset_ms: state.reset_ms,
        window: state.window,
        window_left_ms: state.window_left_ms,
        only_reserved: state.only_reserved,
    }
}

/// A fault of one operation.
fn fault(index: usize, field: &str, what: &str, hint: &str) -> Violation {
    let path = Path::root().field("ops").index(index);
    let path = field.split('.').fold(path, |path, part| path.field(part));
    Violation::new(path, what).hint(hint)
}
