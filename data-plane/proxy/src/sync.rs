//! Keeping the policy current: the stream from a control plane, the file for when there is none.

pub mod cache;
mod starts;
mod stream;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sluicegate_model::secret::Secret;
use sluicegate_proto::policy::v1 as pb;
use sluicegate_protocol::policy::{Change, Digest, Lane, LaneState, Lanes, Verdict};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{sync::watch, time::Instant};
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

use crate::{
    metrics::Metrics,
    policy::{Compiler, Current, Keys},
    target::Targets,
    upstream::Clients,
};
use cache::Cache;
use starts::LeftAlone;

pub use sluicegate_protocol::policy::SCHEMA;

/// How long a start waits for the control plane before it serves from its file.
pub const START_GRACE: Duration = Duration::from_secs(3);

/// Where the policy comes from and who asks.
#[derive(Debug, Clone)]
pub struct SyncConfig {
    /// Control-plane addresses, tried in turn.
    pub endpoints: Vec<Endpoint>,
    /// Proves that this is one of the fleet's data planes.
    pub token: Secret,
    pub node: pb::NodeIdentity,
}

/// Why a control-plane address is unusable.
#[derive(Debug, thiserror::Error)]
#[error("control plane address '{address}': {reason}")]
pub struct BadEndpoint {
    pub address: String,
    pub reason: String,
}

/// A control-plane address with the settings that a policy stream needs.
///
/// # Errors
/// When it is not a URL, or the authorities' file holds no certificates.
pub fn endpoint(address: &str, ca_pem: Option<&[u8]>) -> Result<Endpoint, BadEndpoint> {
    let bad = |reason: String| BadEndpoint { address: address.to_owned(), reason };
    let full =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(full).map_err(|error| bad(error.to_string()))?;
    let tls = match endpoint.uri().scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(bad("use a URL such as http://127.0.0.1:9180".to_owned())),
    };
    if endpoint.uri().authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let bare = BadEndpoint { address: "***".to_owned(), reason: String::new() };
        return Err(BadEndpoint { reason: "the URL must not hold credentials".to_owned(), ..bare });
    }
    if !matches!(endpoint.uri().path(), "" | "/") {
        return Err(bad("the URL must end after the port".to_owned()));
    }
    let endpoint = endpoint
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true)
        .initial_connection_window_size(16 * 1024 * 1024)
        .initial_stream_window_size(1024 * 1024);
    if !tls {
        return Ok(endpoint);
    }
    let mut config = ClientTlsConfig::new().with_enabled_roots();
    if let Some(pem) = ca_pem {
        config = config.ca_certificate(Certificate::from_pem(pem));
    }
    endpoint.tls_config(config).map_err(|error| bad(error.to_string()))
}

/// The header that carries the node token; `None` for one that fits into no header.
pub(crate) fn bearer(token: &Secret) -> Option<MetadataValue<Ascii>> {
    let mut value = MetadataValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Where the policy that is served came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// There is none yet.
    None,
    /// The file of an earlier run; the control plane has not answered since.
    Cache,
    ControlPlane,
}

/// What `/readyz` tells of the policy.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub source: Source,
    pub revision: u64,
    pub connected: bool,
    /// Since when the policy is known to be the newest; `None` while it is only from the file.
    pub fresh_at: Option<Instant>,
    /// The grace for the control plane at start is over.
    pub settled: bool,
}

impl Status {
    /// May traffic be sent here? A valid policy is enough; it need not be fresh.
    pub fn ready(&self) -> bool {
        match self.source {
            Source::None => false,
            Source::Cache => self.settled,
            Source::ControlPlane => true,
        }
    }
}

/// The parts that both the stream and the start share.
#[derive(Debug)]
struct Shared {
    current: Arc<Current>,
    compiler: Mutex<Compiler>,
    cache: Option<Cache>,
    status: watch::Sender<Status>,
    /// What was taken over last.
    taken: watch::Sender<Option<Digest>>,
    /// When what was left alone may be tried again.
    again_at: watch::Sender<Option<Instant>>,
    metrics: Arc<Metrics>,
    /// When this process began to follow.
    begun: Instant,
}

impl Shared {
    /// Takes a change set of a lane over, on this thread, or says why not.
    fn apply(&self, lane: Lane, change: &Change, source: Source) -> Verdict {
        let begun = Instant::now();
        let verdict = match lane {
            Lane::Keys => self.apply_keys(change),
            Lane::Config => self.apply_config(change, source),
        };
        for rejected in &verdict.rejected {
            let name = rejected.r#ref.as_ref().map(|r| format!("{}/{}", r.kind, r.name));
            tracing::warn!(resource = name, reason = rejected.reason, "resource rejected");
        }
        Verdict { took: begun.elapsed(), ..verdict }
    }

    /// Only ever called for one change set at a time: the session sends the next one afterwards.
    fn apply_keys(&self, change: &Change) -> Verdict {
        let (keys, rejected) = Keys::after(self.current.keys().as_deref(), change);
        self.current.store_keys(Arc::new(keys));
        Verdict { rejected, ..Verdict::default() }
    }

    fn apply_config(&self, change: &Change, source: Source) -> Verdict {
        let mut before = None;
        if let Some(cache) = &self.cache {
            // Only where what is served is proven: whoever kills processes may not be what they run.
            if self.taken.borrow().is_some_and(|running| cache.is_proven(running))
                && let Err(LeftAlone { why, still }) = cache.starts().allows(change.digest)
            {
                tracing::error!(revision = change.to.revision, reason = why, "policy refused");
                self.metrics.policy_refused.inc();
                self.again_at.send_replace(Some(Instant::now() + still));
                return Verdict { refused: Some(why), ..Verdict::default() };
            }
            before = cache.starts().try_out(change.digest);
        }
        let mut compiler = self.compiler.lock().unwrap_or_else(PoisonError::into_inner);
        match compiler.compile(change) {
            Ok(mut compiled) => {
                compiler.adopt(&mut compiled);
                self.current.store(compiled.policy.clone());
                self.taken.send_replace(Some(change.digest));
                self.again_at.send_replace(None);
                self.metrics.policy_revision.set(compiled.policy.revision);
                self.metrics
                    .policy_rejected
                    .set(i64::try_from(compiled.rejected.len()).unwrap_or(i64::MAX));
                self.status.send_modify(|status| {
                    status.source = source;
                    status.revision = compiled.policy.revision;
                });
                Verdict { rejected: compiled.rejected, ..Verdict::default() }
            }
            Err(reason) => {
                if let Some(cache) = &self.cache {
                    cache.starts().give_up(change.digest, before);
                }
                self.metrics.policy_refused.inc();
                tracing::error!(revision = change.to.revision, reason, "policy refused");
                Verdict { refused: Some(reason), ..Verdict::default() }
            }
        }
    }
}

/// The running sync; dropping it ends the stream.
#[derive(Debug)]
pub struct PolicySync {
    status: watch::Receiver<Status>,
    shared: Arc<Shared>,
    _tasks: [AbortOnDrop<()>; 3],
}

impl PolicySync {
    /// Loads the file, if there is one, and begins to follow the control plane. The second value
    /// holds sentences for the operator about what was found on disk.
    pub fn start(
        config: SyncConfig,
        cache: Option<Cache>,
        current: Arc<Current>,
        clients: Clients,
        targets: Arc<Targets>,
        metrics: Arc<Metrics>,
    ) -> (Self, Vec<String>) {
        let (sender, status) = watch::channel(Status {
            source: Source::None,
            revision: 0,
            connected: false,
            fresh_at: None,
            settled: false,
        });
        let shared = Arc::new(Shared {
            current,
            compiler: Mutex::new(Compiler::new(clients, targets)),
            cache,
            status: sender,
            taken: watch::Sender::new(None),
            again_at: watch::Sender::new(None),
            metrics,
            begun: Instant::now(),
        });
        let (states, notices) = load(&shared);
        let settling = {
            let shared = shared.clone();
            task::spawn("policy-grace", async move {
                tokio::time::sleep(START_GRACE).await;
                shared.status.send_modify(|status| status.settled = true);
            })
        };
        let proving = task::spawn("policy-proof", prove(shared.clone()));
        let following = task::spawn("policy-sync", stream::follow(config, shared.clone(), states));
        let tasks = [settling, proving, following].map(AbortOnDrop);
        (Self { status, shared, _tasks: tasks }, notices)
    }

    /// The process was told to end, and may be ended any time: that is no fault of what it runs.
    pub fn stopping(&self) {
        if let Some(cache) = &self.shared.cache {
            cache.starts().stop();
        }
    }

    /// The state of things, now and as it changes.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }
}

/// Notes what this process has lived with for a while.
async fn prove(shared: Arc<Shared>) {
    let mut taken = shared.taken.subscribe();
    taken.mark_changed();
    while taken.changed().await.is_ok() {
        let Some(digest) = *taken.borrow_and_update() else { continue };
        tokio::time::sleep(starts::PROVEN).await;
        // Of what came and went meanwhile nothing is proven.
        if taken.has_changed().unwrap_or(true) {
            continue;
        }
        let shared = shared.clone();
        let noted = tokio::task::spawn_blocking(move || match &shared.cache {
            Some(cache) if cache.starts().prove(digest) => cache.keep_proven(digest),
            Some(_) | None => Ok(()),
        });
        if let Ok(Err(error)) = noted.await {
            tracing::warn!(%error, "the policy that is proven cannot be kept apart");
        }
    }
}

/// Serves the last good policy from disk, so that a start needs no control plane.
fn load(shared: &Shared) -> (Lanes<LaneState>, Vec<String>) {
    let mut notices = Vec::new();
    // The keys first: what was revoked is so from the first request on.
    let states = Lanes::of(|lane| load_lane(shared, lane, &mut notices));
    (states, notices)
}

fn load_lane(shared: &Shared, lane: Lane, notices: &mut Vec<String>) -> LaneState {
    let Some(cache) = &shared.cache else { return LaneState::default() };
    let (change, found) = cache.load(lane);
    notices.extend(found);
    let Some(change) = change else { return LaneState::default() };
    let verdict = shared.apply(lane, &change, Source::Cache);
    if let Some(reason) = verdict.refused {
        notices.push(format!(
            "the saved policy is of no use to this build ({reason}); starting without it"
        ));
        return LaneState::default();
    }
    tracing::info!(
        lane = lane.name(),
        revision = change.to.revision,
        file = cache.location(),
        "loaded the last good policy"
    );
    let mut state = LaneState::default();
    state.apply(change);
    state
}
