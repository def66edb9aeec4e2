//! Between the core's types and the messages of the admin API.

use std::{collections::BTreeSet, time::Duration};

use sluicegate_control_core::{
    Change, DataPlane, Desire, Difference, Outcome, Progress, Stored, history,
};
use sluicegate_model::{Kind, ResourceRef, Violation, Violations, path::Path, resource::redacted};
use sluicegate_proto::{admin::v1 as pb, policy::v1::Point as PbPoint, resource::v1 as resource};
use sluicegate_protocol::policy::{Lanes, Point};

/// How long to wait for data planes when the request does not say.
const DEFAULT_WAIT_MS: u32 = 10_000;
const MAX_WAIT_MS: u32 = 60_000;

/// How long to wait for which share of the data planes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wait {
    pub(crate) fraction: f32,
    pub(crate) patience: Duration,
}

/// Reads a reference at `path`.
pub(crate) fn reference(
    wire: Option<&resource::ResourceRef>,
    path: &Path,
) -> Result<ResourceRef, Violation> {
    let Some(wire) = wire else {
        return Err(Violation::new(path.clone(), "is missing").hint("name a kind and a name"));
    };
    let reference = ResourceRef::try_from(wire).map_err(|error| {
        Violation::new(path.field("kind"), error.to_string()).hint("use one of them")
    })?;
    if reference.name.is_empty() {
        return Err(Violation::new(path.field("name"), "is missing").hint("name the resource"));
    }
    Ok(reference)
}

/// Reads a list of kinds; an empty one stays empty.
pub(crate) fn kinds(wire: &[String], field: &str) -> Result<BTreeSet<Kind>, Violations> {
    let mut found = Violations::default();
    let mut kinds = BTreeSet::new();
    for (index, text) in wire.iter().enumerate() {
        match text.parse::<Kind>() {
            Ok(kind) => drop(kinds.insert(kind)),
            Err(error) => {
                let path = Path::root().field(field).index(index);
                found.0.push(Violation::new(path, error.to_string()).hint("use one of them"));
            }
        }
    }
    found.or(kinds)
}

/// Reads the changes of a request.
pub(crate) fn changes(wire: Vec<pb::Change>) -> Result<Vec<Change>, Violations> {
    let mut found = Violations::default();
    let mut changes = Vec::with_capacity(wire.len());
    for (index, change) in wire.into_iter().enumerate() {
        let path = Path::root().field("changes").index(index);
        let desire = match change.change {
            Some(pb::change::Change::Put(wire)) => Ok(Desire::Put(wire)),
            Some(pb::change::Change::Delete(wire)) => {
                reference(Some(&wire), &path.field("delete")).map(Desire::Delete)
            }
            None => Err(Violation::new(path, "is empty").hint("set put or delete")),
        };
        match desire {
            Ok(desire) => changes.push(Change { desire, expect_version: change.expect_version }),
            Err(violation) => found.0.push(violation),
        }
    }
    found.or(changes)
}

/// Reads how long to wait; `None`: not at all.
pub(crate) fn wait(wire: Option<pb::WaitFor>) -> Result<Option<Wait>, Violation> {
    let Some(wire) = wire else { return Ok(None) };
    let path = Path::root().field("wait");
    if !(0.0..=1.0).contains(&wire.fraction) {
        return Err(Violation::new(path.field("fraction"), "is not a share").hint("use 0 to 1"));
    }
    if wire.timeout_ms > MAX_WAIT_MS {
        let violation = Violation::new(path.field("timeout_ms"), "is too long");
        return Err(violation.hint(format!("wait at most {MAX_WAIT_MS} ms")));
    }
    let timeout_ms = if wire.timeout_ms == 0 { DEFAULT_WAIT_MS } else { wire.timeout_ms };
    let patience = Duration::from_millis(timeout_ms.into());
    Ok(Some(Wait { fraction: wire.fraction, patience }))
}

/// A resource as people may see it.
pub(crate) fn shown(stored: &Stored) -> pb::VersionedResource {
    pb::VersionedResource { resource: Some(redacted(&stored.wire)), version: stored.version }
}

pub(crate) fn point(point: &Point) -> Option<PbPoint> {
    Some(point.to_proto())
}

pub(crate) fn difference(difference: &Difference) -> pb::Difference {
    use pb::difference::Action;
    let action = match (&difference.before, &difference.after) {
        (_, None) => Action::Delete,
        (None, Some(_)) => Action::Create,
        (Some(_), Some(_)) => Action::Update,
    };
    pb::Difference {
        r#ref: Some(difference.reference.to_proto()),
        action: action.into(),
        before: difference.before.clone(),
        after: difference.after.clone(),
    }
}

/// The answer to a change, with how far it has come when that was waited for.
pub(crate) fn apply_reply(outcome: &Outcome, progress: Option<Progress>) -> pb::ApplyReply {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let progress = progress.unwrap_or_default();
    pb::ApplyReply {
        at: point(&outcome.at),
        differences: outcome.differences.iter().map(difference).collect(),
        acknowledged: count(progress.acknowledged),
        connected: count(progress.connected),
        behind: progress.behind,
        repeated_call: outcome.repeated,
    }
}

pub(crate) fn history_entry(entry: &history::Entry) -> pb::HistoryEntry {
    pb::HistoryEntry {
        revision: entry.revision,
        time_unix_ms: entry.time_unix_ms,
        author: entry.author.clone(),
        comment: entry.comment.clone(),
        differences: entry.differences.iter().map(difference).collect(),
    }
}

pub(crate) fn data_plane(plane: DataPlane) -> pb::DataPlane {
    let follower = plane.follower;
    let Lanes { keys, config } = follower.lanes;
    pb::DataPlane {
        acknowledged: config.at.as_ref().map(Point::to_proto),
        keys: keys.at.as_ref().map(Point::to_proto),
        node: Some(follower.node),
        lag_ms: u64::try_from(plane.lag.as_millis()).unwrap_or(u64::MAX),
        rejected: config.rejected,
        error: config.error,
        persisted_revision: follower.persisted_revision,
        requests_in_flight: follower.requests_in_flight,
        uptime_ms: follower.uptime_ms,
        peer: plane.peer,
        connected: plane.connected,
        ledger: follower.ledger,
    }
}
