//! How targets stand, for people and for metrics.

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_model::{Kind, ResourceRef, Violation, path::Path, resource};
use sluicegate_proto::{admin::v1 as pb, health::v1 as health};
use sluicegate_protocol::breaker::{Finding, Order, Report, State, TargetKey, Window, Word};
use sluicegate_telemetry::clock::format_unix_ms;

use super::{
    board::{Board, Kept},
    plan::Plan,
};
use crate::{error::CoreError, keys, state};

/// Which targets are asked for.
#[derive(Debug)]
pub(super) enum Wanted {
    All,
    Provider(String),
    One(TargetKey),
}

impl Wanted {
    pub(super) fn parse(text: &str, state: &state::State) -> Result<Self, CoreError> {
        if text.is_empty() {
            return Ok(Self::All);
        }
        // A provider's name may have slashes in it, as a model's may.
        let parts = text.match_indices('/').map(|(at, _)| text.split_at(at));
        let mut parts = parts.map(|(provider, rest)| (provider, rest.trim_start_matches('/')));
        let known = |provider: &str| {
            state.resources.contains_key(&ResourceRef::new(Kind::Provider, provider))
        };
        let first = parts.clone().next();
        match (parts.find(|(provider, _)| known(provider)), first) {
            (Some((provider, "*")), _) => Ok(Self::Provider(provider.to_owned())),
            (Some((provider, model)), _) if !model.is_empty() => {
                Ok(Self::One(TargetKey::new(provider, model)))
            }
            (None, Some((provider, _))) => {
                Err(state.not_found(&ResourceRef::new(Kind::Provider, provider)))
            }
            _ => {
                let violation = Violation::new(Path::root().field("target"), "is no target");
                Err(CoreError::Invalid(
                    violation.hint("write provider/model, or provider/*").into(),
                ))
            }
        }
    }

    fn has(&self, target: &TargetKey) -> bool {
        match self {
            Self::All => true,
            Self::Provider(provider) => target.provider == *provider,
            Self::One(one) => one == target,
        }
    }
}

/// What an answer is made of.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) board: &'a Board,
    pub(super) plan: &'a Plan,
    /// What the data planes of other replicas see.
    pub(super) others: &'a [Report],
    pub(super) now_ms: u64,
    pub(super) unix_ms: u64,
}

impl View<'_> {
    pub(super) fn reply(
        &self,
        wanted: &Wanted,
        leader: String,
        health: String,
    ) -> pb::BreakerStatusReply {
        let mut nodes = self.nodes();
        let mut targets: BTreeSet<&TargetKey> = self.plan.rules.keys().collect();
        targets.extend(nodes.keys().copied());
        targets.extend(self.board.all_kept().map(|kept| kept.verdict.word.target()));
        let asked = targets.into_iter().filter(|target| wanted.has(target));
        let targets =
            asked.map(|target| self.target(target, nodes.remove(target).unwrap_or_default()));
        let targets = targets.collect();
        let retries = self.plan.no_retries.as_ref();
        let retries = retries.filter(|force| lasts(force, self.unix_ms));
        pb::BreakerStatusReply {
            targets,
            leader,
            health,
            retries_off_until: retries.map(expires_at).unwrap_or_default(),
            retries_off_comment: retries.map(|force| force.comment.clone()).unwrap_or_default(),
        }
    }

    /// What is seen of each target.
    fn nodes(&self) -> BTreeMap<&TargetKey, Vec<pb::NodeView>> {
        let mut views: BTreeMap<&TargetKey, BTreeMap<&str, pb::NodeView>> = BTreeMap::new();
        for report in self.others {
            for (target, window) in &report.windows {
                let view = view(&report.node, report.zone.as_deref(), target, window);
                views.entry(target).or_default().insert(&report.node, view);
            }
        }
        for (name, node) in self.board.nodes() {
            for (target, (window, _)) in &node.windows {
                let view = view(name, node.zone.as_deref(), target, window);
                views.entry(target).or_default().insert(name, view);
            }
        }
        views.into_iter().map(|(target, nodes)| (target, nodes.into_values().collect())).collect()
    }

    /// What a data plane's health probes of a target have come to.
    fn finding(&self, node: &str, target: &TargetKey) -> Option<&Finding> {
        let here = self.board.nodes().find(|(name, _)| *name == node);
        here.and_then(|(_, known)| known.findings.get(target)).or_else(|| {
            let there = self.others.iter().filter(|report| report.node == node);
            let mut findings = there.flat_map(|report| &report.findings);
            findings.find(|(key, _)| key == target).map(|(_, finding)| finding)
        })
    }

    fn target(&self, target: &TargetKey, nodes: Vec<pb::NodeView>) -> pb::TargetStatus {
        let force = self.plan.forces.of(target, self.unix_ms);
        let kept = self.board.kept(&keys::breaker(&target.provider, &target.model));
        let kept = kept.filter(|kept| holds(kept, self.now_ms));
        let mut status = pb::TargetStatus {
            target: Some(target.to_proto()),
            state: health::State::Closed.into(),
            nodes,
            forced: force.map(|force| pb::ForcedState {
                name: force.name.clone(),
                open: matches!(force.what, resource::Forced::Breaker { open: true, .. }),
                expires_at: expires_at(force),
                comment: force.comment.clone(),
            }),
            ..pb::TargetStatus::default()
        };
        if let Some(kept) = kept {
            if let Some(prober) = &kept.verdict.prober {
                status.prober.clone_from(prober);
                let finding = self.finding(prober, target);
                status.finding = finding.map(|finding| finding.to_proto(target));
            }
            let age_ms = self.now_ms.saturating_sub(kept.at_ms);
            status.state = state_of(&kept.verdict.word).to_proto().into();
            status.since_ms = kept.verdict.since_ms.saturating_add(age_ms);
            status.strikes = kept.verdict.strikes;
            if let Word::Order(directive) = kept.verdict.word.aged(age_ms) {
                status.left_ms = match directive.order {
                    Order::Open { left_ms }
                    | Order::ForcedOpen { left_ms }
                    | Order::ForcedClosed { left_ms } => left_ms,
                    Order::HalfOpen | Order::Ramp { .. } | Order::Ill { .. } => 0,
                };
                status.reason = match directive.order {
                    Order::Ramp { percent } => {
                        format!("{}; it gets {percent} % of its traffic", directive.reason)
                    }
                    _ => directive.reason,
                };
            }
        }
        status
    }
}

/// The state of every target that is known.
pub(super) fn states(board: &Board, plan: &Plan, now_ms: u64) -> Vec<(String, String, State)> {
    let mut states: BTreeMap<&TargetKey, State> =
        plan.rules.keys().map(|target| (target, State::Closed)).collect();
    for kept in board.all_kept().filter(|kept| holds(kept, now_ms)) {
        states.insert(kept.verdict.word.target(), state_of(&kept.verdict.word));
    }
    let named = |(target, state): (&TargetKey, State)| {
        (target.provider.clone(), target.model.clone(), state)
    };
    states.into_iter().map(named).collect()
}

/// Does what was said last still hold?
fn holds(kept: &Kept, now_ms: u64) -> bool {
    match &kept.verdict.word {
        Word::Withdrawn { .. } => true,
        Word::Order(directive) => now_ms.saturating_sub(kept.at_ms) < directive.ttl_ms,
    }
}

fn state_of(word: &Word) -> State {
    let Word::Order(directive) = word else { return State::Closed };
    match directive.order {
        Order::Open { .. } | Order::ForcedOpen { .. } | Order::Ill { .. } => State::Open,
        Order::HalfOpen => State::HalfOpen,
        Order::Ramp { .. } => State::Ramping,
        Order::ForcedClosed { .. } => State::Closed,
    }
}

fn view(node: &str, zone: Option<&str>, target: &TargetKey, window: &Window) -> pb::NodeView {
    pb::NodeView {
        node_id: node.to_owned(),
        zone: zone.unwrap_or_default().to_owned(),
        window: Some(window.to_proto(target)),
    }
}

fn lasts(force: &resource::Force, unix_ms: u64) -> bool {
    force.expires_unix_ms.is_none_or(|end_ms| end_ms > unix_ms)
}

fn expires_at(force: &resource::Force) -> String {
    force.expires_unix_ms.map(format_unix_ms).unwrap_or_default()
}
