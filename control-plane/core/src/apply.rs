//! Changing the configuration: checked as a whole, done as a whole, one change after another.

mod plan;
mod rollback;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use prost::Message;
use sluicegate_model::{
    Kind, ResourceRef, Violation, resource::redacted, seal::SealKey, secret::Secret,
};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec};
use sluicegate_protocol::policy::Point;
use sluicegate_store::{Commit, Committed, ConfigStore, Op, Precondition, Revision, StoreError};
use sluicegate_telemetry::clock;
use tokio::{sync::Mutex, time::sleep};
use uuid::Uuid;

use self::plan::Plan;
use crate::{
    desired::Desired,
    error::CoreError,
    history::{self, History, KEPT, Record, RecordedChange},
    idempotency::Claim,
    keys, secrets,
    state::{Head, State},
};

/// How often a change is checked anew because another came first.
const ATTEMPTS: u32 = 10;
/// How long a change waits for the state in memory to see what is in the store.
const CATCH_UP: Duration = Duration::from_secs(2);
/// Between questions whether a commit without an answer happened, and how many there are.
const SETTLE_AFTER: Duration = Duration::from_millis(250);
const SETTLE_TRIES: u32 = 3;

/// What is to change.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub changes: Vec<Change>,
    /// Every resource of these kinds that the changes do not name is deleted.
    pub prune: BTreeSet<Kind>,
    /// Deleting what does not exist is an error.
    pub must_exist: bool,
    /// Checks, and says what would change.
    pub dry_run: bool,
    pub idempotency_key: Option<String>,
    /// Shown in the history.
    pub comment: String,
    /// Who does it.
    pub author: String,
}

/// One resource that is to change.
#[derive(Debug, Clone)]
pub struct Change {
    pub desire: Desire,
    /// Version that it must have now; 0: it must not exist. `None`: whatever it has.
    pub expect_version: Option<Revision>,
}

/// What is to become of a resource.
#[derive(Debug, Clone)]
pub enum Desire {
    /// Created or replaced, as people write it.
    Put(pb::Resource),
    /// Created or replaced by what was stored before, sealed secrets included.
    Restore(pb::Resource),
    Delete(ResourceRef),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Where the change stands; where the configuration stands when nothing changed.
    pub at: Point,
    /// What changed, or would.
    pub differences: Vec<Difference>,
    /// An earlier call with the same idempotency key had done it.
    pub repeated: bool,
}

/// One resource before and after, without secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub reference: ResourceRef,
    /// `None`: it did not exist, or could not be read.
    pub before: Option<pb::Resource>,
    /// `None`: it is deleted.
    pub after: Option<pb::Resource>,
}

impl Difference {
    /// Does it do no more than end a caller's key?
    pub fn is_revocation(&self) -> bool {
        let holds = |resource: &pb::Resource| !matches!(&resource.spec, Some(Spec::ApiKey(spec)) if spec.disabled);
        self.reference.kind == Kind::ApiKey && !self.after.as_ref().is_some_and(holds)
    }

    pub(crate) fn new(
        reference: ResourceRef,
        before: Option<&pb::Resource>,
        after: Option<&pb::Resource>,
    ) -> Self {
        Self { reference, before: before.map(redacted), after: after.map(redacted) }
    }
}

/// Makes changes.
#[derive(Debug)]
pub struct Applier {
    store: Arc<dyn ConfigStore>,
    desired: Arc<Desired>,
    history: History,
    seal: SealKey,
    /// Changes of this replica queue here, so that only other replicas can come first.
    turn: Mutex<()>,
}

/// What an attempt came to.
enum Attempt {
    Done(Outcome),
    /// Something else changed meanwhile.
    Moved,
}

/// What the sources of secrets held, one for each change.
type Readings = Vec<Option<Result<Secret, Violation>>>;

impl Applier {
    pub fn new(store: Arc<dyn ConfigStore>, desired: Arc<Desired>, seal: SealKey) -> Self {
        let history = History::new(store.clone());
        Self { store, desired, history, seal, turn: Mutex::new(()) }
    }

    /// Makes the changes, all at one revision or none. When it returns, [`Desired`] shows them,
    /// unless the store's watch is more than two seconds late.
    ///
    /// # Errors
    /// Everything in [`CoreError`] but what only a rollback meets. Nothing was changed, except maybe
    /// with [`StoreError::Unavailable`].
    pub async fn apply(&self, request: &Request) -> Result<Outcome, CoreError> {
        let claim = Claim::of(request)?;
        let mut readings = Readings::with_capacity(request.changes.len());
        for change in &request.changes {
            readings.push(match &change.desire {
                Desire::Put(wire) => match secrets::source_of(wire) {
                    Some(source) => secrets::read(source).await,
                    None => None,
                },
                Desire::Restore(_) | Desire::Delete(_) => None,
            });
        }
        if self.desired.outage().is_some() {
            // Fail side by side, not one after another.
            self.newest().await?;
        }
        let _turn = self.turn.lock().await;
        for _ in 0..ATTEMPTS {
            let state = self.newest().await?;
            if let Some(claim) = &claim
                && let Some(outcome) = self.earlier(claim, &state).await?
            {
                return Ok(outcome);
            }
            let attempt = self.attempt(&state, request, &readings, claim.as_ref()).await?;
            if let Attempt::Done(outcome) = attempt {
                return Ok(outcome);
            }
        }
        Err(CoreError::Contended { attempts: ATTEMPTS })
    }

    /// The state as of now or later: reads in the store first how far it must be.
    async fn newest(&self) -> Result<Arc<State>, CoreError> {
        let head = self.store.get(keys::HEAD).await?.map_or(0, |entry| entry.mod_revision);
        // Should it not come so far, the commit finds out.
        self.desired.reached(head, CATCH_UP).await;
        Ok(self.desired.snapshot())
    }

    async fn earlier(&self, claim: &Claim, state: &State) -> Result<Option<Outcome>, CoreError> {
        let Some(earlier) = claim.earlier(&*self.store).await? else { return Ok(None) };
        let record = match earlier.sequence {
            Some(sequence) => self.history.record(sequence).await?,
            None => None,
        };
        self.desired.reached(earlier.revision, CATCH_UP).await;
        Ok(Some(Outcome {
            at: Point { epoch: state.epoch.clone(), revision: earlier.revision },
            differences: record.map_or_else(Vec::new, |(_, record)| history::differences(&record)),
            repeated: true,
        }))
    }

    async fn attempt(
        &self,
        state: &State,
        request: &Request,
        readings: &Readings,
        claim: Option<&Claim>,
    ) -> Result<Attempt, CoreError> {
        let plan = Plan::new(state, request, readings, &self.seal)?;
        let differences = plan.differences(state);
        let unchanged = Outcome { at: state.point(), differences, repeated: false };
        if request.dry_run || (plan.is_empty() && claim.is_none()) {
            return Ok(Attempt::Done(unchanged));
        }
        let id = Uuid::new_v4().to_string();
        let commit = commit(state, request, &plan, claim, &id);
        let committed = match self.store.commit(commit).await {
            Err(error @ StoreError::Unavailable { .. }) if !plan.is_empty() => {
                self.settle(state.sequence + 1, &id).await.map(Committed::At).ok_or(error)?
            }
            other => other?,
        };
        match committed {
            Committed::At(_) if plan.is_empty() => Ok(Attempt::Done(unchanged)),
            Committed::At(revision) => {
                self.desired.reached(revision, CATCH_UP).await;
                let at = Point { epoch: state.epoch.clone(), revision };
                Ok(Attempt::Done(Outcome { at, ..unchanged }))
            }
            Committed::Conflict(_) => Ok(Attempt::Moved),
        }
    }

    /// Finds out whether a commit without an answer happened; its revision, when it did.
    async fn settle(&self, sequence: u64, id: &str) -> Option<Revision> {
        for _ in 0..SETTLE_TRIES {
            sleep(SETTLE_AFTER).await;
            match self.history.record(sequence).await {
                Ok(Some((revision, record))) => return (record.id == id).then_some(revision),
                Ok(None) => return None,
                Err(_) => {}
            }
        }
        None
    }
}

/// Everything that one change writes.
fn commit(
    state: &State,
    request: &Request,
    plan: &Plan,
    claim: Option<&Claim>,
    id: &str,
) -> Commit {
    let head = Precondition { key: keys::HEAD.to_owned(), mod_revision: state.head };
    let preconditions = std::iter::once(head).chain(claim.map(Claim::precondition)).collect();
    if plan.is_empty() {
        let ops = claim.map(|claim| claim.op(None, state.revision)).into_iter().collect();
        return Commit { preconditions, ops };
    }
    let sequence = state.sequence + 1;
    let time_unix_ms = clock::unix_ms();
    let mut ops = Vec::with_capacity(plan.writes.len() + 4);
    let mut changes = Vec::with_capacity(plan.writes.len());
    for write in &plan.writes {
        let key = keys::resource(&write.reference);
        let after = write.after.as_ref().map(|wire| bytes::Bytes::from(wire.encode_to_vec()));
        changes.push(RecordedChange {
            resource: write.reference.to_string(),
            before: state.bytes(&write.reference),
            after: after.clone(),
        });
        ops.push(match after {
            Some(value) => Op::Put { key, value, ttl: None },
            None => Op::Delete { key },
        });
    }
    let record = Record {
        id: id.to_owned(),
        time_unix_ms,
        author: request.author.clone(),
        comment: request.comment.clone(),
        changes,
    };
    let head = Head { sequence, time_unix_ms, author: request.author.clone() };
    let head = serde_json::to_vec(&head).expect("strings and numbers have a JSON form");
    let put = |key: String, value: Vec<u8>| Op::Put { key, value: value.into(), ttl: None };
    ops.push(put(keys::HEAD.to_owned(), head));
    ops.push(put(keys::history(sequence), record.encode_to_vec()));
    if let Some(pruned) = sequence.checked_sub(KEPT).filter(|pruned| *pruned > 0) {
        ops.push(Op::Delete { key: keys::history(pruned) });
    }
    ops.extend(claim.map(|claim| claim.op(Some(sequence), state.revision)));
    Commit { preconditions, ops }
}
