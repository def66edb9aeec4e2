//! Carrying operations to a control plane and answers back.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::secret::Secret;
use sluicegate_proto::quota::v1::{
    self as pb, LeaseRequest, LeaseStatus, quota_client::QuotaClient as Grpc,
};
use sluicegate_protocol::quota::Op;
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tonic::transport::Endpoint;

use super::{Answered, Quota, meter::Meter};
use crate::{
    estimate::{Encoding, warm_up},
    link::ControlPlanes,
    policy::{Current, Policy},
};

/// Longest wait for one call. A control plane whose ledger is away says so sooner.
const CALL: Duration = Duration::from_millis(300);
/// How often one that does not answer is tried again.
const PROBE_MS: u64 = 500;
/// Operations in one call.
const BATCH: usize = 256;
/// Calls that are under way at one time.
const CALLS: usize = 16;
/// How often meters that nobody uses are looked for.
const FORGET_MS: u64 = 2_000;

/// Who asks.
#[derive(Debug, Clone)]
struct Asker {
    node_id: String,
    incarnation: u64,
}

/// The running exchange; dropping it ends it.
#[derive(Debug)]
pub struct QuotaClient {
    _tasks: [AbortOnDrop<()>; 2],
}

impl QuotaClient {
    /// Begins to exchange operations with the first of the control planes that answers.
    pub fn start(
        quota: Arc<Quota>,
        current: Arc<Current>,
        endpoints: &[Endpoint],
        token: &Secret,
        node_id: String,
        incarnation: u64,
    ) -> Self {
        let following = task::spawn("quota-policy", follow(quota.clone(), current));
        let exchange = Arc::new(Exchange {
            quota,
            planes: ControlPlanes::new(endpoints, token),
            current: std::sync::atomic::AtomicUsize::new(0),
            asker: Asker { node_id, incarnation },
            calls: Arc::new(Semaphore::new(CALLS)),
        });
        let exchanging = task::spawn("quota", exchange.run());
        Self { _tasks: [AbortOnDrop(following), AbortOnDrop(exchanging)] }
    }
}

/// Takes over the terms of each policy as it comes into force.
async fn follow(quota: Arc<Quota>, current: Arc<Current>) {
    let mut changed = current.subscribe();
    loop {
        if let Some(policy) = current.load() {
            quota.policy_changed(&policy);
            warm_up_for(&policy);
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Reads the vocabularies that the policy's models need before a request does.
fn warm_up_for(policy: &Policy) {
    if !policy.limits.measure_tokens() {
        return;
    }
    let mut encodings: Vec<_> = policy
        .model_names()
        .into_iter()
        .flat_map(|(_, model)| {
            model.targets.iter().filter_map(|target| {
                let name = target.model.as_ref().unwrap_or(&model.name);
                Encoding::of(model.tokenizer, name)
            })
        })
        .collect();
    encodings.dedup();
    drop(tokio::task::spawn_blocking(move || encodings.into_iter().for_each(warm_up)));
}

#[derive(Debug)]
struct Exchange {
    quota: Arc<Quota>,
    planes: ControlPlanes,
    /// Which of them is asked.
    current: std::sync::atomic::AtomicUsize,
    asker: Asker,
    calls: Arc<Semaphore>,
}

/// When a meter is to be looked after.
struct Due(u64, Arc<Meter>);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

fn answered(states: Option<&[pb::LeaseState]>) -> Answered {
    let away = |state: &pb::LeaseState| {
        matches!(
            LeaseStatus::try_from(state.status),
            Ok(LeaseStatus::Unavailable | LeaseStatus::Recovering)
        )
    };
    match states {
        None => Answered::NotAtAll,
        Some(states) if states.iter().any(away) => Answered::LedgerAway,
        Some(_) => Answered::Well,
    }
}

impl Exchange {
    async fn run(self: Arc<Self>) {
        let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
        let mut forget_ms = boottime_ms() + FORGET_MS;
        let mut probe_ms = 0;
        loop {
            let now = boottime_ms();
            if now >= forget_ms {
                self.quota.forget_idle();
                self.quota.show_headroom();
                forget_ms = now + FORGET_MS;
            }
            let away = !self.quota.available.load(Ordering::Acquire);
            let silent = away && now < probe_ms;
            if !silent {
                let ready = self.ready(now, &mut due);
                if away {
                    probe_ms = now + PROBE_MS;
                }
                self.send(ready, now, away, &mut due).await;
            }
            let mut next = due.peek().map_or(now + FORGET_MS, |Reverse(Due(at, _))| *at);
            if away {
                next = next.max(probe_ms);
            }
            let wait = Duration::from_millis(next.min(forget_ms).saturating_sub(now).max(1));
            tokio::select! {
                () = self.quota.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// The meters that have something to say now.
    fn ready(&self, now: u64, due: &mut BinaryHeap<Reverse<Due>>) -> Vec<Arc<Meter>> {
        let mut ready =
            std::mem::take(&mut *self.quota.queue.lock().unwrap_or_else(PoisonError::into_inner));
        for meter in &ready {
            meter.queued.store(false, Ordering::Release);
        }
        while let Some(Reverse(Due(at, _))) = due.peek()
            && *at <= now
        {
            if let Some(Reverse(Due(at, meter))) = due.pop()
                && meter.due_ms.load(Ordering::Relaxed) == at
            {
                meter.due_ms.store(0, Ordering::Relaxed);
                ready.push(meter);
            }
        }
        ready
    }

    async fn send(
        self: &Arc<Self>,
        ready: Vec<Arc<Meter>>,
        now: u64,
        away: bool,
        due: &mut BinaryHeap<Reverse<Due>>,
    ) {
        let mut batch = Vec::new();
        let any = ready.first().cloned();
        for meter in ready {
            let (ops, next) = meter.with(|holder| {
                let ops = holder.due(now);
                (ops, holder.next_due(now))
            });
            meter.note_urgency(now);
            let known = meter.due_ms.load(Ordering::Relaxed);
            if (known == 0 || next < known) && !meter.is_idle(now) {
                meter.due_ms.store(next, Ordering::Relaxed);
                due.push(Reverse(Due(next, meter.clone())));
            }
            batch.extend(ops.into_iter().map(|op| (meter.clone(), op)));
            if batch.len() >= BATCH {
                self.call(std::mem::take(&mut batch)).await;
            }
        }
        if let Some(meter) = any.filter(|_| away && batch.is_empty())
            && let Some(op) = meter.with(|holder| holder.probe(now))
        {
            batch.push((meter, op));
        }
        if !batch.is_empty() {
            self.call(batch).await;
        }
    }

    /// Makes one call on a task of its own.
    async fn call(self: &Arc<Self>, batch: Vec<(Arc<Meter>, Op)>) {
        let Ok(permit) = self.calls.clone().acquire_owned().await else { return };
        let exchange = self.clone();
        task::spawn("quota-call", async move {
            exchange.exchange(batch).await;
            drop(permit);
        });
    }

    async fn exchange(&self, batch: Vec<(Arc<Meter>, Op)>) {
        let request = LeaseRequest {
            node_id: self.asker.node_id.clone(),
            incarnation: self.asker.incarnation,
            policy_revision: self.quota.revision.load(Ordering::Acquire),
            ops: batch.iter().map(|(meter, op)| op.to_proto(meter.wire.clone())).collect(),
        };
        let sent = boottime_ms();
        let begun = Instant::now();
        let states = self.ask(request, batch.len()).await;
        self.quota.metrics.quota_call.observe(begun.elapsed().as_secs_f64());
        let now = boottime_ms();
        let how = answered(states.as_deref());
        let well = how == Answered::Well;
        self.quota.answered(how);
        for (index, (meter, op)) in batch.into_iter().enumerate() {
            let state = states.as_ref().and_then(|states| states.get(index));
            meter.with(|holder| match state {
                Some(state) => holder.on_state(now, sent, &op, state),
                None => holder.on_failure(&op),
            });
            if well {
                meter.end_share();
            }
            self.quota
                .usage
                .leases_over(&meter.with(sluicegate_protocol::quota::Holder::take_over));
            meter.changed.notify_waiters();
            // What is next is decided anew: more may be waited for.
            self.quota.touch(&meter);
        }
    }

    /// Asks one control plane; the next one, when it fails.
    async fn ask(&self, request: LeaseRequest, wanted: usize) -> Option<Vec<pb::LeaseState>> {
        let current = self.current.load(Ordering::Relaxed);
        let channel = self.planes.channel(current).ok()?;
        let request = self.planes.request(request).ok()?;
        let outcome = timeout(CALL, Grpc::new(channel).lease(request)).await;
        let reason = match outcome {
            Ok(Ok(reply)) => {
                let states = reply.into_inner().states;
                if states.len() == wanted {
                    return Some(states);
                }
                "the answer does not fit the question".to_owned()
            }
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => format!("no answer within {CALL:?}"),
        };
        tracing::debug!(reason, "a control plane did not answer for limits");
        let next = current.wrapping_add(1);
        // Another call may have moved on already.
        let _moved =
            self.current.compare_exchange(current, next, Ordering::Relaxed, Ordering::Relaxed);
        None
    }
}
