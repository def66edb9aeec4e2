//! What data planes have used.

use std::sync::Arc;

use sluicegate_control_core::Usage;
use sluicegate_proto::usage::v1::{self as pb, usage_server};
use tonic::{Request, Response, Status};

use crate::{metrics::Metrics, status};

/// Takes the reports.
#[derive(Debug)]
pub(crate) struct UsageService {
    pub(crate) usage: Arc<Usage>,
    pub(crate) metrics: Arc<Metrics>,
}

#[tonic::async_trait]
impl usage_server::Usage for UsageService {
    async fn report(
        &self,
        request: Request<pb::UsageBatch>,
    ) -> Result<Response<pb::UsageAck>, Status> {
        let taken = self.usage.report(request.get_ref()).await.map_err(status::status)?;
        self.metrics.ledger.used(&taken);
        Ok(Response::new(taken.ack))
    }
}
