//! How a credential stands, for people.

use sluicegate_model::{Kind, Resource, ResourceRef, resource::Credential};
use sluicegate_proto::admin::v1 as pb;
use sluicegate_protocol::pool::Cell;

use crate::state::State;

/// Every credential, by name.
pub(super) fn credentials(state: &State) -> impl Iterator<Item = &Credential> {
    let from = ResourceRef::new(Kind::Credential, "");
    let all = state.resources.range(from..);
    let all = all.take_while(|(reference, _)| reference.kind == Kind::Credential);
    all.filter_map(|(_, stored)| match &stored.parsed {
        Resource::Credential(spec) => Some(spec),
        _ => None,
    })
}

/// How it stands, with everything that is known of it.
pub(super) fn of(spec: &Credential, mut cells: Vec<Cell>) -> pb::CredentialStatus {
    cells.retain(|cell| !cell.cleared);
    cells.sort_by(|a, b| a.key.cmp(&b.key));
    let told = telling(&cells).filter(|_| !spec.disabled);
    pb::CredentialStatus {
        credential: spec.name.clone(),
        provider: spec.provider.clone(),
        account: spec.account.clone().unwrap_or_default(),
        state: name(spec, &cells).to_owned(),
        left_ms: told.map_or(0, |cell| cell.left_ms),
        reason: told.map(|cell| cell.reason.clone()).unwrap_or_default(),
        model: told.map(|cell| cell.key.model.clone()).unwrap_or_default(),
        cells: cells.iter().map(Cell::to_proto).collect(),
    }
}

/// The state in one word.
pub(super) fn name(spec: &Credential, cells: &[Cell]) -> &'static str {
    match telling(cells) {
        _ if spec.disabled => "disabled",
        Some(cell) if cell.left_ms > 0 => cell.state.name(),
        Some(_) => "trial",
        None => "up",
    }
}

/// The cell that says most: one for every model before one for a single one, and what ends last.
fn telling(cells: &[Cell]) -> Option<&Cell> {
    let lasting = cells.iter().filter(|cell| !cell.cleared && cell.left_ms > 0);
    let tried = cells.iter().filter(|cell| {
        !cell.cleared && cell.left_ms == 0 && !cell.key.operator && !cell.state.just_ends()
    });
    let rank = |cell: &&Cell| (cell.key.model.is_empty(), cell.left_ms);
    lasting.max_by_key(rank).or_else(|| tried.max_by_key(rank))
}
