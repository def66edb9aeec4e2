//! Proof that a watch tells what is written.
//!
//! A watch can fall silent while its connection and its server are well: starved behind others
//! (etcd-io/etcd#15402), or forgotten by the server (etcd-io/etcd#17529). Neither pings nor the progress
//! that servers claim tell that from a prefix in which nothing happens. So something happens in each: a key
//! that no contract shows is written whenever a watch has been quiet for a while, by whoever notices first,
//! and what was written must be told. The positions of quiet watches keep up by that, too, so that
//! compaction does not overtake them.

use std::time::Duration;

use etcd_client::{Client, WatchResponse};
use tokio::time::{Instant, timeout};

use super::Ended;

/// So long nothing need be told, and as long again at random, so that replicas do not all write.
const QUIET: Duration = Duration::from_secs(4);
const SPREAD: Duration = Duration::from_secs(1);
/// So long after it was written, the key must have been told.
const SILENCE: Duration = Duration::from_secs(7);
/// For whoever was stopped itself, or waited for a slow listener.
const MOMENT: Duration = Duration::from_secs(1);

/// One watch's.
#[derive(Debug)]
pub(super) struct Canary {
    key: Vec<u8>,
    /// When the next one is written, if nothing is told before.
    write_at: Instant,
    /// What was written and has not been told.
    owed: Option<Owed>,
}

#[derive(Debug, Clone, Copy)]
struct Owed {
    revision: i64,
    /// By when it must be told, or something before it.
    by: Instant,
    /// That was so once already: what has come meanwhile had a moment to be read.
    warned: bool,
}

impl Canary {
    /// Of a watch that begins now; `key` lies in what it watches.
    pub(super) fn new(key: Vec<u8>) -> Self {
        let mut canary = Self { key, write_at: Instant::now(), owed: None };
        canary.rest();
        canary
    }

    fn rest(&mut self) {
        self.write_at = Instant::now() + QUIET + SPREAD.mul_f64(fastrand::f64());
    }

    /// When [`Canary::turn`] has something to do.
    pub(super) fn due(&self) -> Instant {
        self.owed.map_or(self.write_at, |owed| owed.by)
    }

    /// The watch has told something.
    pub(super) fn hear(&mut self, response: &WatchResponse) {
        let newest = response.events().iter().filter_map(|event| Some(event.kv()?.mod_revision()));
        let Some(newest) = newest.max() else { return };
        self.rest();
        // A watch that catches up tells much before.
        let by = Instant::now() + SILENCE;
        self.owed = self.owed.filter(|owed| owed.revision > newest).map(|owed| Owed { by, ..owed });
    }

    /// It is due: writes, or finds that the watch is silent. A server that takes no writes proves nothing.
    pub(super) async fn turn(&mut self, client: &Client, patience: Duration) -> Result<(), Ended> {
        if let Some(owed) = &mut self.owed {
            if owed.warned {
                return Err(Ended::Silent);
            }
            *owed = Owed { by: Instant::now() + MOMENT, warned: true, ..*owed };
            return Ok(());
        }
        let mut kv = client.kv_client();
        let written = timeout(patience, kv.put(self.key.clone(), "", None)).await;
        self.rest();
        if let Ok(Ok(answer)) = written {
            let revision = answer.header().map(etcd_client::ResponseHeader::revision);
            let by = Instant::now() + SILENCE;
            self.owed = revision.map(|revision| Owed { revision, by, warned: false });
        }
        Ok(())
    }
}
