//! Returning to an earlier revision, as a new change.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use sluicegate_model::ResourceRef;
use sluicegate_proto::resource::v1 as pb;
use sluicegate_store::Revision;

use super::{ATTEMPTS, Applier, Attempt, Change, Desire, Outcome, Readings, Request};
use crate::{
    error::CoreError,
    state::{State, reference_in},
};

/// Records read before it is looked whether they reach far enough.
const PAGE: usize = 64;

impl Applier {
    /// Undoes every change after `to`, as a new change. `rest` says how: its changes are not used.
    ///
    /// # Errors
    /// As [`Applier::apply`]; [`CoreError::HistoryTooShort`] and [`CoreError::RevisionAhead`] when
    /// `to` is out of reach.
    pub async fn rollback(&self, to: Revision, rest: &Request) -> Result<Outcome, CoreError> {
        let _turn = self.turn.lock().await;
        for _ in 0..ATTEMPTS {
            let state = self.newest().await?;
            let changes = self.undo(&state, to).await?;
            let readings: Readings = changes.iter().map(|_| None).collect();
            let request = Request { changes, ..rest.clone() };
            // The changes undo everything up to this head; should it move, they are found anew.
            if let Attempt::Done(outcome) = self.attempt(&state, &request, &readings, None).await? {
                return Ok(outcome);
            }
        }
        Err(CoreError::Contended { attempts: ATTEMPTS })
    }

    /// The changes that lead from `state` back to revision `to`.
    async fn undo(&self, state: &State, to: Revision) -> Result<Vec<Change>, CoreError> {
        if to > state.revision {
            return Err(CoreError::RevisionAhead { asked: to, head: state.revision });
        }
        let mut before: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
        let mut next = state.sequence;
        let mut oldest = state.revision;
        'walk: while next > 0 {
            let records = self.history.records(next, PAGE).await?;
            if records.is_empty() {
                return Err(CoreError::HistoryTooShort { asked: to, oldest });
            }
            for (sequence, revision, record) in records {
                if revision <= to {
                    break 'walk;
                }
                // Older records come later and know the older value.
                before.extend(record.changes.into_iter().map(|was| (was.resource, was.before)));
                oldest = revision;
                next = sequence - 1;
            }
        }
        before.into_iter().map(|(name, bytes)| change(&name, bytes)).collect()
    }
}

fn change(name: &str, bytes: Option<Bytes>) -> Result<Change, CoreError> {
    let corrupt = |reason: String| CoreError::Corrupt { key: format!("history of {name}"), reason };
    let reference: ResourceRef = reference_in(name)
        .ok_or_else(|| corrupt("its kind is unknown to this build".to_owned()))?;
    let desire = match bytes {
        Some(bytes) => Desire::Restore(
            pb::Resource::decode(bytes).map_err(|error| corrupt(error.to_string()))?,
        ),
        None => Desire::Delete(reference),
    };
    Ok(Change { desire, expect_version: None })
}
