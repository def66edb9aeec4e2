//! Claims what may be run now, and sees to it that each ends.
//!
//! A request is claimed only while one of its targets is up and has room, at the pace of its queue.
//! While it runs its lease is kept. Its answer is told until a control plane says that it is kept for
//! good; a request whose target fails is given back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_proto::deferred::v1 as pb;
use sluicegate_telemetry::task;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Code;

use super::{
    Deferred, MOST_ANSWER,
    client::Failure,
    pace::Ended,
    queues::{self, Queues},
    run::{self, Ran},
};
use crate::pipeline::Gateway;

/// Requests that are run at one time, of all queues, and bytes of them.
const MOST_RUNNING: u32 = 64;
const MOST_BYTES: usize = 64 << 20;
/// How long a request is this data plane's, and how often it says that it still is.
const LEASE_MS: u64 = 20_000;
const EXTEND: Duration = Duration::from_secs(5);
/// How long a claim waits for something to come, while nothing runs that makes room for other queues
/// when it ends. Targets may change meanwhile.
const WAIT_MS: u64 = 1_000;
/// Between two looks at targets and queues, unless something ends.
const LOOK: Duration = Duration::from_millis(200);
/// The same while no model keeps requests: those that one has kept before are in no hurry.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// Shortest and longest wait before another try.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long an answer is told to whoever may hear it. By then somebody else has the request.
const TELL: Duration = Duration::from_secs(600);
/// How long the end of a process waits for what is told last.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs requests that were kept, until it is stopped.
#[derive(Debug)]
pub struct Runner(JoinHandle<()>);

impl Runner {
    /// Begins. From `stop` on nothing is claimed; what is under way has `drain` to end, and is then
    /// given back.
    pub fn start(gateway: Arc<Gateway>, stop: CancellationToken, drain: Duration) -> Self {
        let running = Arc::new(Running {
            deferred: gateway.deferred.clone(),
            gateway,
            state: Mutex::default(),
            freed: Notify::new(),
            cut: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Self(task::spawn("deferred", async move {
            running.clone().claim_all(&stop).await;
            running.end(drain).await;
        }))
    }

    /// Resolves when it was stopped, and everything has ended or was given back.
    pub async fn ended(self) {
        if self.0.await.is_err() {
            tracing::error!("the task of deferred requests ended by a panic");
        }
    }
}

#[derive(Debug)]
struct Running {
    gateway: Arc<Gateway>,
    deferred: Arc<Deferred>,
    state: Mutex<State>,
    /// Something has ended.
    freed: Notify,
    /// What is under way is to be given back.
    cut: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    queues: Queues,
    running: u32,
    bytes: usize,
}

/// What may be claimed now.
#[derive(Debug)]
struct Wanted {
    queues: Vec<pb::QueueClaim>,
    /// Nothing runs.
    is_idle: bool,
    /// A model keeps requests.
    keeps: bool,
}

/// One request's place among those that are run here.
struct Place<'a> {
    running: &'a Running,
    queue: &'a str,
    bytes: usize,
    /// How the run has ended, once it has.
    how: Option<Ended>,
}

impl Running {
    async fn claim_all(self: Arc<Self>, stop: &CancellationToken) {
        let (mut call, mut backoff) = (new_call(), BACKOFF_MIN);
        while !stop.is_cancelled() {
            let Wanted { queues, is_idle, keeps } = self.wanted();
            if queues.is_empty() {
                self.look_again(LOOK, stop).await;
                continue;
            }
            // Not given up halfway: what it gives would be nobody's until its lease is over.
            let claim = pb::ClaimRequest {
                node_id: self.deferred.node_id.clone(),
                call: call.clone(),
                queues,
                lease_ms: LEASE_MS,
                wait_ms: if is_idle && keeps { WAIT_MS } else { 0 },
            };
            match self.deferred.client.claim(claim).await {
                Ok(reply) => {
                    (call, backoff) = (new_call(), BACKOFF_MIN);
                    if reply.requests.is_empty() && !keeps {
                        self.look_again(LOOK_BACK, stop).await;
                    } else if reply.requests.is_empty() && !is_idle {
                        self.look_again(LOOK, stop).await;
                    }
                    for claimed in reply.requests {
                        self.clone().begin(claimed);
                    }
                }
                Err(failure) => {
                    // Repeated as it is, it gives what an answer that was lost had given.
                    if let Failure::Refused(status) = &failure {
                        tracing::warn!(reason = status.message(), "a claim was refused");
                        call = new_call();
                    }
                    tracing::debug!(?failure, "deferred requests cannot be claimed");
                    tokio::select! {
                        () = sleep(backoff.mul_f64(fastrand::f64())) => {}
                        () = stop.cancelled() => {}
                    }
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    /// Waits so long, or until something has ended, or another policy is in force.
    async fn look_again(&self, wait: Duration, stop: &CancellationToken) {
        let mut policies = self.gateway.current.subscribe();
        tokio::select! {
            () = sleep(wait) => {}
            () = self.freed.notified() => {}
            _ = policies.changed() => {}
            () = stop.cancelled() => {}
        }
    }

    /// What may be claimed now.
    fn wanted(&self) -> Wanted {
        let mut state = self.state();
        let is_idle = state.running == 0;
        // A process that runs short has no time for what can wait.
        let may = state.bytes < MOST_BYTES && self.gateway.watchman.may_retry();
        let policy = self.gateway.current.load().filter(|_| may);
        let Some(policy) = policy else {
            return Wanted { queues: Vec::new(), is_idle, keeps: true };
        };
        let most = MOST_RUNNING.saturating_sub(state.running);
        let queues = state.queues.wanted(&policy, &self.gateway.pool, most, boottime_ms());
        Wanted { queues, is_idle, keeps: policy.models().any(|model| queues::keeps(model)) }
    }

    fn begin(self: Arc<Self>, claimed: pb::Claimed) {
        {
            let mut state = self.state();
            state.queues.began(&claimed.queue);
            state.running = state.running.saturating_add(1);
            state.bytes = state.bytes.saturating_add(claimed.body.len());
        }
        self.gateway.reporter.metrics.deferred.began();
        let tasks = self.tasks.clone();
        drop(task::spawn("deferred-run", tasks.track_future(self.work(claimed))));
    }

    /// Runs it, and tells what came of it.
    async fn work(self: Arc<Self>, claimed: pb::Claimed) {
        let mut place =
            Place { running: &self, queue: &claimed.queue, bytes: claimed.body.len(), how: None };
        let ran = tokio::select! {
            ran = Box::pin(self.gateway.run_kept(&claimed, &self.cut)) => Some(ran),
            () = self.keep(&claimed) => None,
        };
        let what = match ran {
            None => {
                place.ended(Ended::Otherwise);
                "lost"
            }
            Some(Ran::Ended { response, well }) => {
                place.ended(if well { Ended::Well } else { Ended::Otherwise });
                let what = if response.status < 400 { "done" } else { "failed" };
                if self.tell(&claimed, response).await { what } else { "untold" }
            }
            Some(Ran::Failed(wait)) => {
                place.ended(Ended::Failed);
                self.give_back(&claimed, wait).await;
                "released"
            }
            Some(Ran::Later(wait)) => {
                place.ended(Ended::Otherwise);
                self.give_back(&claimed, wait).await;
                "released"
            }
        };
        self.gateway.reporter.metrics.deferred.ended(what);
        tracing::debug!(id = claimed.id, attempt = claimed.attempt, what, "a deferred request");
    }

    /// Keeps the lease. Returns when running it is of no use any more: it was cancelled, or has ended.
    async fn keep(&self, claimed: &pb::Claimed) {
        loop {
            sleep(EXTEND).await;
            let extend = pb::ExtendRequest {
                id: claimed.id.clone(),
                attempt: claimed.attempt,
                lease_ms: LEASE_MS,
            };
            if let Ok(pb::ExtendReply { held: false }) = self.deferred.client.extend(extend).await {
                return;
            }
        }
    }

    /// Tells the result until it is kept for good. `false`: nobody could be told.
    async fn tell(&self, claimed: &pb::Claimed, response: pb::Response) -> bool {
        let mut telling = Box::pin(self.tell_until_kept(claimed, response));
        tokio::select! {
            told = &mut telling => return told,
            () = self.keep(claimed) => {}
        }
        // A result counts also when the lease is over, unless there is one.
        telling.await
    }

    async fn tell_until_kept(&self, claimed: &pb::Claimed, response: pb::Response) -> bool {
        let until = Instant::now() + TELL;
        let mut finish = pb::FinishRequest {
            id: claimed.id.clone(),
            attempt: claimed.attempt,
            response: Some(response),
        };
        let (mut backoff, mut told, mut shortened) = (BACKOFF_MIN, false, false);
        while Instant::now() < until {
            match self.deferred.client.finish(&finish).await {
                Ok(reply) => {
                    told = true;
                    if reply.durable || reply.status() != pb::FinishStatus::Recorded {
                        return true;
                    }
                }
                Err(Failure::Refused(status)) => {
                    let too_large = matches!(
                        status.code(),
                        Code::InvalidArgument | Code::OutOfRange | Code::ResourceExhausted
                    );
                    if shortened || !too_large {
                        tracing::error!(id = claimed.id, %status, "a result is not taken");
                        return told;
                    }
                    finish.response = Some(run::too_large(MOST_ANSWER, &claimed.id));
                    shortened = true;
                }
                Err(Failure::Away(reason)) => {
                    tracing::debug!(id = claimed.id, reason, "a result could not be told");
                }
            }
            sleep(backoff.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        told
    }

    /// Gives it back, not to be claimed before `wait` is over. If that cannot be told, its lease ends.
    async fn give_back(&self, claimed: &pb::Claimed, wait: Duration) {
        let release = pb::ReleaseRequest {
            id: claimed.id.clone(),
            attempt: claimed.attempt,
            after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        if let Err(failure) = self.deferred.client.release(release).await {
            tracing::debug!(id = claimed.id, ?failure, "a deferred request is kept till its lease");
        }
    }

    /// Waits for what is under way, and gives back what is left.
    async fn end(&self, drain: Duration) {
        self.tasks.close();
        if timeout(drain, self.tasks.wait()).await.is_ok() {
            return;
        }
        self.cut.cancel();
        if timeout(LAST_WORDS, self.tasks.wait()).await.is_err() {
            tracing::warn!("deferred requests are left to be run again");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// The run has ended: another of its queue may begin, though this one is not told yet.
    fn ended(&mut self, how: Ended) {
        if self.how.replace(how).is_none() {
            self.running.state().queues.ended(self.queue, how, boottime_ms());
            self.running.freed.notify_one();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.ended(Ended::Otherwise);
        {
            let mut state = self.running.state();
            state.running = state.running.saturating_sub(1);
            state.bytes = state.bytes.saturating_sub(self.bytes);
        }
        self.running.freed.notify_one();
    }
}

fn new_call() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
