//! The jobs of a store in memory: what every operation does, without bodies, results or I/O. The
//! scripts of the Redis store do the same, in the same order.

mod jobs;

pub(crate) use self::jobs::Change;
use self::jobs::Jobs;
use super::{
    Bound, Cancelled, Claim, DeferredLimits, DeliveryOutcome, Finished, Held, Job, JobState,
    Listed, MAX_LIST_JOBS, MAX_STEP_MS, Page, Put, QueueCount, check, record::Record,
};

/// Jobs whose time came that one operation sees to, beside what it is for.
pub(crate) const MAX_DUE: usize = 100;

/// The store's time, which only goes forward: by as much as the clock of its host, but never by more
/// than [`MAX_STEP_MS`] from one operation to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    now_ms: u64,
    host_ms: u64,
}

impl Clock {
    /// A clock that goes on from `now_ms` when the host's clock says `host_ms`.
    pub fn new(now_ms: u64, host_ms: u64) -> Self {
        // 0 stands for "at once" in records.
        Self { now_ms: now_ms.max(1), host_ms }
    }

    /// The time when the host's clock says `host_ms`.
    pub fn at(&mut self, host_ms: u64) -> u64 {
        let step_ms = host_ms.saturating_sub(self.host_ms).min(MAX_STEP_MS);
        self.host_ms = host_ms;
        self.now_ms = self.now_ms.saturating_add(step_ms);
        self.now_ms
    }
}

/// A job that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub id: String,
    pub queue: String,
    pub attempt: u64,
    pub owner: String,
    pub age_ms: u64,
}

/// An end that is to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub id: String,
    pub attempt: u64,
    pub age_ms: u64,
    pub state: JobState,
}

/// Which bound a job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    pub bound: Bound,
    /// There is room, but not for its party.
    pub is_share: bool,
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub owner: String,
    pub queue: String,
    pub state: JobState,
    pub attempt: u64,
    pub ahead: u64,
    pub age_ms: u64,
    pub left_ms: u64,
}

/// Every job there is, and what can be done with them.
#[derive(Debug, Default)]
pub struct Engine {
    jobs: Jobs,
}

impl Engine {
    /// An operation begins: what the one before has changed is so for good. What time has brought is
    /// seen to.
    pub fn begin(&mut self, now_ms: u64) {
        self.jobs.begin();
        let due = self.jobs.timers.iter().take_while(|(at_ms, _)| *at_ms <= now_ms);
        let due: Vec<String> = due.take(MAX_DUE).map(|(_, id)| id.clone()).collect();
        for id in due {
            let Some(mut record) = self.jobs.all.get(&id).cloned() else { continue };
            let over = record.end_ms <= now_ms;
            match record.state {
                JobState::Waiting | JobState::Running if over => {
                    end(&mut record, JobState::Expired, 0, now_ms);
                }
                JobState::Waiting | JobState::Running => {
                    record.state = JobState::Waiting;
                    record.at_ms = 0;
                }
                JobState::Done | JobState::Cancelled | JobState::Expired => {
                    self.jobs.set(&id, None);
                    continue;
                }
            }
            self.jobs.set(&id, Some(record));
        }
    }

    /// Keeps a job, or says which bound it is over.
    pub fn put(&mut self, job: &Job, limits: &DeferredLimits, now_ms: u64) -> Result<Put, Full> {
        if self.jobs.all.contains_key(&job.id) {
            return Ok(Put::Existing(job.id.clone()));
        }
        if !job.idempotency_key.is_empty() {
            let key = (job.owner.clone(), job.idempotency_key.clone());
            if let Some(id) = self.jobs.by_key.get(&key) {
                return Ok(Put::Existing(id.clone()));
            }
        }
        let (meta_bytes, blob_bytes) = (job.meta.len() as u64, job.body.len() as u64);
        self.has_room(job, meta_bytes + blob_bytes, limits)?;
        let record = Record {
            owner: job.owner.clone(),
            party: job.party.clone(),
            key: job.idempotency_key.clone(),
            queue: job.queue.clone(),
            turn: self.jobs.next_turn(&job.queue, &job.party),
            seq: self.jobs.seq + 1,
            state: JobState::Waiting,
            attempt: 0,
            node: String::new(),
            call: String::new(),
            at_ms: 0,
            created_ms: now_ms,
            end_ms: now_ms.saturating_add(check::time(job.expires_ms)),
            keep_ms: check::time(job.keep_ms),
            ended_ms: 0,
            deliver: job.deliver,
            deliver_ms: 0,
            tries: 0,
            meta_bytes,
            blob_bytes,
        };
        self.jobs.set(&job.id, Some(record));
        Ok(Put::Stored)
    }

    /// Is there room for a job of so many bytes?
    fn has_room(&self, job: &Job, bytes: u64, limits: &DeferredLimits) -> Result<(), Full> {
        let jobs = &self.jobs;
        let (waiting, running) = jobs.queues.get(&job.queue).copied().unwrap_or_default();
        let own_queue = jobs.queue_parties.get(&(job.queue.clone(), job.party.clone()));
        let own_queue = own_queue.copied().unwrap_or_default();
        let (own_jobs, own_bytes) = jobs.parties.get(&job.party).copied().unwrap_or_default();
        for (bound, limit, all, own, more) in [
            (Bound::QueueJobs, limits.queue_jobs, waiting + running, own_queue, 1),
            (Bound::Jobs, limits.jobs, jobs.all.len() as u64, own_jobs, 1),
            (Bound::Bytes, limits.bytes, jobs.bytes, own_bytes, bytes),
        ] {
            let left = limit.saturating_sub(all);
            if more > left || own.saturating_add(more) > left {
                return Err(Full { bound, is_share: more <= left });
            }
        }
        Ok(())
    }

    /// Gives jobs to be run.
    pub fn claim(&mut self, claim: &Claim, limits: &DeferredLimits, now_ms: u64) -> Vec<Given> {
        let until_ms = now_ms.saturating_add(check::time(claim.lease_ms));
        let (node, call) = (&claim.node, &claim.call);
        let from = (node.clone(), call.clone(), String::new());
        let before = self.jobs.claims.range(from..);
        let before: Vec<String> = before
            .take_while(|(by, in_call, _)| by == node && in_call == call)
            .map(|(_, _, id)| id.clone())
            .collect();
        if !before.is_empty() {
            return before
                .into_iter()
                .filter_map(|id| self.give(&id, None, until_ms, now_ms))
                .collect();
        }
        let (mut given, mut bytes) = (Vec::new(), 0_u64);
        for (queue, most) in &claim.queues {
            for _ in 0..*most {
                let first = self.jobs.ready.range((queue.clone(), 0, 0, String::new())..).next();
                let Some((_, _, _, id)) = first.filter(|(of, ..)| of == queue).cloned() else {
                    break;
                };
                let size = self.jobs.all.get(&id).map_or(0, Record::bytes);
                bytes = bytes.saturating_add(size);
                let is_full = given.len() >= check::jobs(usize::MAX);
                if is_full || (!given.is_empty() && bytes > limits.claim_bytes) {
                    return given;
                }
                given.extend(self.give(&id, Some((node, call)), until_ms, now_ms));
            }
        }
        given
    }

    /// Gives one job, to somebody new or with a new lease to whoever has it.
    fn give(
        &mut self,
        id: &str,
        to: Option<(&String, &String)>,
        until_ms: u64,
        now_ms: u64,
    ) -> Option<Given> {
        let mut record = self.jobs.all.get(id)?.clone();
        if let Some((node, call)) = to {
            record.state = JobState::Running;
            record.attempt += 1;
            record.node.clone_from(node);
            record.call.clone_from(call);
        }
        record.at_ms = until_ms;
        let given = Given {
            id: id.to_owned(),
            queue: record.queue.clone(),
            attempt: record.attempt,
            owner: record.owner.clone(),
            age_ms: now_ms.saturating_sub(record.created_ms),
        };
        self.jobs.set(id, Some(record));
        Some(given)
    }

    /// Makes a lease last longer.
    pub fn extend(&mut self, id: &str, attempt: u64, lease_ms: u64, now_ms: u64) -> Held {
        let Some(mut record) = self.held(id, attempt) else { return Held::No };
        record.state = JobState::Running;
        record.at_ms = now_ms.saturating_add(check::time(lease_ms));
        self.jobs.set(id, Some(record));
        Held::Yes
    }

    /// Takes a job back.
    pub fn release(&mut self, id: &str, attempt: u64, after_ms: u64, now_ms: u64) -> Held {
        let Some(mut record) = self.held(id, attempt) else {
            let is_released = |record: &&Record| {
                let released = record.state == JobState::Waiting && record.node.is_empty();
                released && record.attempt == attempt && attempt > 0
            };
            return if self.jobs.all.get(id).filter(is_released).is_some() {
                Held::Yes
            } else {
                Held::No
            };
        };
        record.state = JobState::Waiting;
        record.node.clear();
        record.call.clear();
        let at_ms = now_ms.saturating_add(check::time(after_ms));
        record.at_ms = if after_ms == 0 { 0 } else { at_ms };
        self.jobs.set(id, Some(record));
        Held::Yes
    }

    /// A job that this attempt has; or had last, and nobody since.
    fn held(&self, id: &str, attempt: u64) -> Option<Record> {
        let is_held = |record: &&Record| {
            !record.state.has_ended() && record.attempt == attempt && !record.node.is_empty()
        };
        self.jobs.all.get(id).filter(is_held).cloned()
    }

    /// Ends a job with a result of so many bytes.
    pub fn finish(&mut self, id: &str, attempt: u64, bytes: u64, now_ms: u64) -> Finished {
        let Some(mut record) = self.jobs.all.get(id).cloned() else { return Finished::Unknown };
        if record.state.has_ended() {
            let again = record.state == JobState::Done && record.attempt == attempt;
            return if again { Finished::Recorded } else { Finished::Already };
        }
        // Who was given it last matters no more; whose result it is does.
        record.attempt = attempt;
        end(&mut record, JobState::Done, bytes, now_ms);
        self.jobs.set(id, Some(record));
        Finished::Recorded
    }

    /// Ends a job without a result.
    pub fn cancel(&mut self, id: &str, now_ms: u64) -> Cancelled {
        let Some(mut record) = self.jobs.all.get(id).cloned() else { return Cancelled::Unknown };
        match record.state {
            JobState::Cancelled => Cancelled::Done,
            JobState::Done | JobState::Expired => Cancelled::Already,
            JobState::Waiting | JobState::Running => {
                end(&mut record, JobState::Cancelled, 0, now_ms);
                self.jobs.set(id, Some(record));
                Cancelled::Done
            }
        }
    }

    /// How a job stands.
    pub fn get(&self, id: &str, now_ms: u64) -> Option<Standing> {
        let record = self.jobs.all.get(id)?;
        let waits = record.state == JobState::Waiting;
        let before = |turn, seq| (record.queue.clone(), turn, seq, String::new());
        let upto = before(record.turn, record.seq);
        let ahead = || self.jobs.ready.range(before(0, 0)..upto).count() as u64;
        Some(Standing {
            owner: record.owner.clone(),
            queue: record.queue.clone(),
            state: record.state,
            attempt: record.attempt,
            ahead: if waits { ahead() } else { 0 },
            age_ms: now_ms.saturating_sub(record.created_ms),
            left_ms: record.end_ms.saturating_sub(now_ms),
        })
    }

    /// The jobs whose ids follow this one.
    pub fn list(&self, after: &str, most: usize, now_ms: u64) -> Page {
        let most = most.clamp(1, MAX_LIST_JOBS);
        let mut rest: Vec<_> = self.jobs.all.iter().filter(|(id, _)| id.as_str() > after).collect();
        rest.sort_unstable_by_key(|(id, _)| *id);
        let more = rest.len() > most;
        rest.truncate(most);
        let listed = |(id, record): (&String, &Record)| Listed {
            id: id.clone(),
            owner: record.owner.clone(),
            queue: record.queue.clone(),
            state: record.state,
            attempt: record.attempt,
            age_ms: now_ms.saturating_sub(record.created_ms),
            left_ms: record.end_ms.saturating_sub(now_ms),
        };
        let jobs: Vec<Listed> = rest.into_iter().map(listed).collect();
        let next = jobs.last().filter(|_| more).map(|last| last.id.clone());
        Page { jobs, next }
    }

    /// Ends that are to be delivered now.
    pub fn claim_deliveries(
        &mut self,
        most: usize,
        lease_ms: u64,
        limits: &DeferredLimits,
        now_ms: u64,
    ) -> Vec<Due> {
        let until_ms = now_ms.saturating_add(check::time(lease_ms).max(1));
        let due = self.jobs.deliveries.iter().take_while(|(at_ms, _)| *at_ms <= now_ms);
        let ids: Vec<String> = due.take(check::jobs(most)).map(|(_, id)| id.clone()).collect();
        let (mut given, mut bytes) = (Vec::new(), 0_u64);
        for id in ids {
            let Some(mut record) = self.jobs.all.get(&id).cloned() else { continue };
            bytes = bytes.saturating_add(record.bytes());
            if !given.is_empty() && bytes > limits.claim_bytes {
                break;
            }
            record.tries += 1;
            record.deliver_ms = until_ms;
            given.push(Due {
                id: id.clone(),
                attempt: record.tries,
                age_ms: now_ms.saturating_sub(record.ended_ms),
                state: record.state,
            });
            self.jobs.set(&id, Some(record));
        }
        given
    }

    /// What became of a delivery.
    pub fn delivered(&mut self, id: &str, attempt: u64, outcome: DeliveryOutcome, now_ms: u64) {
        let is_his = |record: &&Record| record.deliver_ms > 0 && record.tries == attempt;
        let Some(mut record) = self.jobs.all.get(id).filter(is_his).cloned() else { return };
        record.deliver_ms = match outcome {
            DeliveryOutcome::Over => 0,
            DeliveryOutcome::Again { after_ms } => {
                now_ms.saturating_add(check::time(after_ms).max(1))
            }
        };
        self.jobs.set(id, Some(record));
    }

    /// Queues that have jobs.
    pub fn counts(&self) -> Vec<QueueCount> {
        let count = |(queue, (waiting, running)): (&String, &(u64, u64))| QueueCount {
            queue: queue.clone(),
            waiting: *waiting,
            running: *running,
        };
        self.jobs.queues.iter().map(count).collect()
    }

    /// Takes over a job as it was kept.
    pub(crate) fn load(&mut self, id: &str, record: Record) {
        self.jobs.set(id, Some(record));
        self.jobs.begin();
    }

    /// What the present operation has changed, each job once.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        self.jobs.changes()
    }
}

/// The job has ended now; `bytes` long is what is left of it beside its note.
fn end(record: &mut Record, state: JobState, bytes: u64, now_ms: u64) {
    record.state = state;
    record.at_ms = 0;
    record.node.clear();
    record.call.clear();
    record.ended_ms = now_ms;
    record.end_ms = now_ms.saturating_add(record.keep_ms);
    record.blob_bytes = bytes;
    let is_told = record.deliver && state != JobState::Cancelled;
    record.deliver_ms = if is_told { now_ms } else { 0 };
}

#[cfg(test)]
mod tests;
