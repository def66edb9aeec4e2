//! The contract of deferred requests: jobs that are kept until somebody runs them, and their results
//! until somebody gets them.
//!
//! Jobs of one queue are given out by turns of the parties that they belong to, and each party's in the
//! order in which they came: start-time fair queueing (P. Goyal, H. Vin, H. Cheng, 1996) with jobs for
//! packets. Room is shared out too: no party may have more than is left for all others, so that there
//! always is some (dynamic thresholds, A. Choudhury, E. Hahne, 1998).
//!
//! A job waits in a queue, is claimed under a lease, and ends once: with the first result that comes,
//! cancelled, or because nobody ran it in time. What a claim had, and lost because its lease ran out,
//! waits again in its old place; so a job may run more than once. Every operation that is repeated
//! changes nothing further.
//!
//! Time is the store's own. It passes while the store is used, and at most [`MAX_STEP_MS`] between two
//! operations, so that neither a clock that is set nor an outage ends anything. Whoever uses a store
//! asks it for deliveries every second, and time goes as it should.

pub(crate) mod check;
pub mod engine;
pub(crate) mod record;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::StoreError;

/// Longest time that passes between two operations.
pub const MAX_STEP_MS: u64 = 60_000;
/// Longest time of any kind: for a job to wait, for its result to be kept, for a lease.
pub const MAX_TIME_MS: u64 = 31 * 86_400_000;
/// Most queues that one call claims from.
pub const MAX_CLAIM_QUEUES: usize = 256;
/// Most jobs that one page of a list asks for.
pub const MAX_LIST_JOBS: usize = 500;
/// Most jobs that one call claims.
pub const MAX_CLAIM_JOBS: usize = 256;

/// What a store of jobs takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferredLimits {
    /// Largest body of one job, in bytes.
    pub body_bytes: usize,
    /// Largest result.
    pub result_bytes: usize,
    /// Largest note beside the body.
    pub meta_bytes: usize,
    /// Jobs of one queue that have not ended.
    pub queue_jobs: u64,
    /// Jobs in all, ended ones whose result is still kept among them.
    pub jobs: u64,
    /// Bodies, results and notes in all.
    pub bytes: u64,
    /// Bodies and notes in one answer to a claim; the first job is given whatever its size.
    pub claim_bytes: u64,
}

impl Default for DeferredLimits {
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            result_bytes: 8 << 20,
            meta_bytes: 16 << 10,
            queue_jobs: 10_000,
            jobs: 50_000,
            bytes: 1 << 30,
            claim_bytes: 8 << 20,
        }
    }
}

/// A bound of the store that another job would be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Jobs of the queue that have not ended.
    QueueJobs,
    /// Jobs in all.
    Jobs,
    /// Bytes in all.
    Bytes,
}

impl Bound {
    /// In messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueJobs => "jobs in the queue",
            Self::Jobs => "jobs in all",
            Self::Bytes => "bytes of all jobs",
        }
    }
}

/// Why a store of jobs does not do what it is asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeferredError {
    /// Nothing was written: there is no room until other jobs are over.
    #[error("no more deferred requests are taken: {} are at the limit of {limit}", bound.name())]
    Full { bound: Bound, limit: u64 },
    /// Nothing was written: what room there is, is for other parties, until jobs of this one are over.
    #[error(
        "no more deferred requests of this tenant are taken: its {} are as many as are left for all \
         others (of {limit})",
        bound.name()
    )]
    ShareFull { bound: Bound, limit: u64 },
    /// As any other call of a store: it may nevertheless have happened if the store was unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request that is to be run later.
#[derive(Clone, PartialEq, Eq)]
pub struct Job {
    /// Unique for ever, chosen by whoever puts it: 1 to 64 letters, digits, `-` and `_`.
    pub id: String,
    /// Whom it belongs to, at most 512 bytes.
    pub owner: String,
    /// Who takes turns with others and shares the room with them, at most 512 bytes.
    pub party: String,
    /// A second job of the same owner with the same key is the first one. Empty: none.
    pub idempotency_key: String,
    /// Which queue it waits in, at most 1280 bytes without control characters.
    pub queue: String,
    /// What is to be run; opaque. Gone when the job has ended.
    pub body: Bytes,
    /// A note that stays as long as the job; opaque.
    pub meta: Bytes,
    /// It ends by itself if nobody has begun to run it for the last time before this.
    pub expires_ms: u64,
    /// How long it is kept when it has ended.
    pub keep_ms: u64,
    /// Its end, unless it was cancelled, is to be delivered.
    pub deliver: bool,
}

/// What became of a job that was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is kept.
    Stored,
    /// It, or an earlier one with its idempotency key, was there: that one's id.
    Existing(String),
}

/// An answer, and whether what it says survives a crash of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<T> {
    pub answer: T,
    /// It is on disk. False where a store says so a moment later, or cannot tell.
    pub durable: bool,
}

/// What somebody wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who asks, at most 256 bytes without control characters.
    pub node: String,
    /// Which call of the node it is, alike. The same again, after an answer that was lost, gives the
    /// jobs that it gave before, as far as they are still claimed by it, with a new lease.
    pub call: String,
    /// Queues, and how many jobs of each at most.
    pub queues: Vec<(String, u32)>,
    /// How long the jobs are given for.
    pub lease_ms: u64,
}

/// A job that is given to be run.
#[derive(Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: String,
    pub queue: String,
    /// Grows with every claim of the job; from 1.
    pub attempt: u64,
    pub body: Bytes,
    pub meta: Bytes,
    pub owner: String,
    /// Since it was put.
    pub age_ms: u64,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// As asked.
    Yes,
    /// The attempt has the job no longer: another has it, or it has ended.
    No,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// It is the job's result. Also when the same attempt says it again.
    Recorded,
    /// The job had ended before, with another attempt's result or without one.
    Already,
    /// There is no such job.
    Unknown,
}

/// What became of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// Nobody runs it any more, or whoever does learns it with the next extension.
    Done,
    /// It had ended before.
    Already,
    /// There is no such job.
    Unknown,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    Waiting,
    Running,
    /// There is a result.
    Done,
    Cancelled,
    /// Nobody ran it in time.
    Expired,
}

impl JobState {
    /// Nothing changes any more.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Expired)
    }
}

/// A job as it stands.
#[derive(Clone, PartialEq, Eq)]
pub struct JobStatus {
    pub id: String,
    pub owner: String,
    pub queue: String,
    pub state: JobState,
    /// Claims so far.
    pub attempt: u64,
    /// Jobs that are to be claimed from the queue before it, as long as no other party comes. 0 if it
    /// does not wait.
    pub ahead: u64,
    /// Since it was put.
    pub age_ms: u64,
    /// Until it expires; once it has ended, until it is forgotten.
    pub left_ms: u64,
    pub meta: Bytes,
    /// Of one that is done.
    pub result: Option<Bytes>,
}

/// An end that is to be delivered.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: String,
    /// How often it was claimed; from 1.
    pub attempt: u64,
    /// Since the job ended.
    pub age_ms: u64,
    pub state: JobState,
    pub meta: Bytes,
    pub result: Option<Bytes>,
}

/// What became of an attempt to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It is there, or given up: not tried again.
    Over,
    /// Try again after this.
    Again { after_ms: u64 },
}

/// How many jobs a queue has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCount {
    pub queue: String,
    pub waiting: u64,
    pub running: u64,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: String,
    pub owner: String,
    pub queue: String,
    pub state: JobState,
    /// Claims so far.
    pub attempt: u64,
    /// Since it was put.
    pub age_ms: u64,
    /// Until it expires; once it has ended, until it is forgotten.
    pub left_ms: u64,
}

/// Some jobs, and where the next ones are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub jobs: Vec<Listed>,
    /// For the next page, opaque. `None`: that was all.
    pub next: Option<String>,
}

/// Jobs that outlive whoever put them and whoever runs them. Every call ends within its own deadline.
#[async_trait]
pub trait Deferred: Send + Sync + fmt::Debug {
    /// Short name for messages: `redis` or `embedded`.
    fn kind(&self) -> &'static str;

    /// What it takes.
    fn limits(&self) -> DeferredLimits;

    /// Keeps a job. Putting the same again is told by [`Put::Existing`].
    ///
    /// # Errors
    /// [`DeferredError::Full`], [`DeferredError::ShareFull`]; [`StoreError::TooLarge`] for a body or a note, [`StoreError::Refused`]
    /// for names that cannot be kept.
    async fn put(&self, job: &Job) -> Result<Kept<Put>, DeferredError>;

    /// Gives jobs to be run: of each queue those whose turn it is, and never one that somebody else holds.
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, DeferredError>;

    /// Makes the lease of an attempt last `lease_ms` from now on. An attempt whose lease ran out has
    /// it again if nobody else claimed the job meanwhile.
    async fn extend(&self, id: &str, attempt: u64, lease_ms: u64) -> Result<Held, DeferredError>;

    /// Ends a job with a result. The first one stands, also one that comes after its lease ran out.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`].
    async fn finish(
        &self,
        id: &str,
        attempt: u64,
        result: &Bytes,
    ) -> Result<Kept<Finished>, DeferredError>;

    /// Gives a job back that was not run. It waits in its old place, from `after_ms` on.
    async fn release(&self, id: &str, attempt: u64, after_ms: u64) -> Result<Held, DeferredError>;

    /// Ends a job without a result. Not delivered.
    async fn cancel(&self, id: &str) -> Result<Kept<Cancelled>, DeferredError>;

    /// How a job stands; `None`: there is none, or it is forgotten.
    async fn get(&self, id: &str) -> Result<Option<JobStatus>, DeferredError>;

    /// Some of all jobs, about `most` and in no order; `from` is empty for the first page. One that is
    /// there all the time is on at least one page.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a page that is none.
    async fn list(&self, from: &str, most: usize) -> Result<Page, DeferredError>;

    /// At most `most` ends whose time to be delivered has come. Each is given to nobody else for
    /// `lease_ms`.
    async fn claim_deliveries(
        &self,
        most: usize,
        lease_ms: u64,
    ) -> Result<Vec<Delivery>, DeferredError>;

    /// What became of a delivery. One that was claimed anew meanwhile is left to whoever has it.
    async fn delivered(
        &self,
        id: &str,
        attempt: u64,
        outcome: DeliveryOutcome,
    ) -> Result<(), DeferredError>;

    /// Every queue that has jobs, in no order.
    async fn counts(&self) -> Result<Vec<QueueCount>, DeferredError>;
}

// What callers wrote and were answered is in no log: bodies show as their size.

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("attempt", &self.attempt)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobStatus")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("state", &self.state)
            .field("attempt", &self.attempt)
            .field("ahead", &self.ahead)
            .field("age_ms", &self.age_ms)
            .field("left_ms", &self.left_ms)
            .field("result", &self.result.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("id", &self.id)
            .field("attempt", &self.attempt)
            .field("state", &self.state)
            .field("result", &self.result.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
