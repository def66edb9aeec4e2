//! A watch that outlives its connections: it resumes where it was, or lists again where it cannot.

mod batch;
mod canary;

use std::{convert::Infallible, future, sync::Arc, time::Duration};

use etcd_client::{Client, Error, Event, WatchOptions, WatchResponse, WatchStream};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

use self::canary::Canary;
use super::{Timeouts, failure, keys, keys::Keys, members::Members, read, read::History};
use crate::{Epoch, Revision, WatchEvent, backoff::Backoff};

const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Follows one prefix on a connection of its own, since a watch starves behind large reads on a
/// shared one.
///
/// The cursor moves only with what this watch was sent, never with the progress a server claims:
/// servers have been seen to claim progress ahead of events they had yet to send.
pub(super) struct Supervisor {
    pub(super) members: Arc<Members>,
    pub(super) keys: Keys,
    pub(super) prefix: String,
    pub(super) timeouts: Timeouts,
    /// The history that the cursor is a position in.
    pub(super) epoch: Epoch,
    /// The last revision that has been told.
    pub(super) cursor: Revision,
    /// What lies after the cursor cannot be had; the next connection begins with a listing.
    pub(super) relist: bool,
    /// An outage has been told, and not yet its end.
    pub(super) interrupted: bool,
    pub(super) events: mpsc::Sender<WatchEvent>,
}

/// Why the watch on one connection ended.
#[derive(Debug)]
enum Ended {
    /// The connection or the server failed; everything after the cursor can still be had.
    Lost(String),
    /// The changes after the cursor are gone or out of order.
    HistoryGone,
    /// The history got a new id.
    Renewed,
    /// Something was written and is not told.
    Silent,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Lost(failure::reason(&error))
    }
}

impl Supervisor {
    /// Ends when the receiver of the events is dropped.
    pub(super) async fn run(mut self) {
        let events = self.events.clone();
        tokio::select! {
            never = self.supervise() => match never {},
            () = events.closed() => {}
        }
    }

    async fn supervise(&mut self) -> Infallible {
        let mut backoff = Backoff::new(BACKOFF_BASE, BACKOFF_MAX);
        let mut turn = 0;
        loop {
            let started = Instant::now();
            match Box::pin(self.follow(turn)).await {
                Err(Ended::Lost(reason)) => self.interrupt(reason).await,
                Err(Ended::HistoryGone) => self.relist = true,
                Err(Ended::Silent) => {
                    tracing::warn!(
                        "the etcd watch tells nothing of what is written; listing again"
                    );
                    self.relist = true;
                }
                // Nothing is wrong with the server, and whoever renewed wants it told soon.
                Err(Ended::Renewed) => continue,
                Ok(never) => match never {},
            }
            if started.elapsed() > BACKOFF_MAX {
                backoff.reset();
            }
            sleep(backoff.next_delay()).await;
            turn = turn.wrapping_add(1);
        }
    }

    /// Everything that happens on one connection, the `turn`th.
    async fn follow(&mut self, turn: usize) -> Result<Infallible, Ended> {
        let client = within(self.timeouts.connect, self.members.dedicated(turn)).await?;
        // The id of the history is watched before it is read, so that no change of it can fall
        // between the two; and on the same stream as the prefix, so that a change of it is told
        // before what came after it.
        let mut watcher = client.watch_client().max_decoding_message_size(read::MAX_MESSAGE);
        let created = async {
            let mut watch = watcher.watch(self.keys.epoch(), None).await?;
            let first = watch.message().await?;
            Ok((watch, first))
        };
        let (mut watch, first) = within(self.timeouts.call, created).await?;
        let first = still_watching(first)?;
        let history = self.find_place(&client).await?;
        if first.header().is_some_and(|header| header.cluster_id() != history.cluster) {
            return Err(Ended::Lost("another cluster answers at this address".to_owned()));
        }
        let epoch_watch = EpochWatch { id: first.watch_id(), known: history.id_revision };

        // From the cursor itself, which is known here, and not from the revision after it: servers
        // let a watch begin at the very revision they compacted to, but older ones have dropped the
        // deletes of that revision. Asked for the one before, they say that it is gone.
        let known = self.cursor;
        let options = WatchOptions::new()
            .with_range(keys::range_end(&self.keys.absolute(&self.prefix)))
            .with_start_revision(keys::etcd_revision(known.max(1)));
        let created = async {
            watch.watch(self.keys.absolute(&self.prefix), Some(options)).await?;
            epoch_watch.next_other(&mut watch).await
        };
        let first = timeout(self.timeouts.call, created)
            .await
            .unwrap_or_else(|_| Err(no_answer(self.timeouts.call)))?;
        if self.interrupted {
            // A watch is created first, and cancelled when its start is found to be compacted.
            let kept = read::is_kept(&client, &self.keys, known);
            if !within(self.timeouts.call, kept).await? {
                return Err(Ended::HistoryGone);
            }
            self.interrupted = false;
            self.emit(WatchEvent::Resumed).await;
        }

        self.deliver(&first, known).await?;
        let mut canary = Canary::new(self.keys.absolute(&keys::canary(&self.prefix)));
        loop {
            tokio::select! {
                // What has come is heard before silence is judged.
                biased;
                response = epoch_watch.next_other(&mut watch) => {
                    let response = response?;
                    canary.hear(&response);
                    self.deliver(&response, known).await?;
                }
                () = sleep_until(canary.due()) => canary.turn(&client, self.timeouts.call).await?,
            }
        }
    }

    /// Makes sure that the cursor is a position in the history that this server keeps, by listing
    /// again where it is not.
    async fn find_place(&mut self, client: &Client) -> Result<History, Ended> {
        let mut history = within(self.timeouts.call, read::history(client, &self.keys)).await?;
        if history.epoch == self.epoch && history.revision < self.cursor {
            tracing::warn!(
                cursor = self.cursor,
                revision = history.revision,
                "etcd went back in its history, as a restored backup does; the history gets a new id"
            );
            let renewed = read::renew(client, &self.keys, &history);
            history = within(self.timeouts.call, renewed).await?;
        }
        if self.relist || history.epoch != self.epoch {
            let listing = read::list(client, &self.keys, &self.prefix);
            let listing = within(self.timeouts.list, listing).await?;
            self.epoch = history.epoch.clone();
            self.cursor = listing.revision;
            self.relist = false;
            self.interrupted = false;
            self.emit(WatchEvent::Relisted { epoch: history.epoch.clone(), listing }).await;
        }
        Ok(history)
    }

    /// Tells what one response holds. `known` is where the cursor was when this watch was created;
    /// besides that revision, a member that lags behind can send earlier ones.
    async fn deliver(&mut self, response: &WatchResponse, known: Revision) -> Result<(), Ended> {
        for set in batch::change_sets(response, &self.keys) {
            if set.revision <= known {
                continue;
            }
            if set.revision <= self.cursor {
                tracing::warn!(cursor = self.cursor, revision = set.revision, "watch out of order");
                return Err(Ended::HistoryGone);
            }
            self.cursor = set.revision;
            if !set.changes.is_empty() {
                self.emit(WatchEvent::Changes(set)).await;
            }
        }
        Ok(())
    }

    async fn interrupt(&mut self, reason: String) {
        tracing::debug!(reason, "etcd watch interrupted");
        if !std::mem::replace(&mut self.interrupted, true) {
            self.emit(WatchEvent::Interrupted(reason)).await;
        }
    }

    async fn emit(&self, event: WatchEvent) {
        if self.events.send(event).await.is_err() {
            // Nobody listens any more, which ends `run`.
            future::pending::<()>().await;
        }
    }
}

/// The watch of the id of the history, which shares its stream with the watch of the prefix.
#[derive(Debug, Clone, Copy)]
struct EpochWatch {
    /// By which the server tells the two apart.
    id: i64,
    /// Revision of the id as it was read after this watch was created.
    known: i64,
}

impl EpochWatch {
    /// The next response that is not about the id; an error if the id changed.
    async fn next_other(self, watch: &mut WatchStream) -> Result<WatchResponse, Ended> {
        loop {
            let response = still_watching(watch.message().await?)?;
            if response.watch_id() != self.id {
                return Ok(response);
            }
            let news = |event: &Event| event.kv().is_some_and(|kv| kv.mod_revision() > self.known);
            if response.events().iter().any(news) {
                return Err(Ended::Renewed);
            }
        }
    }
}

/// Tells a response that carries on from one that ends the watch.
fn still_watching(response: Option<WatchResponse>) -> Result<WatchResponse, Ended> {
    let response = response.ok_or_else(|| Ended::Lost("the server closed the watch".to_owned()))?;
    if response.compact_revision() > 0 {
        return Err(Ended::HistoryGone);
    }
    if response.canceled() {
        return Err(Ended::Lost(format!("watch cancelled: {}", response.cancel_reason())));
    }
    Ok(response)
}

async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Ended> {
    match timeout(deadline, call).await {
        Ok(outcome) => outcome.map_err(Ended::from),
        Err(_) => Err(no_answer(deadline)),
    }
}

fn no_answer(deadline: Duration) -> Ended {
    Ended::Lost(format!("no answer within {deadline:?}"))
}
