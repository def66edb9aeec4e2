//! What a store of deferred requests does not take.

use super::{
    Bound, Claim, DeferredError, DeferredLimits, Job, MAX_CLAIM_JOBS, MAX_CLAIM_QUEUES,
    MAX_TIME_MS, engine::Full,
};
use crate::StoreError;

const ID_BYTES: usize = 64;
const OWNER_BYTES: usize = 512;
const NAME_BYTES: usize = 256;
/// A provider and a model of any name fit.
const QUEUE_BYTES: usize = 1_280;

/// Refuses a job that is too large or whose names cannot be kept. `store` is named in the error.
pub(crate) fn job(
    store: &'static str,
    limits: &DeferredLimits,
    job: &Job,
) -> Result<(), StoreError> {
    id(store, &job.id)?;
    name(store, "the owner of a job", &job.owner, 1, OWNER_BYTES)?;
    name(store, "the party of a job", &job.party, 1, OWNER_BYTES)?;
    name(store, "the idempotency key of a job", &job.idempotency_key, 0, NAME_BYTES)?;
    name(store, "the queue of a job", &job.queue, 1, QUEUE_BYTES)?;
    size("the body of a job", job.body.len(), limits.body_bytes)?;
    size("the note of a job", job.meta.len(), limits.meta_bytes)
}

/// Refuses a claim of too much at once, or of nobody.
pub(crate) fn claim(store: &'static str, claim: &Claim) -> Result<(), StoreError> {
    name(store, "the node of a claim", &claim.node, 1, NAME_BYTES)?;
    name(store, "the call of a claim", &claim.call, 1, NAME_BYTES)?;
    if claim.queues.len() > MAX_CLAIM_QUEUES {
        let (what, actual) = ("queues", claim.queues.len());
        return Err(StoreError::TooMany { what, actual, limit: MAX_CLAIM_QUEUES });
    }
    claim
        .queues
        .iter()
        .try_for_each(|(queue, _)| name(store, "the queue of a claim", queue, 1, QUEUE_BYTES))
}

/// Refuses what is no id of a job.
pub(crate) fn id(store: &'static str, id: &str) -> Result<(), StoreError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if id.is_empty() || id.len() > ID_BYTES || !id.bytes().all(legal) {
        let reason = format!("a job's id is 1 to {ID_BYTES} letters, digits, - and _");
        return Err(StoreError::Refused { store, reason });
    }
    Ok(())
}

/// Refuses what is no place in a list.
pub(crate) fn page(store: &'static str, from: &str) -> Result<(), StoreError> {
    if from.is_empty() { Ok(()) } else { id(store, from) }
}

/// Refuses a result that is too large.
pub(crate) fn result(limits: &DeferredLimits, length: usize) -> Result<(), StoreError> {
    size("the result of a job", length, limits.result_bytes)
}

/// As much of a time as is given.
pub(crate) fn time(ms: u64) -> u64 {
    ms.min(MAX_TIME_MS)
}

/// As many jobs as are given at once.
pub(crate) fn jobs(count: usize) -> usize {
    count.min(MAX_CLAIM_JOBS)
}

/// Why a job has no room: the number that the bound stands for, and whether it is all that is used up
/// or the party's share.
pub(crate) fn full(limits: &DeferredLimits, full: Full) -> DeferredError {
    let Full { bound, is_share } = full;
    let limit = limit(limits, bound);
    if is_share {
        DeferredError::ShareFull { bound, limit }
    } else {
        DeferredError::Full { bound, limit }
    }
}

fn limit(limits: &DeferredLimits, bound: Bound) -> u64 {
    match bound {
        Bound::QueueJobs => limits.queue_jobs,
        Bound::Jobs => limits.jobs,
        Bound::Bytes => limits.bytes,
    }
}

fn size(what: &'static str, actual: usize, limit: usize) -> Result<(), StoreError> {
    if actual > limit { Err(StoreError::TooLarge { what, actual, limit }) } else { Ok(()) }
}

fn name(
    store: &'static str,
    what: &str,
    text: &str,
    least: usize,
    most: usize,
) -> Result<(), StoreError> {
    if text.len() < least || text.len() > most || text.chars().any(char::is_control) {
        let reason = format!("{what} is {least} to {most} bytes without control characters");
        return Err(StoreError::Refused { store, reason });
    }
    Ok(())
}
