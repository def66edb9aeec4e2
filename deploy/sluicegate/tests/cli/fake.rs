//! A control plane in memory: enough of one to hold the commands against.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
};

use sluicegate_model::{
    Resource as Parsed, ResourceRef, ResourceSet,
    resource::{redacted, reference_of},
    secret::KeyHash,
};
use sluicegate_proto::{
    admin::v1::{
        admin_server::{Admin, AdminServer},
        change::Change as What,
        difference::Action,
        *,
    },
    policy::v1::Point,
    resource::v1::{Resource, resource::Spec},
};
use tokio_stream::{Stream, wrappers::TcpListenerStream};
use tonic::{Code, Request, Response, Status, transport::Server};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use crate::program::TOKEN;

type Resources = BTreeMap<ResourceRef, (Resource, u64)>;

/// What the fake holds and what it was asked.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) resources: Resources,
    pub(crate) revision: u64,
    pub(crate) history: Vec<(HistoryEntry, Resources)>,
    pub(crate) done: BTreeMap<String, ApplyReply>,
    /// Answers that the next calls of `apply` get, after the change was made when `true`.
    pub(crate) upsets: Vec<(Status, bool)>,
    pub(crate) applied: Vec<ApplyRequest>,
    pub(crate) planes: Vec<DataPlane>,
    /// Largest page of a list.
    pub(crate) page: usize,
    /// Events that each watch gets before its stream ends.
    pub(crate) events: Vec<Vec<WatchEvent>>,
    pub(crate) watched: Vec<WatchRequest>,
    /// What is told of usage and of limits, and what was asked.
    pub(crate) totals: Vec<UsageTotal>,
    pub(crate) usage_asked: Vec<QueryUsageRequest>,
    pub(crate) limits: LimitStatusReply,
    pub(crate) limits_asked: Vec<LimitStatusRequest>,
    /// What is told of provider keys, and what was asked and set.
    pub(crate) pool: Vec<CredentialStatus>,
    pub(crate) pool_asked: Vec<PoolStatusRequest>,
    pub(crate) pool_set: Vec<SetPoolStateRequest>,
    /// What is told of degradations.
    pub(crate) degradations: DegradeStatusReply,
    /// Deferred requests, two on a page; what was asked, and ids that were cancelled.
    pub(crate) deferred: Vec<DeferredRequest>,
    pub(crate) deferred_asked: Vec<ListDeferredRequest>,
    pub(crate) deferred_cancelled: Vec<String>,
    /// What is told of targets, and which were asked for.
    pub(crate) breakers: BreakerStatusReply,
    pub(crate) breakers_asked: Vec<String>,
    /// What each probe tells, and what was asked.
    pub(crate) probe: Vec<Result<ProbeEvent, Status>>,
    pub(crate) probes_asked: Vec<ProbeRequest>,
    /// Somebody else changes everything while a probe runs.
    pub(crate) moves: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

impl Fake {
    /// Starts one on a free port.
    pub(crate) async fn start() -> (Self, SocketAddr) {
        let fake = Self::default();
        fake.state().page = 1000;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = AdminServer::with_interceptor(fake.clone(), |request: Request<()>| {
            let expected = format!("Bearer {TOKEN}");
            match request.metadata().get("authorization") {
                Some(given) if given == expected.as_str() => Ok(request),
                _ => Err(Status::unauthenticated("unknown token")),
            }
        });
        let server = Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (fake, address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn at(&self) -> Option<Point> {
        Some(Point { epoch: b"e".to_vec().into(), revision: self.revision })
    }

    /// Makes `next` the state, unless it is a rehearsal or nothing is different.
    fn change(&mut self, mut next: Resources, dry_run: bool, comment: &str) -> ApplyReply {
        let mut differences = Vec::new();
        for (reference, (resource, version)) in &mut next {
            let before = self.resources.get(reference).map(|(resource, _)| resource.clone());
            if before.as_ref() == Some(resource) {
                continue;
            }
            *version = self.revision + 1;
            let action = if before.is_none() { Action::Create } else { Action::Update };
            differences.push(difference(reference, action, before, Some(resource.clone())));
        }
        for (reference, (resource, _)) in &self.resources {
            if !next.contains_key(reference) {
                let before = Some(resource.clone());
                differences.push(difference(reference, Action::Delete, before, None));
            }
        }
        if !dry_run && !differences.is_empty() {
            self.revision += 1;
            self.resources = next;
            let entry = HistoryEntry {
                revision: self.revision,
                time_unix_ms: 1_790_000_000_000 + self.revision,
                author: "admin".into(),
                comment: comment.into(),
                differences: differences.clone(),
            };
            self.history.push((entry, self.resources.clone()));
        }
        ApplyReply { at: self.at(), differences, ..ApplyReply::default() }
    }

    fn wait(&self, reply: &mut ApplyReply, wait: Option<WaitFor>) {
        if wait.is_none() {
            return;
        }
        let runs = |plane: &&DataPlane| {
            plane.acknowledged.as_ref().is_some_and(|at| at.revision >= self.revision)
        };
        let name = |plane: &DataPlane| plane.node.clone().unwrap_or_default().node_id;
        reply.connected = u32::try_from(self.planes.len()).unwrap();
        reply.acknowledged = u32::try_from(self.planes.iter().filter(runs).count()).unwrap();
        reply.behind = self.planes.iter().filter(|plane| !runs(plane)).map(name).collect();
    }
}

fn difference(
    reference: &ResourceRef,
    action: Action,
    before: Option<Resource>,
    after: Option<Resource>,
) -> Difference {
    Difference { r#ref: Some(reference.to_proto()), action: action.into(), before, after }
}

/// As the server keeps it: without secrets, keys hashed.
fn stored(mut resource: Resource) -> Resource {
    use sluicegate_proto::resource::v1::secret_source::Source;
    if let Some(Spec::ApiKey(key)) = &mut resource.spec
        && let Some(Source::Value(value)) = key.secret.as_ref().and_then(|it| it.source.as_ref())
    {
        key.hash = KeyHash::of(value).to_string();
    }
    redacted(&resource)
}

fn moved(reference: &ResourceRef, expected: u64, actual: u64) -> Status {
    let text = format!("expected version {expected}, it has {actual}");
    let violation = PreconditionViolation::new("VERSION", reference.to_string(), text);
    let details = ErrorDetails::with_precondition_failure(vec![violation]);
    Status::with_error_details(Code::FailedPrecondition, "a version moved", details)
}

fn missing(reference: &ResourceRef) -> Status {
    let details =
        ErrorDetails::with_resource_info(reference.kind.singular(), &reference.name, "", "");
    Status::with_error_details(Code::NotFound, "not found", details)
}

fn check(next: &Resources) -> Result<(), Status> {
    let parsed = next.values().filter_map(|(resource, _)| Parsed::parse(resource).ok());
    let Err(violations) = ResourceSet::new(parsed) else { return Ok(()) };
    let fields = violations.0.iter().map(|one| FieldViolation::new(one.location(), one.text()));
    let details = ErrorDetails::with_bad_request(fields.collect::<Vec<_>>());
    Err(Status::with_error_details(Code::InvalidArgument, "the changes are not valid", details))
}

fn expect(state: &State, reference: &ResourceRef, wanted: Option<u64>) -> Result<(), Status> {
    let actual = state.resources.get(reference).map_or(0, |(_, version)| *version);
    match wanted {
        Some(wanted) if wanted != actual => Err(moved(reference, wanted, actual)),
        _ => Ok(()),
    }
}

#[tonic::async_trait]
impl Admin for Fake {
    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<ApplyReply>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.applied.push(request.clone());
        if let Some(done) = state.done.get(&request.idempotency_key) {
            return Ok(Response::new(ApplyReply { repeated_call: true, ..done.clone() }));
        }
        let upset = if state.upsets.is_empty() { None } else { Some(state.upsets.remove(0)) };
        if let Some((status, false)) = upset {
            return Err(status);
        }
        let mut next = state.resources.clone();
        let mut named = Vec::new();
        for change in request.changes {
            match change.change.unwrap() {
                What::Put(resource) => {
                    let reference = reference_of(&resource).unwrap();
                    expect(&state, &reference, change.expect_version)?;
                    let version = next.get(&reference).map_or(0, |(_, version)| *version);
                    next.insert(reference.clone(), (stored(resource), version));
                    named.push(reference);
                }
                What::Delete(_) => return Err(Status::unimplemented("")),
            }
        }
        next.retain(|reference, _| {
            named.contains(reference)
                || !request.prune_kinds.iter().any(|kind| kind == reference.kind.singular())
        });
        check(&next)?;
        let mut reply = state.change(next, request.dry_run, &request.comment);
        state.wait(&mut reply, request.wait);
        if !request.dry_run {
            state.done.insert(request.idempotency_key, reply.clone());
        }
        match upset {
            Some((status, _)) => Err(status),
            None => Ok(Response::new(reply)),
        }
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<ApplyReply>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        let mut next = state.resources.clone();
        for reference in &request.refs {
            let reference = ResourceRef::try_from(reference).unwrap();
            if next.remove(&reference).is_none() {
                return Err(missing(&reference));
            }
            expect(&state, &reference, request.expect_version)?;
        }
        check(&next)?;
        let mut reply = state.change(next, request.dry_run, &request.comment);
        state.wait(&mut reply, request.wait);
        Ok(Response::new(reply))
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<ApplyReply>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        let found = state.history.iter().find(|(entry, _)| entry.revision == request.to_revision);
        let Some((_, next)) = found.cloned() else {
            return Err(Status::not_found(format!("revision {} is not kept", request.to_revision)));
        };
        Ok(Response::new(state.change(next, request.dry_run, &request.comment)))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        let reference = request.into_inner().r#ref.unwrap();
        let reference = ResourceRef::try_from(&reference).unwrap();
        let state = self.state();
        let (resource, version) =
            state.resources.get(&reference).cloned().ok_or_else(|| missing(&reference))?;
        let resource = Some(VersionedResource { resource: Some(resource), version });
        Ok(Response::new(GetReply { resource, at: state.at() }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let request = request.into_inner();
        let state = self.state();
        let start: usize = request.page_token.parse().unwrap_or(0);
        let of_tenant = |resource: &Resource| match &resource.spec {
            Some(Spec::ApiKey(key)) => key.tenant == request.tenant,
            _ => false,
        };
        let found: Vec<_> = state
            .resources
            .iter()
            .filter(|(reference, (resource, _))| {
                let kind = reference.kind.singular();
                (request.kinds.is_empty() || request.kinds.iter().any(|wanted| wanted == kind))
                    && reference.name.starts_with(&request.name_prefix)
                    && (request.tenant.is_empty() || of_tenant(resource))
            })
            .map(|(_, (resource, version))| VersionedResource {
                resource: Some(resource.clone()),
                version: *version,
            })
            .collect();
        let page: Vec<_> = found.iter().skip(start).take(state.page).cloned().collect();
        let next = start + page.len();
        let next_page_token = if next < found.len() { next.to_string() } else { String::new() };
        Ok(Response::new(ListReply { resources: page, next_page_token, at: state.at() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut state = self.state();
        state.watched.push(request.into_inner());
        if state.events.is_empty() {
            return Ok(Response::new(Box::pin(tokio_stream::pending())));
        }
        let events = state.events.remove(0);
        Ok(Response::new(Box::pin(tokio_stream::iter(events.into_iter().map(Ok)))))
    }

    type ProbeStream = Pin<Box<dyn Stream<Item = Result<ProbeEvent, Status>> + Send>>;

    async fn probe(
        &self,
        request: Request<ProbeRequest>,
    ) -> Result<Response<Self::ProbeStream>, Status> {
        let mut state = self.state();
        state.probes_asked.push(request.into_inner());
        if state.moves {
            state.resources.values_mut().for_each(|(_, version)| *version += 1);
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(state.probe.clone()))))
    }

    async fn history(
        &self,
        request: Request<HistoryRequest>,
    ) -> Result<Response<HistoryReply>, Status> {
        let request = request.into_inner();
        let state = self.state();
        let start: usize = request.page_token.parse().unwrap_or(0);
        let size = usize::try_from(request.page_size).unwrap().min(state.page);
        let entries: Vec<_> = state
            .history
            .iter()
            .rev()
            .skip(start)
            .take(size)
            .map(|(entry, _)| entry.clone())
            .collect();
        let next = start + entries.len();
        let more = next < state.history.len();
        let next_page_token = if more { next.to_string() } else { String::new() };
        Ok(Response::new(HistoryReply { entries, next_page_token }))
    }

    async fn fleet_status(
        &self,
        _: Request<FleetStatusRequest>,
    ) -> Result<Response<FleetStatusReply>, Status> {
        let state = self.state();
        Ok(Response::new(FleetStatusReply {
            head: state.at(),
            data_planes: state.planes.clone(),
            replica_id: "cp-1".into(),
            store_unavailable: false,
        }))
    }

    async fn create_api_key(
        &self,
        request: Request<CreateApiKeyRequest>,
    ) -> Result<Response<CreateApiKeyReply>, Status> {
        let request = request.into_inner();
        let mut key = request.api_key.unwrap();
        let secret = "sk-sg-fresh";
        key.hash = KeyHash::of(secret).to_string();
        let resource = Resource { spec: Some(Spec::ApiKey(key)) };
        let mut state = self.state();
        let mut next = state.resources.clone();
        next.insert(reference_of(&resource).unwrap(), (resource, 0));
        check(&next)?;
        let mut applied = state.change(next, false, "");
        state.wait(&mut applied, request.wait);
        Ok(Response::new(CreateApiKeyReply { key: secret.into(), applied: Some(applied) }))
    }

    async fn query_usage(
        &self,
        request: Request<QueryUsageRequest>,
    ) -> Result<Response<QueryUsageReply>, Status> {
        let mut state = self.state();
        state.usage_asked.push(request.into_inner());
        Ok(Response::new(QueryUsageReply { totals: state.totals.clone() }))
    }

    async fn limit_status(
        &self,
        request: Request<LimitStatusRequest>,
    ) -> Result<Response<LimitStatusReply>, Status> {
        let mut state = self.state();
        state.limits_asked.push(request.into_inner());
        Ok(Response::new(state.limits.clone()))
    }

    async fn pool_status(
        &self,
        request: Request<PoolStatusRequest>,
    ) -> Result<Response<PoolStatusReply>, Status> {
        let mut state = self.state();
        state.pool_asked.push(request.into_inner());
        let credentials = state.pool.clone();
        Ok(Response::new(PoolStatusReply { credentials, health: "ready".into() }))
    }

    async fn degrade_status(
        &self,
        request: Request<DegradeStatusRequest>,
    ) -> Result<Response<DegradeStatusReply>, Status> {
        let (mut reply, asked) =
            (self.state().degradations.clone(), request.into_inner().degradation);
        reply.degradations.retain(|one| asked.is_empty() || one.degradation == asked);
        Ok(Response::new(reply))
    }

    async fn breaker_status(
        &self,
        request: Request<BreakerStatusRequest>,
    ) -> Result<Response<BreakerStatusReply>, Status> {
        let mut state = self.state();
        state.breakers_asked.push(request.into_inner().target);
        Ok(Response::new(state.breakers.clone()))
    }

    async fn set_pool_state(
        &self,
        request: Request<SetPoolStateRequest>,
    ) -> Result<Response<SetPoolStateReply>, Status> {
        let mut state = self.state();
        let request = request.into_inner();
        let status = state.pool.iter().find(|one| one.credential == request.credential).cloned();
        state.pool_set.push(request);
        Ok(Response::new(SetPoolStateReply { status, cleared: 1, durable: true }))
    }

    async fn list_deferred(
        &self,
        request: Request<ListDeferredRequest>,
    ) -> Result<Response<ListDeferredReply>, Status> {
        let mut state = self.state();
        let request = request.into_inner();
        let from: usize = request.page_token.parse().unwrap_or(0);
        state.deferred_asked.push(request);
        let requests = state.deferred.iter().skip(from).take(2).cloned().collect();
        let more = from + 2 < state.deferred.len();
        let next_page_token = if more { (from + 2).to_string() } else { String::new() };
        Ok(Response::new(ListDeferredReply { requests, next_page_token }))
    }

    async fn get_deferred(
        &self,
        request: Request<GetDeferredRequest>,
    ) -> Result<Response<DeferredRequest>, Status> {
        let id = request.into_inner().id;
        let found = self.state().deferred.iter().find(|one| one.id == id).cloned();
        found.map(Response::new).ok_or_else(|| no_deferred(id))
    }

    async fn cancel_deferred(
        &self,
        request: Request<CancelDeferredRequest>,
    ) -> Result<Response<CancelDeferredReply>, Status> {
        let id = request.into_inner().id;
        let mut state = self.state();
        let found = state.deferred.iter().find(|one| one.id == id);
        let found = found.ok_or_else(|| no_deferred(id.clone()))?;
        let cancelled = found.status == 0;
        state.deferred_cancelled.push(id);
        Ok(Response::new(CancelDeferredReply { cancelled }))
    }
}

fn no_deferred(id: String) -> Status {
    let details = ErrorDetails::with_resource_info("deferred", id, "", "");
    Status::with_error_details(Code::NotFound, "there is no such deferred request", details)
}
