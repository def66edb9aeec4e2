//! The admin API without the command line, for suites that make many changes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use sluicegate_proto::admin::v1::admin_client::AdminClient;
use sluicegate_proto::admin::v1::{
    ApplyReply, ApplyRequest, Change, FleetStatusReply, FleetStatusRequest, ListRequest,
    VersionedResource, change,
};
use sluicegate_proto::resource::v1::resource::Spec;
use sluicegate_proto::resource::v1::{ApiKey, Model, Resource, ResourceRef, Target, Tenant};
use sluicegate_proto::resource::v1::{SecretSource, secret_source::Source};
use sluicegate_testkit::cluster::ADMIN_TOKEN;
use sluicegate_testkit::deadline::within;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);

/// Pause between two looks at the fleet.
const POLL: Duration = Duration::from_millis(20);

/// A connection to one control plane. It connects anew by itself after a restart.
#[derive(Debug, Clone)]
pub struct Admin(AdminClient<InterceptedService<Channel, Bearer>>);

/// Adds the administrator's token to every call.
#[derive(Debug, Clone)]
struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

impl Admin {
    /// For the control plane whose gRPC address this is; connects with the first call.
    pub fn new(server: SocketAddr) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{server}"))?
            .connect_timeout(Duration::from_secs(2))
            .timeout(CALL)
            .tcp_nodelay(true)
            .connect_lazy();
        let bearer = Bearer(format!("Bearer {ADMIN_TOKEN}").parse()?);
        Ok(Self(AdminClient::with_interceptor(channel, bearer)))
    }

    /// Makes changes at once.
    pub async fn apply(&mut self, changes: Vec<Change>) -> Result<ApplyReply, Status> {
        self.apply_request(ApplyRequest { changes, ..ApplyRequest::default() }).await
    }

    /// Makes changes at once, with everything that can be asked for.
    pub async fn apply_request(&mut self, request: ApplyRequest) -> Result<ApplyReply, Status> {
        Ok(self.0.apply(request).await?.into_inner())
    }

    /// Who runs what.
    pub async fn fleet(&mut self) -> Result<FleetStatusReply, Status> {
        Ok(self.0.fleet_status(FleetStatusRequest {}).await?.into_inner())
    }

    /// Every resource of a kind.
    pub async fn list(&mut self, kind: &str) -> Result<Vec<VersionedResource>, Status> {
        let mut resources = Vec::new();
        let mut page_token = String::new();
        loop {
            let kinds = vec![kind.to_owned()];
            let request =
                ListRequest { kinds, page_size: 5000, page_token, ..ListRequest::default() };
            let reply = self.0.list(request).await?.into_inner();
            resources.extend(reply.resources);
            page_token = reply.next_page_token;
            if page_token.is_empty() {
                return Ok(resources);
            }
        }
    }

    /// Waits until `n` data planes are connected and run the newest configuration without having
    /// refused any of it; gives its revision. A control plane that is away is asked again.
    pub async fn wait_for_head(&mut self, n: usize, limit: Duration) -> anyhow::Result<u64> {
        self.wait_for_fleet(limit, &format!("{n} data planes on the head"), |fleet| {
            let at_head = |plane: &&sluicegate_proto::admin::v1::DataPlane| {
                plane.connected
                    && plane.acknowledged == fleet.head
                    && plane.rejected.is_empty()
                    && plane.error.is_empty()
            };
            let there = fleet.data_planes.iter().filter(at_head).count() == n;
            (there && !fleet.store_unavailable)
                .then(|| fleet.head.as_ref().map(|at| at.revision))?
        })
        .await
    }

    /// Waits until each of `n` data planes has the newest configuration on disk.
    pub async fn wait_for_disk(&mut self, n: usize, limit: Duration) -> anyhow::Result<u64> {
        self.wait_for_fleet(limit, &format!("{n} data planes with the head on disk"), |fleet| {
            let head = fleet.head.as_ref()?.revision;
            let planes = fleet.data_planes.iter();
            (planes.filter(|plane| plane.persisted_revision == head).count() == n).then_some(head)
        })
        .await
    }

    /// Waits until `pick` makes something of the fleet's state.
    pub async fn wait_for_fleet<T>(
        &mut self,
        limit: Duration,
        awaited: &str,
        pick: impl Fn(&FleetStatusReply) -> Option<T>,
    ) -> anyhow::Result<T> {
        let mut last = None;
        let waiting = within(limit, awaited, async {
            loop {
                let fleet = self.fleet().await;
                if let Some(found) = fleet.as_ref().ok().and_then(&pick) {
                    return found;
                }
                last = Some(fleet);
                tokio::time::sleep(POLL).await;
            }
        });
        let found = waiting.await;
        found.with_context(|| format!("the last answer was {last:#?}"))
    }
}

/// Creates or replaces a resource.
pub fn put(spec: Spec) -> Change {
    let resource = Resource { spec: Some(spec) };
    Change { change: Some(change::Change::Put(resource)), expect_version: None }
}

/// Deletes a resource.
pub fn delete(kind: &str, name: &str) -> Change {
    let reference = ResourceRef { kind: kind.into(), name: name.into() };
    Change { change: Some(change::Change::Delete(reference)), expect_version: None }
}

pub fn tenant(name: &str) -> Spec {
    Spec::Tenant(Tenant { name: name.into(), ..Tenant::default() })
}

/// A model on provider `p1`, with the owner that the model list shows.
pub fn model(name: &str, owned_by: &str) -> Spec {
    let target = Target { provider: "p1".into(), model: "m1".into(), ..Target::default() };
    Spec::Model(Model {
        name: name.into(),
        targets: vec![target],
        owned_by: owned_by.into(),
        ..Model::default()
    })
}

/// A key of tenant `default` for every model.
pub fn api_key(name: &str, key: &str) -> Spec {
    let source = Some(Source::Value(key.into()));
    Spec::ApiKey(ApiKey {
        name: name.into(),
        tenant: "default".into(),
        secret: Some(SecretSource { source, ..SecretSource::default() }),
        ..ApiKey::default()
    })
}
