//! Where limits stand, for people.

use std::sync::Arc;

use sluicegate_model::{
    Kind, ResourceRef, Violation,
    name::near_miss,
    path::Path,
    resource::limit::{Dimension, Window},
    scope::Subject,
};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_store::ledger::{Ledger, LedgerHealth, MeterView};
use sluicegate_telemetry::clock;

use super::{
    meter,
    table::{Entry, Limits, Table},
};
use crate::error::CoreError;

/// Meters in one answer.
const DEFAULT_METERS: usize = 500;
const MAX_METERS: usize = 5_000;

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
            Ok(views) => (views, health(&self.ledger.health().borrow())),
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
    let (limit, tag, subject_text) = meter::split(&view.meter)?;
    let entry: &Entry = table.get(limit)?;
    let unix_ms = clock::unix_ms();
    let subject = meter::subject(subject_text);
    let changed = subject.as_ref().and_then(|subject: &Subject| entry.changed(subject, unix_ms));
    let windows = changed.map_or(&entry.limit.windows, |changed| &changed.windows);
    let window = windows.iter().find(|window| window.tag() == tag)?;
    let dimension = entry.limit.dimension;
    Some(pb::LimitMeter {
        limit: limit.to_owned(),
        dimension: dimension.name().to_owned(),
        subject: subject_text.to_owned(),
        window: meter::window_name(window),
        capacity: amount(capacity(window, view, subject.is_some()), dimension),
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
