//! The connections to the members of the cluster, and which one to ask.

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Client, ConnectOptions, Error};
use tokio::{sync::OnceCell, time::timeout};

use super::failure;
use crate::StoreError;

/// One connection per member, opened when first needed. All calls go to one member until it fails
/// them; then the next has its turn. (The client's own balancer keeps sending a share of the calls
/// to a dead member, each of which fails.)
pub(super) struct Members {
    members: Vec<Member>,
    preferred: AtomicUsize,
    options: ConnectOptions,
}

struct Member {
    endpoint: String,
    client: OnceCell<Client>,
}

/// When a failed call may be made again on another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or nothing that happening twice would make worse.
    Always,
    /// Only if no server can have seen it.
    IfUnsent,
}

impl Members {
    pub(super) fn new(endpoints: &[String], options: ConnectOptions) -> Self {
        let member =
            |endpoint: &String| Member { endpoint: endpoint.clone(), client: OnceCell::new() };
        Self {
            members: endpoints.iter().map(member).collect(),
            preferred: AtomicUsize::new(0),
            options,
        }
    }

    /// Makes a call on the preferred member, and where that is safe on the others in turn, within
    /// the deadline.
    pub(super) async fn call<T, F>(
        &self,
        deadline: Duration,
        repeat: Repeat,
        call: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let attempts = async {
            let mut left = self.members.len();
            loop {
                left -= 1;
                let at = self.preferred.load(Ordering::Relaxed);
                let outcome = match self.client(at).await {
                    Ok(client) => call(client).await.map_err(|error| (false, error)),
                    Err(error) => Err((true, error)),
                };
                let (unsent, error) = match outcome {
                    Ok(answer) => return Ok(answer),
                    Err(failed) => failed,
                };
                if failure::is_final(&error) {
                    return Err(failure::store_error(error));
                }
                self.turn_from(at);
                let again = repeat == Repeat::Always || unsent || failure::is_unsent(&error);
                if left == 0 || !again {
                    return Err(failure::store_error(error));
                }
            }
        };
        let asked = self.preferred.load(Ordering::Relaxed);
        match timeout(deadline, attempts).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.turn_from(asked);
                let reason = format!("no answer within {deadline:?}");
                Err(StoreError::Unavailable { store: super::KIND, reason })
            }
        }
    }

    /// Opens a connection that nothing else uses. `turn` picks the member, starting with the
    /// preferred one.
    pub(super) async fn dedicated(&self, turn: usize) -> Result<Client, Error> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let at = preferred.wrapping_add(turn) % self.members.len();
        self.connect(&self.members[at].endpoint).await
    }

    async fn client(&self, at: usize) -> Result<Client, Error> {
        let member = &self.members[at];
        member.client.get_or_try_init(|| self.connect(&member.endpoint)).await.cloned()
    }

    /// Without credentials this does no I/O: the connection is made by the first call, and made
    /// anew whenever it breaks.
    async fn connect(&self, endpoint: &str) -> Result<Client, Error> {
        Client::connect([endpoint], Some(self.options.clone())).await
    }

    /// Prefers the next member, unless another call has already turned away from this one.
    fn turn_from(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        // A lost race means that someone else has turned; there is nothing to do then.
        if self.preferred.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && next != at
        {
            tracing::info!(
                from = self.members[at].endpoint,
                to = self.members[next].endpoint,
                "turning to another etcd member"
            );
        }
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.iter().map(|member| &member.endpoint)).finish()
    }
}
