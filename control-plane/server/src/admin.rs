//! The admin API.

mod changes;
mod list;
mod watch;

use std::sync::Arc;

use sluicegate_control_core::{
    Applier, Breakers, CoreError, Deferred, Degrade, Desired, Fleet, History, Pool,
    deferred::Wanted, quota::standing::Standing, usage::query::Totals,
};
use sluicegate_model::path::Path;
use sluicegate_proto::{
    admin::v1::{self as pb, admin_server::Admin},
    deferred::v1::State,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::{metrics::Metrics, paging, probe::Probes, status, wire};

/// History entries on a page.
const DEFAULT_HISTORY: usize = 50;
const MAX_HISTORY: usize = 500;

/// Deferred requests on a page.
const DEFAULT_DEFERRED: usize = 100;
const MAX_DEFERRED: usize = 500;

/// Author of changes until callers have names of their own.
const AUTHOR: &str = "admin";

/// Answers the calls.
#[derive(Debug)]
pub(crate) struct AdminService {
    pub(crate) desired: Arc<Desired>,
    pub(crate) applier: Arc<Applier>,
    pub(crate) history: History,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) degrade: Arc<Degrade>,
    pub(crate) deferred: Option<Arc<Deferred>>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) replica_id: String,
    /// Ends watches and probes.
    pub(crate) stopping: CancellationToken,
}

#[tonic::async_trait]
impl Admin for AdminService {
    type WatchStream = ReceiverStream<Result<pb::WatchEvent, Status>>;
    type ProbeStream = ReceiverStream<Result<pb::ProbeEvent, Status>>;

    async fn apply(
        &self,
        request: Request<pb::ApplyRequest>,
    ) -> Result<Response<pb::ApplyReply>, Status> {
        self.apply_changes(request.into_inner()).await.map(Response::new)
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::ApplyReply>, Status> {
        self.delete_resources(request.into_inner()).await.map(Response::new)
    }

    async fn rollback(
        &self,
        request: Request<pb::RollbackRequest>,
    ) -> Result<Response<pb::ApplyReply>, Status> {
        self.roll_back(request.into_inner()).await.map(Response::new)
    }

    async fn get(
        &self,
        request: Request<pb::GetRequest>,
    ) -> Result<Response<pb::GetReply>, Status> {
        let request = request.into_inner();
        let reference = wire::reference(request.r#ref.as_ref(), &Path::root().field("ref"))
            .map_err(status::fault)?;
        let state = self.desired.snapshot();
        let Some(stored) = state.resources.get(&reference) else {
            return Err(status::status(state.not_found(&reference)));
        };
        let resource = Some(wire::shown(stored));
        Ok(Response::new(pb::GetReply { resource, at: wire::point(&state.point()) }))
    }

    async fn list(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<pb::ListReply>, Status> {
        let state = self.desired.snapshot();
        let page = list::page(&state, &request.into_inner());
        page.map(Response::new).map_err(|violations| status::invalid(&violations))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let kinds =
            wire::kinds(&request.kinds, "kinds").map_err(|found| status::invalid(&found))?;
        let events = watch::start(
            self.desired.clone(),
            kinds,
            request.after_revision,
            self.stopping.clone(),
        );
        Ok(Response::new(events))
    }

    async fn history(
        &self,
        request: Request<pb::HistoryRequest>,
    ) -> Result<Response<pb::HistoryReply>, Status> {
        let request = request.into_inner();
        let count =
            paging::size(request.page_size, DEFAULT_HISTORY, MAX_HISTORY).map_err(status::fault)?;
        let newest = paging::first_change(&request.page_token).map_err(status::fault)?;
        let newest = newest.unwrap_or_else(|| self.desired.snapshot().sequence);
        let page = self.history.page(newest, count).await;
        let page = page.map_err(|error| self.failed(error))?;
        let full = page.len() == count;
        let mut reply = pb::HistoryReply::default();
        let mut bytes = 0;
        for entry in &page {
            let shown = wire::history_entry(entry);
            bytes += prost::Message::encoded_len(&shown);
            if bytes > paging::PAGE_BYTES && !reply.entries.is_empty() {
                reply.next_page_token = paging::from_change(entry.sequence);
                return Ok(Response::new(reply));
            }
            reply.entries.push(shown);
        }
        if let Some(last) = page.last().filter(|last| full && last.sequence > 1) {
            reply.next_page_token = paging::from_change(last.sequence - 1);
        }
        Ok(Response::new(reply))
    }

    async fn fleet_status(
        &self,
        _request: Request<pb::FleetStatusRequest>,
    ) -> Result<Response<pb::FleetStatusReply>, Status> {
        Ok(Response::new(pb::FleetStatusReply {
            head: wire::point(&self.desired.snapshot().point()),
            data_planes: self.fleet.list().into_iter().map(wire::data_plane).collect(),
            replica_id: self.replica_id.clone(),
            store_unavailable: self.desired.outage().is_some(),
        }))
    }

    async fn create_api_key(
        &self,
        request: Request<pb::CreateApiKeyRequest>,
    ) -> Result<Response<pb::CreateApiKeyReply>, Status> {
        self.create_key(request.into_inner()).await.map(Response::new)
    }

    async fn query_usage(
        &self,
        request: Request<pb::QueryUsageRequest>,
    ) -> Result<Response<pb::QueryUsageReply>, Status> {
        let reply = self.totals.read(&request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }

    async fn limit_status(
        &self,
        request: Request<pb::LimitStatusRequest>,
    ) -> Result<Response<pb::LimitStatusReply>, Status> {
        let reply = self.standing.read(&request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }

    async fn pool_status(
        &self,
        request: Request<pb::PoolStatusRequest>,
    ) -> Result<Response<pb::PoolStatusReply>, Status> {
        let reply = self.pool.status(&request.into_inner());
        reply.map(Response::new).map_err(status::status)
    }

    async fn set_pool_state(
        &self,
        request: Request<pb::SetPoolStateRequest>,
    ) -> Result<Response<pb::SetPoolStateReply>, Status> {
        let reply = self.pool.set(request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }

    async fn degrade_status(
        &self,
        request: Request<pb::DegradeStatusRequest>,
    ) -> Result<Response<pb::DegradeStatusReply>, Status> {
        let reply = self.degrade.status(&self.desired.snapshot(), &request.into_inner());
        reply.map(Response::new).map_err(status::status)
    }

    async fn list_deferred(
        &self,
        request: Request<pb::ListDeferredRequest>,
    ) -> Result<Response<pb::ListDeferredReply>, Status> {
        let request = request.into_inner();
        let most = paging::size(request.page_size, DEFAULT_DEFERRED, MAX_DEFERRED);
        let most = most.map_err(status::fault)?;
        let from = paging::place(&request.page_token).map_err(status::fault)?;
        let wanted = Wanted {
            state: Some(request.state()).filter(|state| *state != State::Unspecified),
            model: Some(request.model).filter(|model| !model.is_empty()),
        };
        let page = self.deferred()?.list(&wanted, &from, most).await;
        let (requests, next) = page.map_err(status::status)?;
        let next_page_token = paging::from_place(next.as_deref());
        Ok(Response::new(pb::ListDeferredReply { requests, next_page_token }))
    }

    async fn get_deferred(
        &self,
        request: Request<pb::GetDeferredRequest>,
    ) -> Result<Response<pb::DeferredRequest>, Status> {
        let found = self.deferred()?.inspect(&request.into_inner().id).await;
        found.map(Response::new).map_err(status::status)
    }

    async fn cancel_deferred(
        &self,
        request: Request<pb::CancelDeferredRequest>,
    ) -> Result<Response<pb::CancelDeferredReply>, Status> {
        let cancelled = self.deferred()?.withdraw(&request.into_inner().id).await;
        let cancelled = cancelled.map_err(status::status)?;
        Ok(Response::new(pb::CancelDeferredReply { cancelled }))
    }

    async fn breaker_status(
        &self,
        request: Request<pb::BreakerStatusRequest>,
    ) -> Result<Response<pb::BreakerStatusReply>, Status> {
        let reply = self.breakers.status(&request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }

    async fn probe(
        &self,
        request: Request<pb::ProbeRequest>,
    ) -> Result<Response<Self::ProbeStream>, Status> {
        let request = request.into_inner();
        self.probes.start(&request, self.stopping.clone()).map(Response::new)
    }
}

impl AdminService {
    fn deferred(&self) -> Result<&Deferred, Status> {
        self.deferred.as_deref().ok_or_else(status::no_deferred)
    }

    /// The status for a call that the configuration store may have failed.
    fn failed(&self, error: CoreError) -> Status {
        self.metrics.failed(&error);
        status::status(error)
    }
}
