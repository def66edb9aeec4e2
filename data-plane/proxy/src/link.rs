//! The way to control planes: which of them is asked and with what token, and when one is tried again.

use std::{sync::Arc, time::Duration};

use sluicegate_model::secret::Secret;
use tokio::time::{Instant, sleep};
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use crate::sync::bearer;

/// Shortest and longest wait before another try; random between nothing and the bound, which doubles.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A stream that stood so long counts as good: the next failure starts from the shortest wait.
const HEALTHY: Duration = Duration::from_secs(30);

/// The control planes that a data plane may ask.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlanes {
    channels: Arc<[Channel]>,
    token: Option<MetadataValue<Ascii>>,
}

impl ControlPlanes {
    /// Connects once something is asked.
    pub(crate) fn new(endpoints: &[Endpoint], token: &Secret) -> Self {
        Self {
            channels: endpoints.iter().map(Endpoint::connect_lazy).collect(),
            token: bearer(token),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.channels.len()
    }

    /// The one whose turn it is.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn channel(&self, turn: usize) -> Result<Channel, &'static str> {
        let index = turn.checked_rem(self.channels.len());
        let channel = index.and_then(|index| self.channels.get(index));
        channel.cloned().ok_or("there is no control plane")
    }

    /// A request with the node's token.
    ///
    /// # Errors
    /// No header can carry the token.
    pub(crate) fn request<T>(&self, message: T) -> Result<Request<T>, &'static str> {
        let token = self.token.clone().ok_or("the node token does not fit into a header")?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", token);
        Ok(request)
    }
}

/// How long until another try.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(BACKOFF_MIN)
    }
}

impl Backoff {
    /// The next wait. The bound of the one after it is twice as long.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.0.mul_f64(fastrand::f64());
        self.0 = (self.0 * 2).min(BACKOFF_MAX);
        wait
    }

    /// What began then has ended: the next wait.
    pub(crate) fn after(&mut self, begun: Instant) -> Duration {
        if begun.elapsed() >= HEALTHY {
            *self = Self::default();
        }
        self.next()
    }

    /// Waits after what began then.
    pub(crate) async fn wait_after(&mut self, begun: Instant) {
        sleep(self.after(begun)).await;
    }
}

/// What became of a report: one that is not understood counts as told, since it would be refused again,
/// and nothing else would ever be told.
///
/// # Errors
/// What the control plane says: it is to be told again.
pub(crate) fn told<T>(answer: Result<T, Status>) -> Result<(), String> {
    match answer {
        Ok(_) => Ok(()),
        Err(status) if status.code() == Code::InvalidArgument => {
            let reason = status.message();
            tracing::error!(reason, "a control plane does not understand us");
            Ok(())
        }
        Err(status) => Err(said(&status)),
    }
}

pub(crate) fn said(status: &Status) -> String {
    status.message().to_owned()
}
