//! The configuration store on an etcd cluster.

mod commit;
mod config;
mod failure;
mod keys;
mod members;
mod read;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use sluicegate_telemetry::task;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

pub use config::{Credentials, EtcdConfig, EtcdTls, Timeouts};
use keys::Keys;
use members::{Members, Repeat};
use watch::Supervisor;

use crate::{
    Commit, Committed, ConfigStore, Entry, Epoch, Limits, Listing, Revision, StoreError,
    WatchStream,
};

const KIND: &str = "etcd";
/// Events that wait for a slow watcher before its watch stops reading from the server, which keeps
/// them meanwhile.
const WATCH_BUFFER: usize = 16;

/// A configuration store whose truth is an etcd cluster.
#[derive(Debug)]
pub struct EtcdStore {
    members: Arc<Members>,
    keys: Keys,
    timeouts: Timeouts,
    limits: Limits,
    location: String,
}

impl EtcdStore {
    /// Checks the configuration and reads its certificates. Does not wait for the cluster: a
    /// control plane may start while it is down, and finds out with its first call.
    pub async fn connect(config: EtcdConfig) -> Result<Self, StoreError> {
        let options = config.connect_options().await?;
        Ok(Self {
            members: Arc::new(Members::new(&config.endpoints, options)),
            keys: Keys::new(&config.prefix),
            timeouts: config.timeouts,
            limits: config.limits,
            location: config.endpoints.join(","),
        })
    }
}

#[async_trait]
impl ConfigStore for EtcdStore {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        let call = async |client| read::history(&client, &self.keys).await;
        let history = self.members.call(self.timeouts.call, Repeat::Always, call).await?;
        Ok(history.epoch)
    }

    async fn renew_epoch(&self, seen: &Epoch) -> Result<Epoch, StoreError> {
        let call = async |client| {
            let history = read::history(&client, &self.keys).await?;
            if history.epoch != *seen {
                return Ok(history.epoch);
            }
            let renewed = read::renew(&client, &self.keys, &history).await?;
            Ok(renewed.epoch)
        };
        // Made twice, it finds what it wrote the first time and leaves it.
        self.members.call(self.timeouts.call, Repeat::Always, call).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        let call = async |client| read::newest(&client, &self.keys).await;
        self.members.call(self.timeouts.call, Repeat::Always, call).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.limits.check(KIND, &commit, self.keys.prefix_len())?;
        let call = async |client| commit::commit(&client, &self.keys, &commit).await;
        self.members.call(self.timeouts.call, Repeat::IfUnsent, call).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let call = async |client: etcd_client::Client| {
            let mut kv = client.kv_client().max_decoding_message_size(read::MAX_MESSAGE);
            kv.get(self.keys.absolute(key), None).await
        };
        let mut answer = self.members.call(self.timeouts.call, Repeat::Always, call).await?;
        Ok(answer.take_kvs().pop().and_then(|kv| self.keys.entry(kv)))
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        let call = async |client| read::list(&client, &self.keys, prefix).await;
        self.members.call(self.timeouts.list, Repeat::Always, call).await
    }

    async fn watch(
        &self,
        prefix: &str,
        epoch: Epoch,
        from: Revision,
    ) -> Result<WatchStream, StoreError> {
        let (sender, events) = mpsc::channel(WATCH_BUFFER);
        let supervisor = Supervisor {
            members: self.members.clone(),
            keys: self.keys.clone(),
            prefix: prefix.to_owned(),
            timeouts: self.timeouts,
            epoch,
            cursor: from.saturating_sub(1),
            relist: false,
            interrupted: false,
            events: sender,
        };
        drop(task::spawn("etcd-watch", supervisor.run()));
        Ok(Box::pin(ReceiverStream::new(events)))
    }
}
