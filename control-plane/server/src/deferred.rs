//! What data planes keep for later, and come back for.

use std::sync::Arc;

use sluicegate_control_core::{CoreError, Deferred};
use sluicegate_proto::deferred::v1::{self as pb, deferred_server};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::status;

/// What a message has beside a body or a result, in bytes.
const BESIDE: usize = 64 << 10;

/// Answers the calls.
#[derive(Debug)]
pub(crate) struct DeferredService {
    pub(crate) deferred: Option<Arc<Deferred>>,
    /// Ends claims that wait.
    pub(crate) stopping: CancellationToken,
}

impl DeferredService {
    /// Largest message that is of use, in bytes; not below `usual`.
    pub(crate) fn max_message(&self, usual: usize) -> usize {
        let limits = self.deferred.as_ref().map(|deferred| deferred.limits());
        let most = limits.map_or(0, |limits| limits.body_bytes.max(limits.result_bytes));
        most.saturating_add(BESIDE).max(usual)
    }

    async fn answer<'a, Q, R, F>(
        &'a self,
        request: Request<Q>,
        answer: impl FnOnce(&'a Deferred, Q) -> F,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<R, CoreError>>,
    {
        let deferred = self.deferred.as_deref().ok_or_else(status::no_deferred)?;
        let reply = answer(deferred, request.into_inner()).await;
        reply.map(Response::new).map_err(status::status)
    }
}

#[tonic::async_trait]
impl deferred_server::Deferred for DeferredService {
    async fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> Result<Response<pb::PutReply>, Status> {
        self.answer(request, Deferred::put).await
    }

    async fn get(
        &self,
        request: Request<pb::GetRequest>,
    ) -> Result<Response<pb::GetReply>, Status> {
        self.answer(request, Deferred::get).await
    }

    async fn cancel(
        &self,
        request: Request<pb::CancelRequest>,
    ) -> Result<Response<pb::CancelReply>, Status> {
        self.answer(request, Deferred::cancel).await
    }

    async fn claim(
        &self,
        request: Request<pb::ClaimRequest>,
    ) -> Result<Response<pb::ClaimReply>, Status> {
        tokio::select! {
            // What has come is answered.
            biased;
            reply = self.answer(request, Deferred::claim) => reply,
            () = self.stopping.cancelled() => Err(status::stopping()),
        }
    }

    async fn extend(
        &self,
        request: Request<pb::ExtendRequest>,
    ) -> Result<Response<pb::ExtendReply>, Status> {
        self.answer(request, Deferred::extend).await
    }

    async fn finish(
        &self,
        request: Request<pb::FinishRequest>,
    ) -> Result<Response<pb::FinishReply>, Status> {
        self.answer(request, Deferred::finish).await
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseReply>, Status> {
        self.answer(request, Deferred::release).await
    }
}
