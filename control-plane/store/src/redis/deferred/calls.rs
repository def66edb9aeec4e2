//! What the scripts of deferred requests take and answer.

use std::collections::BTreeMap;

use ::redis::{Cmd, Script};
use bytes::Bytes;

use crate::{
    deferred::{
        Claim, Claimed, DeferredLimits, Delivery, Job, JobState, JobStatus, Listed, MAX_CLAIM_JOBS,
        MAX_STEP_MS, Page, QueueCount, check,
        engine::MAX_DUE,
        record::{SEPARATOR, state_of},
    },
    ledger::MAX_AMOUNT,
};

/// Longer than anything in them is of use; time may stand still for them meanwhile.
const KEPT_MS: u64 = 400 * 86_400_000;

/// The scripts, each with what they have in common.
#[derive(Debug)]
pub(in crate::redis) struct DeferredScripts {
    pub(in crate::redis) put: Script,
    pub(in crate::redis) claim: Script,
    pub(in crate::redis) change: Script,
    pub(in crate::redis) look: Script,
    pub(in crate::redis) list: Script,
    pub(in crate::redis) deliver: Script,
}

impl DeferredScripts {
    pub(in crate::redis) fn new() -> Self {
        let script = |own: &str| Script::new(&format!("{}{own}", include_str!("common.lua")));
        Self {
            put: script(include_str!("put.lua")),
            claim: script(include_str!("claim.lua")),
            change: script(include_str!("change.lua")),
            look: script(include_str!("look.lua")),
            list: script(include_str!("list.lua")),
            deliver: script(include_str!("deliver.lua")),
        }
    }
}

/// Names of what the scripts use.
pub(super) type Keys = [String; 9];

/// Where everything is kept: on one server of a cluster.
pub(super) fn keys(prefix: &str) -> Keys {
    ["jobs", "blobs", "keyed", "ready", "turns", "timers", "due", "claims", "numbers"]
        .map(|name| format!("{prefix}d2:{{deferred}}:{name}"))
}

fn call(script: &Script, keys: &Keys) -> Cmd {
    let mut command = ::redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys.len()).arg(keys);
    command.arg(MAX_STEP_MS).arg(MAX_DUE).arg(KEPT_MS);
    command
}

pub(super) fn put(
    scripts: &DeferredScripts,
    keys: &Keys,
    job: &Job,
    limits: &DeferredLimits,
) -> Cmd {
    let mut command = call(&scripts.put, keys);
    command.arg(&job.id).arg(&job.owner).arg(&job.party).arg(&job.idempotency_key);
    command.arg(&job.queue).arg(&*job.body).arg(&*job.meta);
    command.arg(check::time(job.expires_ms)).arg(check::time(job.keep_ms));
    command.arg(u8::from(job.deliver));
    command.arg(number(limits.queue_jobs)).arg(number(limits.jobs)).arg(number(limits.bytes));
    command
}

pub(super) fn claim(
    scripts: &DeferredScripts,
    keys: &Keys,
    claim: &Claim,
    limits: &DeferredLimits,
) -> Cmd {
    let mut command = call(&scripts.claim, keys);
    command.arg(&claim.node).arg(&claim.call).arg(check::time(claim.lease_ms));
    command.arg(number(limits.claim_bytes)).arg(MAX_CLAIM_JOBS);
    for (queue, most) in &claim.queues {
        command.arg(queue).arg(*most);
    }
    command
}

pub(super) fn change(scripts: &DeferredScripts, keys: &Keys) -> Cmd {
    call(&scripts.change, keys)
}

pub(super) fn look(scripts: &DeferredScripts, keys: &Keys) -> Cmd {
    call(&scripts.look, keys)
}

pub(super) fn list(scripts: &DeferredScripts, keys: &Keys) -> Cmd {
    call(&scripts.list, keys)
}

pub(super) fn deliver(scripts: &DeferredScripts, keys: &Keys) -> Cmd {
    call(&scripts.deliver, keys)
}

/// A number that scripts count exactly.
pub(super) fn number(number: u64) -> u64 {
    number.min(MAX_AMOUNT)
}

/// Id, queue, attempt, owner, age, body, note.
pub(super) type Given = (String, String, u64, String, u64, Vec<u8>, Vec<u8>);

pub(super) fn claimed((id, queue, attempt, owner, age_ms, body, meta): Given) -> Claimed {
    Claimed { id, queue, attempt, body: body.into(), meta: meta.into(), owner, age_ms }
}

/// Owner, queue, state, attempt, jobs before it, age, time left, note, result.
pub(super) type Standing = (String, String, String, u64, u64, u64, u64, Vec<u8>, Vec<u8>);

pub(super) fn status(id: &str, standing: Standing) -> Option<JobStatus> {
    let (owner, queue, letter, attempt, ahead, age_ms, left_ms, meta, result) = standing;
    let state = state(&letter)?;
    let meta = meta.into();
    let result = result_of(state, result);
    let id = id.to_owned();
    Some(JobStatus { id, owner, queue, state, attempt, ahead, age_ms, left_ms, meta, result })
}

/// Id, owner, queue, state, attempt, age, time left.
pub(super) type Row = (String, String, String, String, u64, u64, u64);

pub(super) fn page(next: String, found: Vec<Row>) -> Option<Page> {
    let listed = |(id, owner, queue, letter, attempt, age_ms, left_ms): Row| {
        let state = state(&letter)?;
        Some(Listed { id, owner, queue, state, attempt, age_ms, left_ms })
    };
    let jobs: Option<Vec<Listed>> = found.into_iter().map(listed).collect();
    Some(Page { jobs: jobs?, next: Some(next).filter(|next| next != "0") })
}

/// Id, attempt, age, state, note, result.
pub(super) type Told = (String, u64, u64, String, Vec<u8>, Vec<u8>);

pub(super) fn delivery((id, attempt, age_ms, letter, meta, result): Told) -> Option<Delivery> {
    let state = state(&letter)?;
    let result = result_of(state, result);
    Some(Delivery { id, attempt, age_ms, state, meta: meta.into(), result })
}

/// Queues from numbers whose names are a state and a queue.
pub(super) fn counts(found: Vec<(String, u64)>) -> Vec<QueueCount> {
    let mut queues: BTreeMap<String, QueueCount> = BTreeMap::new();
    for (field, number) in found {
        let Some((letter, queue)) = field.split_once(SEPARATOR) else { continue };
        let empty = || QueueCount { queue: queue.to_owned(), waiting: 0, running: 0 };
        let count = queues.entry(queue.to_owned()).or_insert_with(empty);
        match letter {
            "w" => count.waiting = number,
            "r" => count.running = number,
            _ => {}
        }
    }
    queues.into_values().collect()
}

fn state(letter: &str) -> Option<JobState> {
    let [letter] = letter.as_bytes() else { return None };
    state_of(*letter)
}

fn result_of(state: JobState, result: Vec<u8>) -> Option<Bytes> {
    (state == JobState::Done).then(|| result.into())
}
