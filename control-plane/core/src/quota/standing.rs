//! Where limits stand, for people.

use std::sync::Arc;

use sluicegate_model::{
    Kind, ResourceRef, Violation,
    name::near_miss,
    path::Path,
    resource::limit::{Dimension, Window},
    rule::{Changed, Rule},
    scope::Subject,
};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_store::ledger::{LeaseOp, LeaseStatus, Ledger, LedgerHealth, MeterView};
use sluicegate_telemetry::clock;

use super::{
    meter,
    table::{Limits, Table},
};
use crate::error::CoreError;

/// Meters in one answer.
const DEFAULT_METERS: usize = 500;
const MAX_METERS: usize = 5_000;
/// Operations in one call to the ledger.
const OPS: usize = 256;

/// Reads where limits stand.
#[derive(Debug)]
pub struct Standing {
    limits: Arc<Limits>,
    ledger: Arc<dyn Ledger>,
}

impl Standing {
    pub fn new(limits: Arc<Limits>, ledger: Arc<dyn Ledger>) -> Self {
        Self { limits, ledger }
    }

    /// The meters of one limit, or of all, by limit, window and subject. A ledger that is away is
    /// told in the answer.
    ///
    /// # Errors
    /// When there is no such limit, more is asked for than is given, or the ledger refuses.
    pub async fn read(
        &self,
        request: &pb::LimitStatusRequest,
    ) -> Result<pb::LimitStatusReply, CoreError> {
        let most = match request.most as usize {
            0 => DEFAULT_METERS,
            most if most <= MAX_METERS => most,
            _ => {
                let violation = Violation::new(Path::root().field("most"), "is too large");
                let hint = format!("at most {MAX_METERS} are given");
                return Err(CoreError::Invalid(violation.hint(hint).into()));
            }
        };
        let table = self.limits.table();
        if !request.limit.is_empty() && table.get(&request.limit).is_none() {
            let near = near_miss(&request.limit, table.names()).map(str::to_owned);
            let reference = ResourceRef::new(Kind::Limit, &request.limit);
            return Err(CoreError::NotFound { reference, near });
        }
        let prefix = match request.limit.as_str() {
            "" => String::new(),
            limit => format!("{limit}|"),
        };
        let ledger = format!("{} at {}", self.ledger.kind(), self.ledger.location());
        let (views, mut health) = match self.ledger.meters(&prefix, most).await {
            Ok(views) => {
                let views = self.without_overdue(&table, views).await;
                (views, health(&self.ledger.health().borrow()))
            }
            Err(error) => (Vec::new(), format!("away: {error}")),
        };
        if views.len() == most {
            health.push_str(&format!("; only {most} meters are shown"));
        }
        let mut meters: Vec<_> = views.iter().filter_map(|view| shown(&table, view)).collect();
        meters.sort_by(|one, other| {
            let key = |meter: &pb::LimitMeter| {
                (meter.limit.clone(), meter.window.clone(), meter.subject.clone())
            };
            key(one).cmp(&key(other))
        });
        Ok(pb::LimitStatusReply { meters, ledger, health })
    }
}

impl Standing {
    /// Leases that nobody refreshed end with the next operation on their meter, which may be long in
    /// coming: it is done now, so that nothing is shown as reserved that is not.
    async fn without_overdue(&self, table: &Table, mut views: Vec<MeterView>) -> Vec<MeterView> {
        let Ok(now_ms) = self.ledger.now_ms().await else { return views };
        let held: Vec<_> = (0..views.len())
            .filter_map(|index| {
                let view = views.get(index).filter(|view| view.holders > 0)?;
                Some((index, looking(table, view, now_ms)?))
            })
            .collect();
        for held in held.chunks(OPS) {
            let ops: Vec<_> = held.iter().map(|(_, op)| op.clone()).collect();
            // What cannot be asked is shown as it was read.
            let Ok(states) = self.ledger.lease(&ops).await else { return views };
            for ((index, _), state) in held.iter().zip(states) {
                if let Some(view) = views.get_mut(*index)
                    && state.status != LeaseStatus::OtherWindow
                {
                    (view.used, view.reserved) = (state.used, state.reserved);
                    (view.holders, view.reset_ms) = (state.holders, state.reset_ms);
                }
            }
        }
        views
    }
}

/// An operation that changes nothing but what is overdue; `None` for a limit that is gone.
fn looking(table: &Table, view: &MeterView, now_ms: u64) -> Option<LeaseOp> {
    let Counted { rule, window, .. } = counted(table, view)?;
    Some(LeaseOp {
        meter: view.meter.clone(),
        spec: meter::spec(&rule.limit, window, now_ms)?,
        lease: "looked-at".to_owned(),
        seq: 1,
        charged: 0,
        refunded: 0,
        granted: 0,
        wanted: 0,
        minimum: 0,
        close: true,
        window: 0,
    })
}

/// What a meter counts, by the limits as they are now.
struct Counted<'a> {
    rule: &'a Rule,
    window: &'a Window,
    /// As it stands in the meter's text.
    subject: &'a str,
    /// It is written out, not only its digest.
    known: bool,
    changed: Option<&'a Changed>,
}

/// `None` for what is left of a limit that was changed or deleted.
fn counted<'a>(table: &'a Table, view: &'a MeterView) -> Option<Counted<'a>> {
    let (limit, tag, text) = meter::split(&view.meter)?;
    let rule: &Rule = table.get(limit)?;
    let subject = Subject::parse(text);
    let changed =
        subject.as_ref().and_then(|subject| rule.changed(subject, Some(clock::unix_ms())));
    let windows = changed.map_or(&rule.limit.windows, |changed| &changed.windows);
    let window = windows.iter().find(|window| rule.limit.tag(window) == tag)?;
    Some(Counted { rule, window, subject: text, known: subject.is_some(), changed })
}

/// The health of a ledger in words.
pub fn health(health: &LedgerHealth) -> String {
    match health {
        LedgerHealth::Ready => "ready".to_owned(),
        LedgerHealth::Recovering => "recovering".to_owned(),
        LedgerHealth::Away(reason) => format!("away: {reason}"),
    }
}

/// A meter as people see it; `None` for what is left of a limit that was changed or deleted.
fn shown(table: &Table, view: &MeterView) -> Option<pb::LimitMeter> {
    let Counted { rule, window, subject, known, changed } = counted(table, view)?;
    let dimension = rule.limit.dimension;
    Some(pb::LimitMeter {
        limit: rule.limit.name.clone(),
        dimension: dimension.name().to_owned(),
        subject: subject.to_owned(),
        window: meter::window_name(window),
        capacity: amount(capacity(window, view, known), dimension),
        used: amount(view.used, dimension),
        reserved: amount(view.reserved, dimension),
        holders: view.holders,
        reset_ms: view.reset_ms,
        override_name: changed.map(|changed| changed.name.clone()).unwrap_or_default(),
    })
}

/// As it is configured now; for a subject that is not known, as the ledger was told last.
fn capacity(window: &Window, view: &MeterView, known: bool) -> u64 {
    if known { window.capacity() } else { view.capacity }
}

#[expect(clippy::cast_precision_loss, reason = "amounts have at most 53 bits")]
fn amount(quanta: u64, dimension: Dimension) -> f64 {
    quanta as f64 / dimension.quanta() as f64
}
