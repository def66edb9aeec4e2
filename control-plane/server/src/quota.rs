//! What data planes draw on limits.

use std::sync::Arc;

use sluicegate_control_core::Quota;
use sluicegate_proto::quota::v1::{self as pb, quota_server};
use tonic::{Request, Response, Status};

use crate::{metrics::Metrics, status};

/// Answers the calls.
#[derive(Debug)]
pub(crate) struct QuotaService {
    pub(crate) quota: Arc<Quota>,
    pub(crate) metrics: Arc<Metrics>,
}

#[tonic::async_trait]
impl quota_server::Quota for QuotaService {
    async fn lease(
        &self,
        request: Request<pb::LeaseRequest>,
    ) -> Result<Response<pb::LeaseReply>, Status> {
        let reply = self.quota.lease(request.get_ref()).await.map_err(status::status)?;
        self.metrics.ledger.leased(&reply);
        Ok(Response::new(reply))
    }
}
