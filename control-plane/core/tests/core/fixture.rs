//! A core in a temporary folder, and short ways to write resources and requests.

use std::{sync::Arc, time::Duration};

use sluicegate_control_core::{Applier, Change, CoreError, Desire, Desired, Outcome, Request};
use sluicegate_model::{Kind, ResourceRef, seal::SealKey};
use sluicegate_proto::resource::v1::{self as pb, resource::Spec, secret_source::Source};
use sluicegate_store::{
    ConfigStore,
    embedded::EmbeddedStore,
    etcd::{EtcdConfig, EtcdStore},
};
use sluicegate_telemetry::task::AbortOnDrop;
use tempfile::TempDir;

/// Everything that makes and shows the desired state.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn ConfigStore>,
    pub(crate) desired: Arc<Desired>,
    pub(crate) applier: Arc<Applier>,
    pub(crate) seal: SealKey,
    _watch: AbortOnDrop<()>,
    _dir: Option<TempDir>,
}

impl Core {
    /// A core of its own. With `SLUICEGATE_TEST_ETCD` set to a URL it is over that etcd.
    pub(crate) async fn new() -> Self {
        if let Ok(url) = std::env::var("SLUICEGATE_TEST_ETCD") {
            let prefix = format!("/test/{}/", uuid::Uuid::new_v4());
            let config = EtcdConfig { prefix, ..EtcdConfig::new([url]) };
            let store = EtcdStore::connect(config).await.unwrap();
            return Self::over(Arc::new(store), SealKey::generate().unwrap()).await;
        }
        let dir = tempfile::tempdir().unwrap();
        let (store, notices) = EmbeddedStore::open(dir.path()).unwrap();
        assert!(notices.is_empty());
        let mut core = Self::over(Arc::new(store), SealKey::generate().unwrap()).await;
        core._dir = Some(dir);
        core
    }

    /// Another replica over the same store.
    pub(crate) async fn over(store: Arc<dyn ConfigStore>, seal: SealKey) -> Self {
        let patience = Duration::from_secs(5);
        let (desired, watch) = Desired::start(store.clone(), patience).await.unwrap();
        let applier = Arc::new(Applier::new(store.clone(), desired.clone(), seal.clone()));
        Self { store, desired, applier, seal, _watch: watch, _dir: None }
    }

    pub(crate) async fn apply(&self, changes: Vec<Change>) -> Result<Outcome, CoreError> {
        self.applier.apply(&request(changes)).await
    }

    /// Applies what must go through.
    pub(crate) async fn put(&self, resources: Vec<pb::Resource>) -> Outcome {
        self.apply(resources.into_iter().map(put).collect()).await.unwrap()
    }

    /// A provider and a model that it answers.
    pub(crate) async fn seeded() -> Self {
        let core = Self::new().await;
        core.put(vec![provider("p"), model("m", "p")]).await;
        core
    }

    pub(crate) fn revision(&self) -> u64 {
        self.desired.snapshot().revision
    }

    pub(crate) fn version(&self, kind: Kind, name: &str) -> u64 {
        self.desired.snapshot().version(&ResourceRef::new(kind, name))
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<pb::Resource> {
        let state = self.desired.snapshot();
        state.resources.get(&ResourceRef::new(kind, name)).map(|stored| stored.wire.clone())
    }

    /// Every resource as `kind/name`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.desired.snapshot().resources.keys().map(ToString::to_string).collect()
    }
}

pub(crate) fn request(changes: Vec<Change>) -> Request {
    Request { changes, author: "test".into(), ..Request::default() }
}

pub(crate) fn put(resource: pb::Resource) -> Change {
    Change { desire: Desire::Put(resource), expect_version: None }
}

pub(crate) fn delete(kind: Kind, name: &str) -> Change {
    Change { desire: Desire::Delete(ResourceRef::new(kind, name)), expect_version: None }
}

pub(crate) fn expecting(change: Change, version: u64) -> Change {
    Change { expect_version: Some(version), ..change }
}

pub(crate) fn provider(name: &str) -> pb::Resource {
    wrap(Spec::Provider(pb::Provider {
        name: name.into(),
        dialect: "openai-chat".into(),
        base_url: "http://127.0.0.1:9000/v1".into(),
        ..Default::default()
    }))
}

pub(crate) fn model(name: &str, provider: &str) -> pb::Resource {
    let target = pb::Target { provider: provider.into(), ..Default::default() };
    wrap(Spec::Model(pb::Model { name: name.into(), targets: vec![target], ..Default::default() }))
}

pub(crate) fn tenant(name: &str) -> pb::Resource {
    wrap(Spec::Tenant(pb::Tenant { name: name.into(), ..Default::default() }))
}

pub(crate) fn credential(name: &str, source: Source) -> pb::Resource {
    wrap(Spec::Credential(pb::Credential {
        name: name.into(),
        provider: "p".into(),
        secret: Some(secret(source)),
        ..Default::default()
    }))
}

pub(crate) fn api_key(name: &str, secret: Option<pb::SecretSource>) -> pb::Resource {
    wrap(Spec::ApiKey(pb::ApiKey { name: name.into(), secret, ..Default::default() }))
}

/// A limit of `requests` or, with a window, of an amount in it, for each key.
pub(crate) fn limit(name: &str, edit: impl FnOnce(&mut pb::Limit)) -> pb::Resource {
    let mut spec = pb::Limit {
        name: name.into(),
        scope: Some(pb::LimitScope { key: "*".into(), ..Default::default() }),
        dimension: "requests".into(),
        ..Default::default()
    };
    edit(&mut spec);
    wrap(Spec::Limit(spec))
}

/// An override of limit `l` for one key.
pub(crate) fn over_key(
    name: &str,
    key: &str,
    edit: impl FnOnce(&mut pb::Override),
) -> pb::Resource {
    let mut spec = pb::Override {
        name: name.into(),
        limit: "l".into(),
        subject: Some(pb::LimitScope { key: key.into(), ..Default::default() }),
        ..Default::default()
    };
    edit(&mut spec);
    wrap(Spec::Override(spec))
}

pub(crate) fn secret(source: Source) -> pb::SecretSource {
    pb::SecretSource { source: Some(source), sealed: Default::default() }
}

pub(crate) fn wrap(spec: Spec) -> pb::Resource {
    pb::Resource { spec: Some(spec) }
}

/// Every fault of a refused request, as `location: text`.
#[track_caller]
pub(crate) fn faults(outcome: Result<Outcome, CoreError>) -> Vec<String> {
    match outcome {
        Err(CoreError::Invalid(violations)) => {
            violations.0.iter().map(ToString::to_string).collect()
        }
        other => panic!("expected faults, got {other:?}"),
    }
}

/// What an outcome changed, as `+kind/name`, `~kind/name` or `-kind/name`.
pub(crate) fn marks(outcome: &Outcome) -> Vec<String> {
    let mark = |difference: &sluicegate_control_core::Difference| {
        let sign = match (&difference.before, &difference.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        format!("{sign}{}", difference.reference)
    };
    outcome.differences.iter().map(mark).collect()
}
