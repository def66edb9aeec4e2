//! Telling a control plane what is seen of targets, and doing as the fleet says.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_model::secret::Secret;
use sluicegate_proto::health::v1::{
    FleetState, ReportRequest, WatchRequest, health_client::HealthClient as Grpc,
};
use sluicegate_protocol::breaker::{Blocked, Check, Grant, MAX_REPORT, Report, TargetKey, Word};
use sluicegate_telemetry::{
    clock,
    task::{self, AbortOnDrop},
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tonic::transport::Endpoint;

use super::{Guard, Outbox, Targets, check::Checks, ping::Pinger};
use crate::{
    link::{Backoff, ControlPlanes, said, told},
    metrics::Metrics,
    policy::Current,
    pool::Pool,
};

/// How often what is seen is told, and what time alone changes is looked at.
const TICK: Duration = Duration::from_secs(1);
/// What happens within this time goes together in one report.
const GATHER: Duration = Duration::from_millis(20);
/// Longest wait for the answer to a report: a newer one is due by then.
const REPORT: Duration = Duration::from_secs(2);
/// Longest wait for the beginning of a watch.
const CALL: Duration = Duration::from_secs(5);

/// The running exchange; dropping it ends it.
#[derive(Debug)]
pub struct TargetClient {
    _tasks: [AbortOnDrop<()>; 4],
}

/// What the exchange is about.
#[derive(Debug)]
pub struct Exchange {
    pub targets: Arc<Targets>,
    pub outbox: Arc<Outbox>,
    pub guard: Arc<Guard>,
    pub current: Arc<Current>,
    pub pool: Arc<Pool>,
    pub metrics: Arc<Metrics>,
    pub node_id: String,
    /// Where the data plane is.
    pub zone: Option<String>,
}

/// Whom to talk to.
#[derive(Debug)]
struct Link {
    about: Arc<Exchange>,
    pinger: Arc<Pinger>,
    checks: Arc<Checks>,
    planes: ControlPlanes,
}

impl TargetClient {
    /// Begins to tell and to be told, by the first of the control planes that answers.
    pub fn start(about: Exchange, endpoints: &[Endpoint], token: &Secret) -> Self {
        let about = Arc::new(about);
        let Exchange { targets, outbox, current, pool, metrics, .. } = &*about;
        let pinger = Arc::new(Pinger {
            current: current.clone(),
            pool: pool.clone(),
            metrics: metrics.clone(),
        });
        let checks = Checks::new(
            current.clone(),
            targets.clone(),
            outbox.clone(),
            metrics.clone(),
            pinger.clone(),
        );
        let planes = ControlPlanes::new(endpoints, token);
        let link = || Link {
            about: about.clone(),
            pinger: pinger.clone(),
            checks: checks.clone(),
            planes: planes.clone(),
        };
        let watching = task::spawn("targets-watch", link().watch_all());
        let reporting = task::spawn("targets-report", link().report_all());
        let ticking = task::spawn("targets-tick", tick(about.clone()));
        let checking = task::spawn("targets-checks", checks.clone().run());
        Self { _tasks: [watching, reporting, ticking, checking].map(AbortOnDrop) }
    }
}

/// What time alone changes, and what operators have put into the policy, for ever.
async fn tick(about: Arc<Exchange>) {
    let mut shown = BTreeSet::new();
    let mut policies = about.current.subscribe();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = policies.changed() => if changed.is_err() { return },
        }
        let policy = about.current.load();
        let forces = policy.as_deref().map(|policy| &policy.forces);
        about.targets.tick(forces, clock::unix_ms());
        let targets = about.targets.all();
        shown.retain(|key: &TargetKey| {
            let known = targets.binary_search_by(|target| target.key.cmp(key)).is_ok();
            if !known {
                about.metrics.breaker_gone(key);
            }
            known
        });
        for target in targets {
            about.metrics.breaker_state(&target.key, target.state());
            shown.insert(target.key.clone());
        }
    }
}

impl Link {
    /// Follows one control plane after the other, for ever.
    async fn watch_all(self) {
        let mut backoff = Backoff::default();
        for turn in 0.. {
            let begun = Instant::now();
            let Err(reason) = self.watch(turn).await;
            self.about.targets.fleet(0);
            tracing::debug!(reason, "no watch on targets; each is decided on alone");
            backoff.wait_after(begun).await;
        }
    }

    async fn watch(&self, turn: usize) -> Result<std::convert::Infallible, String> {
        let mut client = Grpc::new(self.planes.channel(turn)?);
        let request = self.planes.request(WatchRequest { node_id: self.about.node_id.clone() })?;
        let opened = timeout(CALL, client.watch(request)).await.map_err(|_| "no answer in time")?;
        let mut stream = opened.map_err(|status| said(&status))?.into_inner();
        loop {
            // A connection that has died is noticed by its keep-alive.
            let message = stream.message().await.map_err(|status| said(&status))?;
            self.heard(message.ok_or("the control plane ended the watch")?);
        }
    }

    fn heard(&self, state: FleetState) {
        let Exchange { targets, guard, node_id, .. } = &*self.about;
        targets.fleet(state.nodes);
        for word in state.directives {
            match Word::try_from(word) {
                Ok(word) => targets.obey(word),
                Err(fault) => tracing::debug!(%fault, "a directive is left out"),
            }
        }
        for grant in state.grants {
            match Grant::of_proto(node_id.clone(), grant) {
                Ok(grant) => self.granted(grant),
                Err(fault) => tracing::debug!(%fault, "a grant is left out"),
            }
        }
        for check in state.checks {
            match Check::try_from(check) {
                Ok(check) => self.checks.told(check),
                Err(fault) => tracing::debug!(%fault, "a health probe is left out"),
            }
        }
        for blocked in state.blocked {
            match Blocked::try_from(blocked) {
                Ok(blocked) => guard.merge(blocked),
                Err(fault) => tracing::debug!(%fault, "a blocked request is left out"),
            }
        }
    }

    fn granted(&self, grant: Grant) {
        let Grant { target, generation, deadline_ms, .. } = grant;
        let Some(target) = self.about.targets.get(&target) else { return };
        target.change(|local, now_ms| local.grant(generation, deadline_ms, now_ms));
        if target.wants_probe() {
            let pinger = self.pinger.clone();
            drop(task::spawn("targets-probe", async move {
                pinger.ping(&target, deadline_ms).await;
            }));
        }
    }

    /// Tells what is seen: each second while there is something or the policy has health probes, and at
    /// once after a change.
    async fn report_all(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn = 0;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.about.outbox.wake.notified() => sleep(GATHER).await,
            }
            let probes = self.about.outbox.take();
            let mut windows = self.about.targets.windows(boottime_ms());
            windows.truncate(MAX_REPORT);
            let blocked = self.about.guard.own();
            let findings = self.checks.findings();
            let quiet = windows.is_empty() && probes.is_empty() && blocked.is_empty();
            if quiet && findings.is_none() {
                continue;
            }
            let checks = findings.is_some();
            let mut findings = findings.unwrap_or_default();
            findings.truncate(MAX_REPORT);
            let (node, zone) = (self.about.node_id.clone(), self.about.zone.clone());
            let report = Report { node, zone, windows, probes, blocked, findings, checks };
            if let Err(reason) = self.report(turn, report.to_proto()).await {
                tracing::debug!(reason, "a control plane was not told of targets");
                self.about.outbox.put_back(report.probes);
                turn += 1;
            }
        }
    }

    async fn report(&self, turn: usize, report: ReportRequest) -> Result<(), String> {
        let mut client = Grpc::new(self.planes.channel(turn)?);
        let request = self.planes.request(report)?;
        let answer =
            timeout(REPORT, client.report(request)).await.map_err(|_| "no answer in time")?;
        told(answer)
    }
}
