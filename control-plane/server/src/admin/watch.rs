//! Streams of changes for administrators.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use prost::Message;
use sluicegate_control_core::{ChangeEvent, Changes, Desired, State};
use sluicegate_model::Kind;
use sluicegate_proto::admin::v1 as pb;
use sluicegate_protocol::policy::Point;
use sluicegate_telemetry::task;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{paging::PAGE_BYTES, status, wire};

/// Events that wait for a slow watcher. One that falls behind the changes in memory gets the state
/// anew.
const QUEUE: usize = 4;
/// How long a watcher that is ahead of this replica waits for it.
const CATCH_UP: Duration = Duration::from_secs(2);

type Events = mpsc::Sender<Result<pb::WatchEvent, Status>>;

/// Starts a stream of what happens after a revision; after 0: of the present state, then of what
/// happens to it. No kinds: all.
pub(super) fn start(
    desired: Arc<Desired>,
    kinds: BTreeSet<Kind>,
    after: u64,
    stopping: CancellationToken,
) -> ReceiverStream<Result<pb::WatchEvent, Status>> {
    let (events, stream) = mpsc::channel(QUEUE);
    let watcher = Watcher { desired, kinds, events };
    drop(task::spawn("admin-watch", async move {
        let gone = watcher.events.clone();
        tokio::select! {
            () = watcher.run(after) => {}
            () = gone.closed() => {}
            () = stopping.cancelled() => {
                // A watcher that does not read learns of the end from the connection.
                drop(gone.try_send(Err(status::stopping())));
            }
        }
    }));
    ReceiverStream::new(stream)
}

struct Watcher {
    desired: Arc<Desired>,
    /// Empty: all.
    kinds: BTreeSet<Kind>,
    events: Events,
}

/// The watcher is gone.
struct Gone;

impl Watcher {
    async fn run(&self, after: u64) {
        // Ends with the watcher.
        let Err(Gone) = self.follow(after).await else { return };
    }

    async fn follow(&self, after: u64) -> Result<(), Gone> {
        let mut moved = self.desired.subscribe();
        let known = after > 0 && self.desired.reached(after, CATCH_UP).await;
        let mut cursor = if known {
            Point { epoch: self.desired.snapshot().epoch.clone(), revision: after }
        } else {
            self.send_state(&self.desired.snapshot()).await?
        };
        loop {
            moved.mark_unchanged();
            match self.desired.changes_after(&cursor) {
                Changes::These(events) => {
                    for event in events {
                        cursor.revision = event.revision;
                        self.send_change(&cursor, &event).await?;
                    }
                }
                Changes::Reset(state) => cursor = self.send_state(&state).await?,
            }
            moved.changed().await.map_err(|_| Gone)?;
        }
    }

    /// Sends the whole state, in as many events as it takes, and tells where it stands.
    async fn send_state(&self, state: &State) -> Result<Point, Gone> {
        let at = state.point();
        let empty = |reset| pb::WatchEvent { at: wire::point(&at), reset, ..Default::default() };
        let mut event = empty(true);
        let mut bytes = 0;
        for (_, stored) in state.resources.iter().filter(|(of, _)| self.wants(of.kind)) {
            let shown = wire::shown(stored);
            bytes += shown.encoded_len();
            if bytes > PAGE_BYTES && !event.puts.is_empty() {
                bytes = shown.encoded_len();
                self.send(std::mem::replace(&mut event, empty(false))).await?;
            }
            event.puts.push(shown);
        }
        self.send(event).await?;
        Ok(at)
    }

    async fn send_change(&self, at: &Point, change: &ChangeEvent) -> Result<(), Gone> {
        let puts = change.puts.iter().filter(|(of, _)| self.wants(of.kind));
        let deletes = change.deletes.iter().filter(|of| self.wants(of.kind));
        let event = pb::WatchEvent {
            at: wire::point(at),
            puts: puts.map(|(_, stored)| wire::shown(stored)).collect(),
            deletes: deletes.map(|reference| reference.to_proto()).collect(),
            reset: false,
        };
        if event.puts.is_empty() && event.deletes.is_empty() {
            return Ok(());
        }
        self.send(event).await
    }

    async fn send(&self, event: pb::WatchEvent) -> Result<(), Gone> {
        self.events.send(Ok(event)).await.map_err(|_| Gone)
    }

    fn wants(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}
