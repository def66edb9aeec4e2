//! The one thread that writes: it gathers the commits that wait into one disk write.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use redb::{Durability, ReadableTable, Table, WriteTransaction};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Shared,
    expiry::Expiries,
    table::{self, COUNTERS, ENTRIES, EntryRow, LOG, LogKey, LogRow, REVISION},
    unavailable,
};
use crate::{Commit, Committed, Op, Precondition, Revision, StoreError};

/// Commits that share one disk write at most.
const GROUP: usize = 256;
/// Between attempts to find out what a failed write has left behind.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Answer = Result<Committed, StoreError>;

struct Request {
    commit: Commit,
    answer: oneshot::Sender<Answer>,
}

/// The handle to the writing thread. Dropping it lets the thread finish what it was given, and
/// waits for that.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let (queue, requests) = mpsc::channel();
        let expiries = load_expiries(&shared)?;
        let thread = thread::Builder::new()
            .name("sluicegate-store".to_owned())
            .spawn(move || Loop { shared, expiries, stale: false }.run(&requests))
            .map_err(|error| unavailable(format!("no thread for the writer: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Answers when the outcome is durable. A commit whose caller went away happens all the same.
    pub(super) async fn commit(&self, commit: Commit) -> Answer {
        let stopped = || unavailable("the writer has stopped".to_owned());
        let (answer, outcome) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Request { commit, answer }).map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of the embedded store panicked");
        }
    }
}

struct Loop {
    shared: Arc<Shared>,
    expiries: Expiries,
    /// A write failed, and what the file holds now must be read before it is known.
    stale: bool,
}

impl Loop {
    /// Ends when the handle is dropped.
    fn run(mut self, requests: &mpsc::Receiver<Request>) {
        while let Ok(first) = self.wait(requests) {
            let waiting = first.into_iter().chain(requests.try_iter());
            let group: Vec<Request> = waiting.take(GROUP).collect();
            if self.stale {
                self.reload();
            }
            let expired = self.expiries.due(Instant::now(), GROUP);
            if !group.is_empty() || !expired.is_empty() {
                self.write(&expired, group);
            }
        }
    }

    /// The next request, or none when there is something else to do.
    fn wait(&self, requests: &mpsc::Receiver<Request>) -> Result<Option<Request>, mpsc::RecvError> {
        let patience = match self.expiries.next() {
            _ if self.stale => RETRY_AFTER,
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => return requests.recv().map(Some),
        };
        match requests.recv_timeout(patience) {
            Ok(request) => Ok(Some(request)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(mpsc::RecvError),
        }
    }

    fn write(&mut self, expired: &[String], requests: Vec<Request>) {
        let commits = || requests.iter().map(|request| &request.commit);
        let history = self.shared.history;
        match self.shared.file.write(|txn| write_group(txn, history, expired, commits())) {
            Ok(written) => {
                for key in expired {
                    self.expiries.set(key.clone(), None);
                }
                let now = Instant::now();
                for (key, ttl) in written.expiries {
                    self.expiries.set(key, ttl.and_then(|ttl| now.checked_add(ttl)));
                }
                self.shared.latest.send_replace(written.revision);
                for (request, outcome) in requests.into_iter().zip(written.outcomes) {
                    request.answer.send(Ok(outcome)).ok();
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot write the embedded store");
                self.stale = true;
                for request in requests {
                    request.answer.send(Err(error.clone())).ok();
                }
            }
        }
    }

    /// After a failed write, which may have reached the disk nevertheless.
    fn reload(&mut self) {
        let loaded = load_expiries(&self.shared)
            .and_then(|expiries| Ok((expiries, self.shared.file.read(table::revision)?)));
        if let Ok((expiries, revision)) = loaded {
            self.expiries = expiries;
            self.shared.latest.send_replace(revision);
            self.stale = false;
        }
    }
}

fn load_expiries(shared: &Shared) -> Result<Expiries, StoreError> {
    let expiring = shared.file.read(table::expiring)?;
    Ok(Expiries::from_now(Instant::now(), expiring))
}

/// What one disk write did.
struct Written {
    /// One for each commit, in order.
    outcomes: Vec<Committed>,
    /// Keys whose time to live was set or ended.
    expiries: Vec<(String, Option<Duration>)>,
    /// The newest revision afterwards.
    revision: Revision,
}

/// Removes the expired keys and does the commits, each at a revision of its own, in one
/// transaction of the file: a group costs one flush to disk.
fn write_group<'c>(
    mut txn: WriteTransaction,
    history: u64,
    expired: &[String],
    commits: impl Iterator<Item = &'c Commit>,
) -> Result<Written, redb::Error> {
    txn.set_durability(Durability::Immediate)?;
    let (written, before) = {
        let mut group = Group::open(&txn)?;
        let before = group.revision;
        for key in expired {
            let delete = Op::Delete { key: key.clone() };
            group.commit(&Commit { ops: vec![delete], ..Commit::default() })?;
        }
        let outcomes = commits.map(|commit| group.commit(commit)).collect::<Result<_, _>>()?;
        group.forget_through(group.revision.saturating_sub(history))?;
        let Group { revision, expiries, .. } = group;
        (Written { outcomes, expiries, revision }, before)
    };
    if written.revision > before {
        txn.open_table(COUNTERS)?.insert(REVISION, written.revision)?;
        txn.commit()?;
    } else {
        txn.abort()?;
    }
    Ok(written)
}

/// The tables of one transaction while its commits are done one after the other.
struct Group<'t> {
    entries: Table<'t, &'static str, EntryRow<'static>>,
    log: Table<'t, LogKey, LogRow<'static>>,
    revision: Revision,
    expiries: Vec<(String, Option<Duration>)>,
}

impl<'t> Group<'t> {
    fn open(txn: &'t WriteTransaction) -> Result<Self, redb::Error> {
        let revision = txn.open_table(COUNTERS)?.get(REVISION)?.map_or(0, |value| value.value());
        Ok(Self {
            entries: txn.open_table(ENTRIES)?,
            log: txn.open_table(LOG)?,
            revision,
            expiries: Vec::new(),
        })
    }

    fn commit(&mut self, commit: &Commit) -> Result<Committed, redb::Error> {
        let conflicts = self.conflicts(&commit.preconditions)?;
        if !conflicts.is_empty() {
            return Ok(Committed::Conflict(conflicts));
        }
        let revision = self.revision + 1;
        let mut changes = 0;
        for op in &commit.ops {
            if self.apply(op, revision, changes)? {
                changes += 1;
            }
        }
        if changes > 0 {
            self.revision = revision;
        }
        Ok(Committed::At(self.revision))
    }

    fn conflicts(
        &self,
        preconditions: &[Precondition],
    ) -> Result<Vec<(String, Revision)>, redb::Error> {
        let mut conflicts = Vec::new();
        for wanted in preconditions {
            let row = self.entries.get(wanted.key.as_str())?;
            let found = row.map_or(0, |row| row.value().0);
            if found != wanted.mod_revision {
                conflicts.push((wanted.key.clone(), found));
            }
        }
        Ok(conflicts)
    }

    /// Does one write, the `place`th of its commit. False if it changed nothing.
    fn apply(&mut self, op: &Op, revision: Revision, place: u32) -> Result<bool, redb::Error> {
        let (key, value, ttl) = match op {
            Op::Put { key, value, ttl } => {
                let row = (revision, ttl.map_or(0, stored_ttl), &value[..]);
                self.entries.insert(key.as_str(), row)?;
                (key, Some(&value[..]), *ttl)
            }
            Op::Delete { key } => {
                if self.entries.remove(key.as_str())?.is_none() {
                    return Ok(false);
                }
                (key, None, None)
            }
        };
        self.log.insert((revision, place), (key.as_str(), value))?;
        self.expiries.push((key.clone(), ttl));
        Ok(true)
    }

    /// Drops the changes of `last` and older from the log.
    fn forget_through(&mut self, last: Revision) -> Result<(), redb::Error> {
        while self.log.first()?.is_some_and(|(at, _)| at.value().0 <= last) {
            self.log.pop_first()?;
        }
        Ok(())
    }
}

/// In milliseconds, never 0: that stands for no time to live.
fn stored_ttl(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}
