//! Sending usage to a control plane, and closing what an earlier process has left open.

use std::{collections::HashMap, sync::Arc, time::Duration};

use prost::Message;
use sluicegate_journal::{DeadLease, Journal, Moment, Outbox, Priced, Recovered, Started};
use sluicegate_model::{Usage, secret::Secret};
use sluicegate_proto::{
    quota::v1::{LeaseOp, LeaseRequest, LeaseStatus, Meter, quota_client::QuotaClient},
    usage::v1::{UsageAck, UsageBatch, usage_client::UsageClient},
};
use sluicegate_telemetry::task::{self, AbortOnDrop};
use tokio::{task::spawn_blocking, time::timeout};
use tonic::{Code, transport::Endpoint};

use super::UsageLog;
use crate::{link::ControlPlanes, quota::Actual, settle::Memo};

/// Longest wait for one acknowledgement.
const CALL: Duration = Duration::from_secs(5);
/// Events that come within this time go together: one call and one step of the ledger for many.
const TOGETHER: Duration = Duration::from_millis(500);
/// How often numbers are brought up to date and old files are looked for.
const TIDY: Duration = Duration::from_secs(1);
/// Pause between attempts to close a dead process's leases.
const CLOSE_AGAIN: Duration = Duration::from_secs(2);
/// Operation numbers of a dead process's leases begin here: later than any that it sent.
const DEAD_SEQ: u64 = 1 << 40;
/// Leases closed in one call.
const CLOSE_BATCH: usize = 256;

/// The running reports; dropping them ends them, and what is left is sent after the next start.
#[derive(Debug)]
pub struct Reporting {
    _tasks: Vec<AbortOnDrop<()>>,
}

/// What all reports share.
#[derive(Debug, Clone)]
struct Sender {
    node_id: String,
    planes: ControlPlanes,
}

impl Reporting {
    /// Begins to report: what this process writes, and what dead ones have left.
    pub fn start(
        log: &Arc<UsageLog>,
        recovered: Recovered,
        endpoints: &[Endpoint],
        token: &Secret,
        node_id: String,
    ) -> Self {
        let sender = Sender { node_id, planes: ControlPlanes::new(endpoints, token) };
        let mut tasks = Vec::new();
        for source in log.journal.sources() {
            match log.journal.outbox(source) {
                Ok(outbox) => {
                    let sending = sender.clone().send_all(log.journal.clone(), outbox);
                    tasks.push(AbortOnDrop(task::spawn("usage-report", sending)));
                }
                Err(error) => {
                    tracing::error!(%error, source, "usage of an earlier process cannot be read");
                }
            }
        }
        let closing = sender.close_leases(log.journal.clone(), recovered);
        tasks.push(AbortOnDrop(task::spawn("usage-leases", closing)));
        tasks.push(AbortOnDrop(task::spawn("usage-tidy", tidy(log.clone()))));
        Self { _tasks: tasks }
    }
}

/// What an attempt costs whose process died, by the prices under which it was sent.
pub fn recovered_price(started: &Started, output_tokens: u64) -> Priced {
    let Memo { units, prices, .. } = Memo::read(&started.memo);
    let usage =
        Usage { input: started.event.input_tokens, output: output_tokens, ..Usage::default() };
    Priced {
        micro_units: units.total(usage),
        cost_nano: prices.total(usage),
        // Charged when the leases are closed: see `with_interrupted`.
        lease_charges: Vec::new(),
    }
}

impl Sender {
    async fn send_all(self, journal: Journal, outbox: Outbox) {
        let mut commits = journal.commits();
        let mut outbox = Some(outbox);
        let mut turn = 0;
        while let Some(mut out) = outbox.take() {
            if out.is_over() {
                return;
            }
            let read = spawn_blocking(move || {
                let batch = out.next_batch(Moment::now());
                (out, batch)
            });
            let Ok((mut out, batch)) = read.await else { return };
            if let Some(batch) = batch {
                match self.report(batch, turn).await {
                    Ok(ack) => out.on_ack(Moment::now(), &ack),
                    Err(reason) => {
                        tracing::debug!(reason, "usage was not acknowledged");
                        turn += 1;
                        out.on_failure(Moment::now());
                    }
                }
            } else {
                let wait = out.due_in(Moment::now());
                tokio::select! {
                    () = tokio::time::sleep(wait.unwrap_or(TIDY)) => {}
                    changed = commits.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        tokio::time::sleep(TOGETHER).await;
                    }
                }
            }
            outbox = Some(out);
        }
    }

    async fn report(&self, batch: UsageBatch, turn: usize) -> Result<UsageAck, String> {
        let mut client = UsageClient::new(self.planes.channel(turn)?);
        let request = self.planes.request(batch)?;
        match timeout(CALL, client.report(request)).await {
            Ok(Ok(ack)) => Ok(ack.into_inner()),
            Ok(Err(status)) => {
                if status.code() == Code::InvalidArgument {
                    // It stays in the journal: what cannot be counted must not vanish either.
                    tracing::error!(reason = status.message(), "the control plane refuses usage");
                }
                Err(status.message().to_owned())
            }
            Err(_) => Err(format!("no acknowledgement within {CALL:?}")),
        }
    }

    /// Tells the ledger what dead processes had charged, so that nothing stays reserved for them.
    async fn close_leases(self, journal: Journal, recovered: Recovered) {
        if recovered.leases.is_empty() {
            return;
        }
        let mut left = with_interrupted(recovered);
        let mut turn = 0;
        loop {
            let mut open = Vec::new();
            for leases in left.chunks(CLOSE_BATCH) {
                match self.close(leases, turn).await {
                    Ok(closed) => {
                        for (lease, closed) in leases.iter().zip(closed) {
                            if !closed {
                                open.push(lease.clone());
                            } else if let Err(error) =
                                journal.close_dead_lease(lease.source, lease.totals.lease)
                            {
                                tracing::warn!(%error, "a closed lease cannot be noted");
                            }
                        }
                    }
                    Err(reason) => {
                        tracing::debug!(reason, "leases of an earlier process are still open");
                        turn += 1;
                        open.extend_from_slice(leases);
                    }
                }
            }
            if open.is_empty() {
                return;
            }
            left = open;
            tokio::time::sleep(CLOSE_AGAIN).await;
        }
    }

    /// Closes leases; tells of each whether the ledger has heard.
    async fn close(&self, leases: &[DeadLease], turn: usize) -> Result<Vec<bool>, String> {
        let mut closed = Vec::with_capacity(leases.len());
        // One call has one source.
        for leases in leases.chunk_by(|one, other| one.source == other.source) {
            let source = leases.first().map_or(0, |lease| lease.source);
            let ops = leases.iter().map(closing).collect();
            let request = LeaseRequest {
                node_id: self.node_id.clone(),
                incarnation: source,
                policy_revision: 0,
                ops,
            };
            let mut client = QuotaClient::new(self.planes.channel(turn)?);
            let reply = timeout(CALL, client.lease(self.planes.request(request)?)).await;
            let states = match reply {
                Ok(Ok(reply)) => reply.into_inner().states,
                Ok(Err(status)) => return Err(status.message().to_owned()),
                Err(_) => return Err(format!("no answer within {CALL:?}")),
            };
            closed.extend(states.iter().map(|state| {
                !matches!(
                    LeaseStatus::try_from(state.status),
                    Ok(LeaseStatus::Unavailable | LeaseStatus::Unspecified) | Err(_)
                )
            }));
        }
        Ok(closed)
    }
}

fn closing(lease: &DeadLease) -> LeaseOp {
    let totals = &lease.totals;
    LeaseOp {
        meter: Meter::decode(totals.meter.clone()).ok(),
        lease: totals.lease,
        seq: DEAD_SEQ,
        charged: totals.charged,
        refunded: 0,
        granted: totals.charged,
        wanted: totals.charged,
        minimum: 0,
        close: true,
        window: totals.window,
    }
}

/// The leases with what interrupted attempts come to.
fn with_interrupted(recovered: Recovered) -> Vec<DeadLease> {
    let mut leases: HashMap<(u64, u64), DeadLease> = recovered
        .leases
        .into_iter()
        .map(|lease| ((lease.source, lease.totals.lease), lease))
        .collect();
    for attempt in recovered.interrupted {
        let event = &attempt.started.event;
        let usage =
            Usage { input: event.input_tokens, output: attempt.output_tokens, ..Usage::default() };
        let Memo { units, prices, dimensions } = Memo::read(&attempt.started.memo);
        let actual = Actual {
            requests: 1,
            tokens: usage.input.saturating_add(usage.output),
            micro_units: units.total(usage),
            cost_nano: prices.total(usage),
        };
        for (index, hold) in attempt.started.holds.iter().enumerate() {
            let Some(lease) = leases.get_mut(&(attempt.source, hold.lease)) else { continue };
            // Where it is not known what the lease counts, all that was reserved.
            let dimension = dimensions.get(index);
            let charge = dimension.map_or(hold.amount, |dimension| actual.of(*dimension));
            lease.totals.charged = lease.totals.charged.saturating_add(charge);
        }
    }
    let mut leases: Vec<_> = leases.into_values().collect();
    leases.sort_by_key(|lease| (lease.source, lease.totals.lease));
    leases
}

/// Keeps numbers current and deletes what is counted for good.
async fn tidy(log: Arc<UsageLog>) {
    loop {
        tokio::time::sleep(TIDY).await;
        let working = log.clone();
        let tidied = spawn_blocking(move || {
            working.journal.tidy(Moment::now());
            working.metrics.usage(&working.numbers());
        });
        if tidied.await.is_err() {
            tracing::error!("looking after the usage journal failed");
        }
    }
}
