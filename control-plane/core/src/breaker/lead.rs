//! What the replica does that decides for the fleet. Takes the time; does no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sluicegate_protocol::breaker::{
    Action, Directive, Fleet, Forced, Grant, Order, Reason, Report, Rules, State, TargetKey, Word,
};

use super::{plan::Plan, verdict::Verdict};

/// A force without an end is said again after so long.
const FORCE_AGAIN_MS: u64 = 86_400_000;
/// Who sends health probes is said again after so long.
const PROBER_AGAIN_MS: u64 = 10_000;
/// Time to hear of all data planes, before a new leader chooses among them who sends health probes.
const HEARD_MS: u64 = 4_000;

/// The fleet's merger, and what it has said.
#[derive(Debug)]
pub(super) struct Lead {
    fleet: Fleet,
    plan: Arc<Plan>,
    forced: BTreeMap<TargetKey, Applied>,
    said: BTreeMap<TargetKey, Said>,
    unwritten: BTreeSet<TargetKey>,
    begun_ms: u64,
}

/// What was said of a target last.
#[derive(Debug)]
struct Said {
    word: Word,
    grant: Option<Grant>,
    /// Since when it is the same in kind.
    since_ms: u64,
    /// Who sends its health probes, and when that was said.
    prober: Option<String>,
    asked_ms: u64,
}

impl Said {
    fn new(word: Word, since_ms: u64) -> Self {
        Self { word, grant: None, since_ms, prober: None, asked_ms: 0 }
    }
}

/// A force that was taken over.
#[derive(Debug, PartialEq, Eq)]
struct Applied {
    open: bool,
    comment: String,
    end_unix_ms: Option<u64>,
    at_ms: u64,
}

impl Lead {
    /// Takes over where another left off: what it had said, and how long ago.
    pub(super) fn begin(
        plan: Arc<Plan>,
        kept: Vec<(Verdict, u64)>,
        seed: u64,
        now_ms: u64,
    ) -> Self {
        let mut fleet = Fleet::new(Arc::new(Rules::default()), seed);
        fleet.set_rules(Arc::new(Rules::default()), plan.rules.clone());
        fleet.set_groups(plan.groups.clone());
        fleet.set_checks(plan.checks.clone());
        let mut said = BTreeMap::new();
        let (mut directives, mut forced) = (Vec::new(), BTreeMap::new());
        for (verdict, age_ms) in kept {
            let word = verdict.word.aged(age_ms);
            fleet.heard_of(word.generation());
            if let Some(grant) = &verdict.grant {
                fleet.heard_of(grant.generation);
            }
            if let Word::Order(directive) = &word {
                if let Order::ForcedOpen { .. } | Order::ForcedClosed { .. } = directive.order {
                    // Taken back at once unless it is still configured.
                    forced.insert(directive.target.clone(), Applied::unknown(directive));
                }
                directives.push(directive.clone());
            }
            let since_ms = now_ms.saturating_sub(verdict.since_ms.saturating_add(age_ms));
            if let Some(prober) = &verdict.prober {
                fleet.resume_prober(word.target(), prober);
            }
            let (prober, asked_ms) = (verdict.prober, now_ms.saturating_sub(age_ms));
            let target = word.target().clone();
            said.insert(target, Said { prober, asked_ms, ..Said::new(word, since_ms) });
        }
        fleet.resume(&directives, now_ms);
        Self { fleet, plan, forced, said, unwritten: BTreeSet::new(), begun_ms: now_ms }
    }

    /// The configuration changed.
    pub(super) fn follow(&mut self, plan: Arc<Plan>) {
        self.fleet.set_rules(Arc::new(Rules::default()), plan.rules.clone());
        self.fleet.set_groups(plan.groups.clone());
        self.fleet.set_checks(plan.checks.clone());
        self.plan = plan;
    }

    /// A data plane told something, here or to another replica.
    pub(super) fn report(&mut self, report: &Report, now_ms: u64) {
        let zone = report.zone.as_deref();
        if report.checks
            && let Err(reason) = self.fleet.heartbeat(&report.node, zone, true, now_ms)
        {
            tracing::debug!(node = report.node, %reason, "a data plane is not counted");
        }
        for (target, finding) in &report.findings {
            self.fleet.finding(&report.node, target, finding, now_ms);
        }
        for (target, window) in &report.windows {
            let taken = self.fleet.report(&report.node, zone, target, window.clone(), now_ms);
            if let Err(reason) = taken {
                tracing::debug!(node = report.node, %target, %reason, "a report is not counted");
            }
        }
        for (target, result) in &report.probes {
            self.fleet.probe_result(target, result.generation, result.probe);
        }
    }

    /// Draws the conclusions: what is to be written. It is to be confirmed by [`Lead::written`].
    pub(super) fn tick(&mut self, now_ms: u64, unix_ms: u64) -> Vec<Verdict> {
        self.force(now_ms, unix_ms);
        for action in self.fleet.tick(now_ms) {
            match action {
                Action::Publish(directive) => self.say(Word::Order(directive), now_ms),
                Action::Withdraw { target, generation } => {
                    self.say(Word::Withdrawn { target, generation }, now_ms);
                }
                Action::Grant(grant) => self.grant(grant, now_ms),
            }
        }
        self.share_out(now_ms);
        if self.unwritten.is_empty() {
            return Vec::new();
        }
        let strikes: BTreeMap<_, _> = self
            .fleet
            .standings(now_ms)
            .filter(|standing| self.unwritten.contains(&standing.target))
            .map(|standing| (standing.target, standing.strikes))
            .collect();
        let nodes = self.fleet.nodes();
        let verdicts = self.unwritten.iter().filter_map(|target| {
            let said = self.said.get(target)?;
            Some(Verdict {
                word: said.word.clone(),
                grant: said.grant.clone(),
                nodes,
                strikes: strikes.get(target).copied().unwrap_or(0),
                since_ms: now_ms.saturating_sub(said.since_ms),
                prober: said.prober.clone(),
            })
        });
        verdicts.collect()
    }

    /// This is in the store now.
    pub(super) fn written(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let target = verdict.word.target();
            self.unwritten.remove(target);
            if let Some(said) = self.said.get_mut(target) {
                said.grant = None;
                if matches!(said.word, Word::Withdrawn { .. }) && said.prober.is_none() {
                    self.said.remove(target);
                }
            }
        }
    }

    /// When the next open time is over, in milliseconds from now.
    pub(super) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let open = self.fleet.standings(now_ms).filter(|standing| {
            // What is ill is not waited for: a report says when it is well.
            standing.state == State::Open && standing.reason != Reason::Ill
        });
        open.map(|standing| standing.left_ms).min()
    }

    fn say(&mut self, word: Word, now_ms: u64) {
        let target = word.target().clone();
        let before = self.said.get(&target);
        let same = before.is_some_and(|said| kind(&said.word) == kind(&word));
        let since_ms = before.filter(|_| same).map_or(now_ms, |said| said.since_ms);
        if !same {
            told(&word);
        }
        self.unwritten.insert(target.clone());
        let (prober, asked_ms) =
            before.map_or((None, 0), |said| (said.prober.clone(), said.asked_ms));
        self.said.insert(target, Said { prober, asked_ms, ..Said::new(word, since_ms) });
    }

    /// Chooses who sends health probes, and says so: at once where it is another, else again and again.
    fn share_out(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.begun_ms) >= HEARD_MS {
            self.fleet.assign_checks();
        }
        for (target, said) in &mut self.said {
            // Its health probes were taken out of the configuration.
            if said.prober.is_some() && self.fleet.prober(target).is_none() {
                said.prober = None;
                self.unwritten.insert(target.clone());
            }
        }
        for (target, prober) in self.fleet.probers() {
            let said = self.said.entry(target.clone()).or_insert_with(|| {
                Said::new(Word::Withdrawn { target: target.clone(), generation: 0 }, now_ms)
            });
            let same = said.prober.as_deref() == Some(prober);
            if same && now_ms.saturating_sub(said.asked_ms) < PROBER_AGAIN_MS {
                continue;
            }
            if !same {
                tracing::info!(%target, node = prober, "a data plane sends a target's health probes");
            }
            said.prober = Some(prober.to_owned());
            said.asked_ms = now_ms;
            self.unwritten.insert(target.clone());
        }
    }

    fn grant(&mut self, grant: Grant, now_ms: u64) {
        let target = grant.target.clone();
        tracing::debug!(%target, node = grant.node, "a data plane has leave to probe");
        let said = self.said.entry(target.clone()).or_insert_with(|| {
            Said::new(Word::Withdrawn { target: target.clone(), generation: 0 }, now_ms)
        });
        said.grant = Some(grant);
        self.unwritten.insert(target);
    }

    /// Does what operators want now, and no more what they wanted.
    fn force(&mut self, now_ms: u64, unix_ms: u64) {
        let plan = self.plan.clone();
        let gone = |target: &TargetKey| plan.forces.of(target, unix_ms).is_none();
        let over: Vec<_> = self.forced.keys().filter(|target| gone(target)).cloned().collect();
        for target in over {
            self.forced.remove(&target);
            self.fleet.unforce(&target, now_ms);
        }
        if plan.forces.is_empty() {
            return;
        }
        for target in plan.rules.keys() {
            let (Some(force), Some(forced)) =
                (plan.forces.of(target, unix_ms), plan.forces.forced(target, unix_ms))
            else {
                continue;
            };
            let Forced { open, comment, .. } = forced.clone();
            let end_unix_ms = force.expires_unix_ms;
            let known = self.forced.get(target).is_some_and(|applied| {
                (applied.open, &applied.comment, applied.end_unix_ms)
                    == (open, &comment, end_unix_ms)
                    && (end_unix_ms.is_some()
                        || now_ms.saturating_sub(applied.at_ms) < FORCE_AGAIN_MS)
            });
            if known {
                continue;
            }
            if let Err(reason) = self.fleet.force(target, forced, now_ms) {
                tracing::warn!(%target, %reason, "a force cannot be done");
                continue;
            }
            let applied = Applied { open, comment, end_unix_ms, at_ms: now_ms };
            self.forced.insert(target.clone(), applied);
        }
    }
}

impl Applied {
    /// What another replica had taken over.
    fn unknown(directive: &Directive) -> Self {
        let open = matches!(directive.order, Order::ForcedOpen { .. });
        Self { open, comment: directive.reason.clone(), end_unix_ms: Some(0), at_ms: 0 }
    }
}

/// What it is, apart from its numbers.
pub(super) fn kind(word: &Word) -> &'static str {
    match word {
        Word::Withdrawn { .. } => "closed",
        Word::Order(directive) => match directive.order {
            Order::Open { .. } => "open",
            Order::HalfOpen => "half_open",
            Order::Ramp { .. } => "ramping",
            Order::ForcedOpen { .. } => "forced_open",
            Order::ForcedClosed { .. } => "forced_closed",
            Order::Ill { .. } => "ill",
        },
    }
}

fn told(word: &Word) {
    let TargetKey { provider, model } = word.target();
    let to = kind(word);
    let generation = word.generation();
    match word {
        Word::Withdrawn { .. } => {
            tracing::info!(provider, model, to, generation, "the fleet uses a target again");
        }
        Word::Order(Directive { reason, .. }) if to.ends_with("open") || to == "ill" => {
            tracing::warn!(
                provider,
                model,
                to,
                generation,
                reason,
                "the fleet leaves a target alone"
            );
        }
        Word::Order(Directive { reason, .. }) => {
            tracing::info!(
                provider,
                model,
                to,
                generation,
                reason,
                "the fleet decides on a target"
            );
        }
    }
}

#[cfg(test)]
mod tests;
