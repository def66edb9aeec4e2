//! Reading secrets again that come from the environment or from files.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sluicegate_model::{ResourceRef, seal::SealKey};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    apply::{Applier, Change, Desire, Request},
    desired::Desired,
    error::CoreError,
    secrets,
    state::Stored,
};

/// Between two readings.
const EVERY: Duration = Duration::from_secs(5);
/// Author of the changes.
const AUTHOR: &str = "secret-watch";

/// What this replica last read from a credential's source.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    source: Source,
    fingerprint: Option<String>,
}

/// Applies credentials anew whose source holds another key than before.
///
/// Replicas may read different values from sources of the same name. So a replica acts only when
/// *its* reading changes (or did while it was down), not when it differs from what another applied.
#[derive(Debug)]
pub struct SecretWatch {
    desired: Arc<Desired>,
    applier: Arc<Applier>,
    seal: SealKey,
    seen: HashMap<ResourceRef, Seen>,
    /// Sources that could not be read last time, so that each failure is logged once.
    failing: HashMap<ResourceRef, String>,
    first: bool,
}

impl SecretWatch {
    pub fn new(desired: Arc<Desired>, applier: Arc<Applier>, seal: SealKey) -> Self {
        let (seen, failing) = (HashMap::new(), HashMap::new());
        Self { desired, applier, seal, seen, failing, first: true }
    }

    /// Reads every five seconds until the task is dropped.
    #[must_use]
    pub fn start(mut self) -> AbortOnDrop<()> {
        AbortOnDrop(task::spawn("secret-watch", async move {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                self.look().await;
            }
        }))
    }

    /// Reads every source once.
    pub async fn look(&mut self) {
        let state = self.desired.snapshot();
        let first = std::mem::take(&mut self.first);
        self.seen.retain(|reference, _| state.resources.contains_key(reference));
        self.failing.retain(|reference, _| state.resources.contains_key(reference));
        for (reference, stored) in &state.resources {
            if let Some(Spec::Credential(spec)) = &stored.wire.spec
                && let Some(secret) = &spec.secret
                && let Some(source @ (Source::Env(_) | Source::File(_))) = &secret.source
            {
                self.look_at(reference, stored, secret, source, first).await;
            }
        }
    }

    async fn look_at(
        &mut self,
        reference: &ResourceRef,
        stored: &Stored,
        secret: &pb::SecretSource,
        source: &Source,
        first: bool,
    ) {
        let reading = match secrets::read(source).await {
            Some(Ok(reading)) => reading,
            Some(Err(violation)) => return self.failed(reference, violation.to_string()),
            None => return,
        };
        self.failing.remove(reference);
        let fingerprint = Some(reading.fingerprint());
        let now = Seen { source: source.clone(), fingerprint: fingerprint.clone() };
        let before = self.seen.insert(reference.clone(), now);
        let changed = match &before {
            Some(before) if before.source == *source => before.fingerprint != fingerprint,
            _ => first,
        };
        let held = secrets::open(&self.seal, &reference.name, secret).ok();
        if !changed || held.as_ref() == Some(&reading) {
            return;
        }
        if let Err(error) = self.apply(stored).await {
            let again = Seen { source: source.clone(), fingerprint: None };
            self.seen.insert(reference.clone(), before.unwrap_or(again));
            self.failed(reference, error.to_string());
        }
    }

    async fn apply(&self, stored: &Stored) -> Result<(), CoreError> {
        let change = Change {
            desire: Desire::Put(stored.wire.clone()),
            expect_version: Some(stored.version),
        };
        let request = Request {
            changes: vec![change],
            comment: "the key's source holds another key".to_owned(),
            author: AUTHOR.to_owned(),
            ..Request::default()
        };
        let outcome = self.applier.apply(&request).await?;
        let resource = stored.parsed.reference().to_string();
        tracing::info!(resource, revision = outcome.at.revision, "took over a changed key");
        Ok(())
    }

    fn failed(&mut self, reference: &ResourceRef, reason: String) {
        if self.failing.get(reference) != Some(&reason) {
            tracing::warn!(resource = %reference, reason, "cannot look for a changed key");
            self.failing.insert(reference.clone(), reason);
        }
    }
}
