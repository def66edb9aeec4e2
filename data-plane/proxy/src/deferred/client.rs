//! Asking control planes to keep requests, and for those that they keep.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use sluicegate_model::secret::Secret;
use sluicegate_proto::deferred::v1::{self as pb, deferred_client::DeferredClient as Grpc};
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint},
};

use crate::link::ControlPlanes;

/// Longest wait for the answer of one control plane, beyond what it was asked to wait.
const CALL: Duration = Duration::from_secs(2);
/// A body is stored and sent on at least so fast. Bytes in a millisecond.
const SLOWEST: u64 = 1 << 10;
/// Longest wait of a caller, over all control planes.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a store may take to say that what it keeps survives a crash.
const DURABLE: Duration = Duration::from_secs(2);
/// Before the first look whether it does; doubles.
const LOOK: Duration = Duration::from_millis(100);
/// Largest answer: a result, or what one claim gives, and what stands beside them. Bytes.
const MOST_ANSWER: usize = 16 << 20;

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Failure {
    /// No control plane could be asked, or none could ask its store.
    Away(String),
    /// One has said no, and every other would.
    Refused(Status),
}

/// Speaks with the control plane that answered last, and with the next one when it fails.
#[derive(Debug)]
pub(super) struct Client {
    planes: ControlPlanes,
    current: AtomicUsize,
}

impl Client {
    pub(super) fn new(endpoints: &[Endpoint], token: &Secret) -> Self {
        Self { planes: ControlPlanes::new(endpoints, token), current: AtomicUsize::new(0) }
    }

    /// Keeps a request, and waits a moment for that to be durable. The request's idempotency key
    /// makes it safe to say it twice.
    pub(super) async fn put(&self, request: pb::PutRequest) -> Result<pb::PutReply, Failure> {
        let each = CALL + Duration::from_millis(request.body.len() as u64 / SLOWEST);
        let mut reply = self.ask(each, &request, async |mut grpc, it| grpc.put(it).await).await?;
        let (until, mut look) = (Instant::now() + DURABLE, LOOK);
        while !reply.durable && Instant::now() < until {
            sleep(look).await;
            look *= 2;
            match self.ask(each, &request, async |mut grpc, it| grpc.put(it).await).await {
                // The first answer says whether it was there before.
                Ok(again) if again.id == reply.id => reply.durable = again.durable,
                // It was lost meanwhile, or forgotten, and this is another.
                Ok(again) => reply = again,
                Err(_) => break,
            }
        }
        Ok(reply)
    }

    pub(super) async fn get(&self, request: pb::GetRequest) -> Result<pb::GetReply, Failure> {
        self.ask(CALL, &request, async |mut grpc, it| grpc.get(it).await).await
    }

    pub(super) async fn cancel(
        &self,
        request: pb::CancelRequest,
    ) -> Result<pb::CancelReply, Failure> {
        self.ask(CALL, &request, async |mut grpc, it| grpc.cancel(it).await).await
    }

    pub(super) async fn claim(&self, request: pb::ClaimRequest) -> Result<pb::ClaimReply, Failure> {
        let wait = CALL + Duration::from_millis(request.wait_ms);
        self.ask(wait, &request, async |mut grpc, it| grpc.claim(it).await).await
    }

    pub(super) async fn extend(
        &self,
        request: pb::ExtendRequest,
    ) -> Result<pb::ExtendReply, Failure> {
        self.ask(CALL, &request, async |mut grpc, it| grpc.extend(it).await).await
    }

    pub(super) async fn finish(
        &self,
        request: &pb::FinishRequest,
    ) -> Result<pb::FinishReply, Failure> {
        self.ask(CALL, request, async |mut grpc, it| grpc.finish(it).await).await
    }

    pub(super) async fn release(
        &self,
        request: pb::ReleaseRequest,
    ) -> Result<pb::ReleaseReply, Failure> {
        self.ask(CALL, &request, async |mut grpc, it| grpc.release(it).await).await
    }

    /// Asks one control plane after the other, each once.
    async fn ask<Q: Clone, R>(
        &self,
        each: Duration,
        message: &Q,
        call: impl AsyncFn(Grpc<Channel>, Request<Q>) -> Result<Response<R>, Status>,
    ) -> Result<R, Failure> {
        let away = |reason: &str| Failure::Away(reason.to_owned());
        let mut last = away("there is no control plane");
        let until = Instant::now() + each.max(PATIENCE);
        for _ in 0..self.planes.len() {
            let current = self.current.load(Ordering::Relaxed);
            let client = Grpc::new(self.planes.channel(current).map_err(away)?);
            let client = client.max_decoding_message_size(MOST_ANSWER);
            let request = self.planes.request(message.clone()).map_err(away)?;
            let left = until.saturating_duration_since(Instant::now());
            last = match timeout(each.min(left), call(client, request)).await {
                Ok(Ok(reply)) => return Ok(reply.into_inner()),
                Ok(Err(status)) if is_final(&status) => return Err(Failure::Refused(status)),
                Ok(Err(status)) => away(status.message()),
                Err(_) => away(
                    "a control plane did not answer in time, and may have done it all the same",
                ),
            };
            let next = current.wrapping_add(1);
            // Another call may have moved on already.
            let _moved =
                self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(last)
    }
}

/// Would every control plane say the same?
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::NotFound
            | Code::InvalidArgument
            | Code::ResourceExhausted
            | Code::OutOfRange
            | Code::DataLoss
    )
}
