//! Overrides and forces, which end by themselves: taken out of the configuration once their time is over.

use std::{sync::Arc, time::Duration};

use sluicegate_model::{Kind, Resource, ResourceRef};
use sluicegate_store::Revision;
use sluicegate_telemetry::{
    clock,
    task::{self, AbortOnDrop},
};
use tokio::time::timeout;

use crate::{
    apply::{Applier, Change, Desire, Request},
    desired::Desired,
    error::CoreError,
    state::State,
};

/// Longest sleep: the host's clock may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(60);
/// Shortest sleep, also after a deletion that did not go through.
const SHORTEST: Duration = Duration::from_secs(1);
/// Author of the changes.
const AUTHOR: &str = "expiry";
/// Deletions in one change.
const MOST: usize = 50;

/// Deletes what has expired. Every replica does: whoever comes second finds nothing left
/// to delete.
#[derive(Debug)]
pub struct Expiry {
    desired: Arc<Desired>,
    applier: Arc<Applier>,
}

impl Expiry {
    pub fn new(desired: Arc<Desired>, applier: Arc<Applier>) -> Self {
        Self { desired, applier }
    }

    /// Watches until the task is dropped.
    #[must_use]
    pub fn start(self) -> AbortOnDrop<()> {
        AbortOnDrop(task::spawn("expiry", async move {
            let mut states = self.desired.subscribe();
            loop {
                states.mark_unchanged();
                let next = self.look(clock::unix_ms()).await;
                match timeout(next.clamp(Duration::from_millis(1), LONGEST), states.changed()).await
                {
                    // A change may bring an earlier expiry.
                    Ok(Ok(())) | Err(_) => {}
                    Ok(Err(_)) => return,
                }
            }
        }))
    }

    /// Deletes what has expired at `unix_ms`; tells when to look again.
    pub async fn look(&self, unix_ms: u64) -> Duration {
        let state = self.desired.snapshot();
        let expired = expired(&state, unix_ms);
        if expired.is_empty() {
            return until_next(&state, unix_ms);
        }
        match self.delete(&expired).await {
            Ok(()) => Duration::ZERO,
            // Another replica was there before, or somebody gave it another time.
            Err(CoreError::Conflict(_) | CoreError::Contended { .. }) => SHORTEST,
            Err(error) => {
                // It has ended anyhow: nothing asks what has expired.
                tracing::warn!(%error, "what has expired cannot be deleted; trying again");
                SHORTEST * 10
            }
        }
    }

    async fn delete(&self, expired: &[(ResourceRef, Revision)]) -> Result<(), CoreError> {
        let changes = expired.iter().map(|(reference, version)| Change {
            desire: Desire::Delete(reference.clone()),
            expect_version: Some(*version),
        });
        let names: Vec<_> = expired
            .iter()
            .map(|(reference, _)| format!("{} {}", reference.kind.singular(), reference.name))
            .collect();
        let names = names.join(", ");
        let comment = match expired {
            [_] => format!("{names} expired by itself"),
            several => format!("{} resources expired by themselves", several.len()),
        };
        let request = Request {
            changes: changes.collect(),
            comment,
            author: AUTHOR.to_owned(),
            ..Request::default()
        };
        let outcome = self.applier.apply(&request).await?;
        if !outcome.differences.is_empty() {
            let revision = outcome.at.revision;
            tracing::info!(expired = names, revision, "overrides or forces have expired");
        }
        Ok(())
    }
}

/// When each resource ends that has an end.
fn ends(state: &State) -> impl Iterator<Item = (&ResourceRef, Revision, u64)> {
    let of = |kind| {
        let all = state.resources.range(ResourceRef::new(kind, "")..);
        all.take_while(move |(reference, _)| reference.kind == kind)
    };
    of(Kind::Override).chain(of(Kind::Force)).filter_map(|(reference, stored)| {
        let end = match &stored.parsed {
            Resource::Override(spec) => spec.expires_unix_ms,
            Resource::Force(spec) => spec.expires_unix_ms,
            _ => None,
        };
        Some((reference, stored.version, end?))
    })
}

fn expired(state: &State, unix_ms: u64) -> Vec<(ResourceRef, Revision)> {
    ends(state)
        .filter(|(_, _, end)| *end <= unix_ms)
        .map(|(reference, version, _)| (reference.clone(), version))
        .take(MOST)
        .collect()
}

fn until_next(state: &State, unix_ms: u64) -> Duration {
    let next = ends(state).map(|(_, _, end)| end.saturating_sub(unix_ms)).min();
    next.map_or(LONGEST, Duration::from_millis)
}
