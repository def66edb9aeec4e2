//! A served control plane and a client of it.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use sluicegate_control_server::{Config, ControlPlane, Prober, ServeError};
use sluicegate_model::{seal::SealKey, secret::Secret};
use sluicegate_proto::{
    admin::v1::{self as pb, admin_client::AdminClient},
    deferred::v1::deferred_client::DeferredClient,
    health::v1::health_client::HealthClient,
    pool::v1::pool_client::PoolClient,
    quota::v1::quota_client::QuotaClient,
    resource::v1::{self as resource, resource::Spec, secret_source::Source},
    usage::v1::usage_client::UsageClient,
};
use sluicegate_protocol::policy::ServerConfig;
use sluicegate_store::{deferred::DeferredLimits, embedded::EmbeddedStore};
use sluicegate_telemetry::task;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

pub(crate) const ADMIN: &str = "admin-token-for-tests";
pub(crate) const NODE: &str = "node-token-for-tests";

/// Longest wait for anything that should come.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) struct Served {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) control_plane: Arc<ControlPlane>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
    _dir: Option<TempDir>,
}

impl Served {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Self::over(dir.path(), ServerConfig::default(), None).await;
        served._dir = Some(dir);
        served
    }

    /// With somebody who makes the calls of probes.
    pub(crate) async fn probing(prober: Arc<dyn Prober>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut served = Self::over(dir.path(), ServerConfig::default(), Some(prober)).await;
        served._dir = Some(dir);
        served
    }

    /// With short waits on policy streams.
    pub(crate) async fn hasty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let policy = ServerConfig {
            heartbeat: Duration::from_millis(100),
            ack_timeout: Duration::from_millis(300),
            behind_timeout: Duration::from_millis(200),
            ..ServerConfig::default()
        };
        let mut served = Self::over(dir.path(), policy, None).await;
        served._dir = Some(dir);
        served
    }

    async fn over(dir: &Path, policy: ServerConfig, prober: Option<Arc<dyn Prober>>) -> Self {
        let (store, _) = EmbeddedStore::open(dir).unwrap();
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let ledger = Arc::new(store.ledger().unwrap());
        let deferred = Arc::new(store.deferred(DeferredLimits::default()).unwrap());
        let config = Config {
            admin_token: Some(Secret::new(ADMIN)),
            node_token: Some(Secret::new(NODE)),
            policy,
            prober,
            deferred: Some(deferred),
            webhook_allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..Config::new(Arc::new(store), ledger, SealKey::generate().unwrap(), "replica-1")
        };
        let (control_plane, issued) = ControlPlane::start(config).await.unwrap();
        assert!(issued.admin.is_none() && issued.node.is_none());
        let control_plane = Arc::new(control_plane);
        let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (grpc, http) = (listen().await, listen().await);
        let addresses = (grpc.local_addr().unwrap(), http.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = control_plane.clone();
        let serving = task::spawn("served", async move {
            let stopped = async { drop(stopped.await) };
            served.serve(grpc, http, None, stopped).await
        });
        Self {
            grpc: addresses.0,
            http: addresses.1,
            control_plane,
            stop: Some(stop),
            serving: Some(serving),
            _dir: None,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::try_from(format!("http://{}", self.grpc)).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn admin(&self) -> Admin {
        self.admin_with(Some(ADMIN)).await
    }

    pub(crate) async fn admin_with(&self, token: Option<&'static str>) -> Admin {
        AdminClient::with_interceptor(self.channel().await, Bearer(token))
    }

    pub(crate) async fn quota(&self, token: Option<&'static str>) -> Quota {
        QuotaClient::with_interceptor(self.channel().await, Bearer(token))
    }

    pub(crate) async fn pool(&self, token: Option<&'static str>) -> Pool {
        PoolClient::with_interceptor(self.channel().await, Bearer(token))
    }

    pub(crate) async fn health(&self, token: Option<&'static str>) -> Health {
        HealthClient::with_interceptor(self.channel().await, Bearer(token))
    }

    pub(crate) async fn deferred(&self, token: Option<&'static str>) -> Deferred {
        DeferredClient::with_interceptor(self.channel().await, Bearer(token))
    }

    /// Everything that is on disk.
    pub(crate) fn file(&self) -> Vec<u8> {
        let dir = self._dir.as_ref().unwrap();
        std::fs::read(dir.path().join("state.redb")).unwrap()
    }

    pub(crate) async fn usage(&self, token: Option<&'static str>) -> Usage {
        UsageClient::with_interceptor(self.channel().await, Bearer(token))
    }

    /// The metrics hold this line.
    pub(crate) async fn counts(&self, line: &str) {
        let (_, metrics) = self.page("/metrics").await;
        assert!(metrics.lines().any(|found| found == line), "{metrics}\n  lacks: {line}");
    }

    /// Status line and body of a page.
    pub(crate) async fn page(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// Begins to stop.
    pub(crate) fn stop(&mut self) -> JoinHandle<Result<(), ServeError>> {
        self.stop.take().unwrap().send(()).unwrap();
        self.serving.take().unwrap()
    }
}

pub(crate) type Quota = QuotaClient<InterceptedService<Channel, Bearer>>;
pub(crate) type Health = HealthClient<InterceptedService<Channel, Bearer>>;
pub(crate) type Pool = PoolClient<InterceptedService<Channel, Bearer>>;
pub(crate) type Deferred = DeferredClient<InterceptedService<Channel, Bearer>>;
pub(crate) type Usage = UsageClient<InterceptedService<Channel, Bearer>>;
pub(crate) type Admin = AdminClient<InterceptedService<Channel, Bearer>>;

/// Puts a token into every call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer(pub(crate) Option<&'static str>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = self.0 {
            let header = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

/// What comes soon, or a failed test.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        timeout(SOON, future).await.unwrap_or_else(|_| panic!("{caller}: nothing within {SOON:?}"))
    }
}

pub(crate) async fn apply(admin: &mut Admin, resources: Vec<resource::Resource>) -> pb::ApplyReply {
    let changes = resources.into_iter().map(put).collect();
    let request = pb::ApplyRequest { changes, ..Default::default() };
    soon(admin.apply(request)).await.unwrap().into_inner()
}

pub(crate) fn put(resource: resource::Resource) -> pb::Change {
    pb::Change { change: Some(pb::change::Change::Put(resource)), expect_version: None }
}

pub(crate) fn reference(kind: &str, name: &str) -> resource::ResourceRef {
    resource::ResourceRef { kind: kind.into(), name: name.into() }
}

pub(crate) fn provider(name: &str, base_url: &str) -> resource::Resource {
    wrap(Spec::Provider(resource::Provider {
        name: name.into(),
        dialect: "openai-chat".into(),
        base_url: base_url.into(),
        ..Default::default()
    }))
}

pub(crate) fn model(name: &str, provider: &str) -> resource::Resource {
    let target = resource::Target { provider: provider.into(), ..Default::default() };
    wrap(Spec::Model(resource::Model {
        name: name.into(),
        targets: vec![target],
        ..Default::default()
    }))
}

pub(crate) fn tenant(name: &str) -> resource::Resource {
    wrap(Spec::Tenant(resource::Tenant { name: name.into(), ..Default::default() }))
}

pub(crate) fn credential(name: &str, value: &str) -> resource::Resource {
    let source = Some(Source::Value(value.into()));
    wrap(Spec::Credential(resource::Credential {
        name: name.into(),
        provider: "p".into(),
        secret: Some(resource::SecretSource { source, sealed: Default::default() }),
        ..Default::default()
    }))
}

/// A limit of requests for each key.
pub(crate) fn limit(name: &str, rate: &str) -> resource::Resource {
    wrap(Spec::Limit(resource::Limit {
        name: name.into(),
        scope: Some(resource::LimitScope { key: "*".into(), ..Default::default() }),
        dimension: "requests".into(),
        rate: rate.into(),
        ..Default::default()
    }))
}

pub(crate) fn wrap(spec: Spec) -> resource::Resource {
    resource::Resource { spec: Some(spec) }
}

/// `kind/name` of a shown resource.
pub(crate) fn name(shown: &pb::VersionedResource) -> String {
    sluicegate_model::resource::reference_of(shown.resource.as_ref().unwrap()).unwrap().to_string()
}
