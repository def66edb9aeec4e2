//! Health probes: those that the fleet has told this data plane to send, or all of them while nobody
//! decides for the fleet.

mod ask;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use sluicegate_journal::clock::boottime_ms;
use sluicegate_protocol::breaker::{
    Check, Checked, Checkup, Finding, Health, Rounds, TargetKey, emptied,
};
use sluicegate_telemetry::task;
use tokio::{sync::Notify, time::sleep};

use super::{Outbox, Targets, lock, ping::Pinger};
use crate::{
    metrics::Metrics,
    policy::{Current, Policy, Provider},
};

/// How often it is looked at, at least, what is due and whether somebody decides.
const TICK: Duration = Duration::from_millis(500);

/// The health probes of this data plane.
#[derive(Debug)]
pub(super) struct Checks {
    current: Arc<Current>,
    targets: Arc<Targets>,
    outbox: Arc<Outbox>,
    metrics: Arc<Metrics>,
    pinger: Arc<Pinger>,
    rounds: Mutex<Rounds>,
    /// There is something to look at.
    wake: Notify,
}

/// What the policy says.
#[derive(Debug, Default)]
struct Plan {
    /// Targets that have health probes, and whose models they are.
    of: BTreeMap<TargetKey, Arc<Provider>>,
    /// The targets of each model that has several.
    groups: Vec<BTreeSet<TargetKey>>,
}

impl Plan {
    fn of(policy: &Policy) -> Self {
        let mut plan = Self::default();
        for model in policy.models() {
            let probed = model.targets.iter().filter(|target| target.provider.health.is_some());
            let probed = probed.map(|target| (target.state.key.clone(), target.provider.clone()));
            plan.of.extend(probed);
            if model.targets.len() > 1 {
                plan.groups.push(model.targets.iter().map(|it| it.state.key.clone()).collect());
            }
        }
        plan
    }
}

impl Checks {
    pub(super) fn new(
        current: Arc<Current>,
        targets: Arc<Targets>,
        outbox: Arc<Outbox>,
        metrics: Arc<Metrics>,
        pinger: Arc<Pinger>,
    ) -> Arc<Self> {
        let rounds = Mutex::new(Rounds::new(fastrand::u64(..)));
        Arc::new(Self { current, targets, outbox, metrics, pinger, rounds, wake: Notify::new() })
    }

    /// The fleet says whose a target is to probe.
    pub(super) fn told(&self, check: Check) {
        lock(&self.rounds).told(check, boottime_ms());
        self.wake.notify_one();
    }

    /// What is to be told to the fleet; `None`: the policy has no health probes.
    pub(super) fn findings(&self) -> Option<Vec<(TargetKey, Finding)>> {
        let mut rounds = lock(&self.rounds);
        (!rounds.is_empty()).then(|| rounds.findings())
    }

    /// Sends what is due, for ever.
    pub(super) async fn run(self: Arc<Self>) {
        let mut policies = self.current.subscribe();
        let mut plan = self.follow();
        loop {
            let alone = self.targets.is_alone();
            let (due, next_ms) = {
                let mut rounds = lock(&self.rounds);
                let now_ms = boottime_ms();
                (rounds.begin(alone, now_ms), rounds.next_ms(now_ms))
            };
            for key in due {
                let Some(provider) = plan.of.get(&key).cloned() else { continue };
                let checks = self.clone();
                drop(task::spawn("targets-check", async move {
                    checks.check(&key, &provider).await;
                }));
            }
            if alone {
                self.heed(&plan);
            }
            let wait = next_ms.map_or(TICK, |ms| Duration::from_millis(ms.max(1)).min(TICK));
            tokio::select! {
                () = sleep(wait) => {}
                () = self.wake.notified() => {}
                changed = policies.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    plan = self.follow();
                }
            }
        }
    }

    /// Goes by the policy of now.
    fn follow(&self) -> Plan {
        let plan = self.current.load().as_deref().map(Plan::of).unwrap_or_default();
        let rules = |(key, provider): (&TargetKey, &Arc<Provider>)| {
            Some((key.clone(), provider.health.as_ref()?.rules))
        };
        lock(&self.rounds).set(plan.of.iter().filter_map(rules).collect());
        plan
    }

    /// Sends one probe; its end comes within the time that the policy gives it.
    async fn check(&self, key: &TargetKey, provider: &Arc<Provider>) {
        let Some(health) = &provider.health else { return };
        let (checkup, reason) = ask::ask(&self.pinger, provider, health, &key.model).await;
        self.metrics.checked(key, checkup);
        let noted = lock(&self.rounds).ended(key, checkup, &reason, boottime_ms());
        let TargetKey { provider, model } = key;
        match noted.turned {
            Some(Health::Ill) => {
                tracing::warn!(provider, model, reason, "health probes find a target ill");
            }
            Some(Health::Well) => {
                tracing::info!(provider, model, reason, "health probes find a target well");
            }
            Some(Health::Unknown) | None => {}
        }
        if noted.strange {
            tracing::warn!(provider, model, reason, "a health probe says nothing of its target");
        }
        if noted.turned.is_some() {
            self.outbox.wake.notify_one();
        }
        if checkup != Checkup::Unclear {
            self.wake.notify_one();
        }
    }

    /// Does as its own probes say, while nobody decides for the fleet.
    fn heed(&self, plan: &Plan) {
        let now_ms = boottime_ms();
        let found: BTreeMap<TargetKey, (Health, u64)> = {
            let rounds = lock(&self.rounds);
            let stands = rounds.stands(now_ms);
            stands.map(|it| (it.target.clone(), (it.health, it.left_ms))).collect()
        };
        let is_ill = |key: &TargetKey| {
            found.get(key).is_some_and(|(health, left_ms)| *health == Health::Ill && *left_ms > 0)
        };
        let spared = emptied(&plan.groups, is_ill);
        for (key, (health, left_ms)) in &found {
            let checked = match health {
                Health::Unknown => continue,
                Health::Ill if spared.contains(key) => Checked::Spared,
                Health::Ill => Checked::Ill { left_ms: *left_ms },
                Health::Well => Checked::Well,
            };
            if let Some(target) = self.targets.get(key) {
                target.change(|local, now_ms| local.checked(checked, now_ms));
            }
        }
    }
}
