//! What one replica knows: what its data planes tell, and what is said to all. Takes the time; does no
//! I/O.

use std::collections::{BTreeMap, VecDeque};

use prost::Message;
use sluicegate_proto::health::v1 as pb;
use sluicegate_protocol::breaker::{
    Blocked, Check, Finding, Fingerprint, Grant, Poison, ProbeResult, Report, TargetKey, Window,
    Word,
};
use sluicegate_store::Revision;

use super::verdict::Verdict;

/// A window that is older is not told to other replicas: its data plane would have made another.
const FRESH_MS: u64 = 2_500;
/// A data plane that says nothing for so long is forgotten.
const SILENT_MS: u64 = 5_000;
/// Other replicas are told of a probe's end for so long.
const PROBE_MS: u64 = 5_000;
/// Most ends of probes that are told.
const MAX_PROBES: usize = 1_000;
/// Most data planes of one replica, and most windows of all of them.
const MAX_NODES: usize = 10_000;
const MAX_WINDOWS: usize = 250_000;
/// Most findings of all data planes of one replica.
const MAX_FINDINGS: usize = 100_000;
/// A data plane sends the health probes that it was told to for so long. It is said again every ten
/// seconds.
const CHECK_MS: u64 = 30_000;

/// What one replica knows.
#[derive(Debug, Default)]
pub(super) struct Board {
    nodes: BTreeMap<String, Node>,
    windows: usize,
    findings: usize,
    probes: VecDeque<(String, TargetKey, ProbeResult, u64)>,
    /// By key in the store.
    kept: BTreeMap<String, Kept>,
    /// Requests that this replica's data planes found themselves.
    found: Poison,
    /// All that are blocked, with the version that told of each.
    blocked: Poison,
    blocked_at: BTreeMap<Fingerprint, u64>,
    /// Grows with everything that data planes are to be told.
    pub(super) version: u64,
    number: u64,
}

/// What a data plane told last.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) zone: Option<String>,
    pub(super) windows: BTreeMap<TargetKey, (Window, u64)>,
    /// What its health probes have come to.
    pub(super) findings: BTreeMap<TargetKey, Finding>,
    /// It sends health probes where it is told to.
    checks: bool,
    seen_ms: u64,
}

/// A verdict, and when it came.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) verdict: Verdict,
    pub(super) revision: Revision,
    pub(super) at_ms: u64,
    version: u64,
    /// The version that told of its word and its prober as they are.
    told: u64,
    /// The newest grant, which a verdict without one does not end.
    grant: Option<(Grant, u64)>,
}

/// What data planes are to be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    pub words: Vec<Word>,
    pub grants: Vec<Grant>,
    pub blocked: Vec<Blocked>,
    pub checks: Vec<Check>,
}

impl Board {
    /// Takes in what a data plane tells. `true`: it tells of a change.
    pub(super) fn report(&mut self, report: &Report, now_ms: u64) -> bool {
        let mut changed = !report.probes.is_empty();
        for (target, result) in &report.probes {
            self.probes.push_back((report.node.clone(), target.clone(), *result, now_ms));
        }
        while self.probes.len() > MAX_PROBES {
            self.probes.pop_front();
        }
        for blocked in &report.blocked {
            self.found.merge(*blocked, now_ms);
        }
        self.block(&report.blocked, now_ms);
        if !self.nodes.contains_key(&report.node) && self.nodes.len() >= MAX_NODES {
            return changed;
        }
        let node = self.nodes.entry(report.node.clone()).or_insert_with(|| Node {
            zone: None,
            windows: BTreeMap::new(),
            findings: BTreeMap::new(),
            checks: false,
            seen_ms: now_ms,
        });
        node.zone.clone_from(&report.zone);
        node.checks = report.checks;
        node.seen_ms = now_ms;
        // All that a data plane has found is in each of its reports.
        self.findings -= node.findings.len();
        let room = MAX_FINDINGS - self.findings;
        let findings = report.findings.iter().take(room).cloned().collect();
        let before = std::mem::replace(&mut node.findings, findings);
        self.findings += node.findings.len();
        changed |= node.findings.iter().any(|(target, finding)| {
            before.get(target).is_none_or(|known| known.health != finding.health)
        });
        for (target, window) in &report.windows {
            match node.windows.get_mut(target) {
                Some(known) => {
                    changed |= known.0.state != window.state || known.0.own != window.own;
                    *known = (window.clone(), now_ms);
                }
                None if self.windows < MAX_WINDOWS => {
                    self.windows += 1;
                    changed = true;
                    node.windows.insert(target.clone(), (window.clone(), now_ms));
                }
                None => {}
            }
        }
        changed
    }

    /// Requests are blocked that somebody found.
    pub(super) fn block(&mut self, blocked: &[Blocked], now_ms: u64) {
        for one in blocked {
            let known = self.blocked.check(one.fingerprint, now_ms).is_err();
            self.blocked.merge(*one, now_ms);
            if !known {
                self.version += 1;
                self.blocked_at.insert(one.fingerprint, self.version);
            }
        }
    }

    /// The store says how a target stands.
    pub(super) fn learn(&mut self, key: &str, verdict: Verdict, revision: Revision, now_ms: u64) {
        self.version += 1;
        let before = self.kept.get(key);
        let grant = match &verdict.grant {
            Some(grant) => Some((grant.clone(), now_ms)),
            None => before.and_then(|kept| kept.grant.clone()),
        };
        let version = self.version;
        let same = before.filter(|kept| {
            matches!(verdict.word, Word::Withdrawn { .. })
                && kept.verdict.word == verdict.word
                && kept.verdict.prober == verdict.prober
        });
        // That nothing has changed is news to nobody but whoever sends its probes.
        let told = same.map_or(version, |kept| kept.told);
        let kept = Kept { verdict, revision, at_ms: now_ms, version, told, grant };
        self.kept.insert(key.to_owned(), kept);
    }

    /// The store says nothing of a target any more.
    pub(super) fn forget(&mut self, key: &str) {
        self.kept.remove(key);
    }

    /// The store was read anew: what is not in it is forgotten.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.kept.retain(|key, _| wanted(key));
    }

    pub(super) fn kept(&self, key: &str) -> Option<&Kept> {
        self.kept.get(key)
    }

    pub(super) fn all_kept(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }

    /// Drops what is over.
    pub(super) fn tidy(&mut self, now_ms: u64) {
        let lives = |at_ms: u64, ms: u64| now_ms.saturating_sub(at_ms) < ms;
        self.probes.retain(|(.., at_ms)| lives(*at_ms, PROBE_MS));
        self.nodes.retain(|_, node| lives(node.seen_ms, SILENT_MS));
        for node in self.nodes.values_mut() {
            node.windows.retain(|_, (_, at_ms)| lives(*at_ms, SILENT_MS));
        }
        self.windows = self.nodes.values().map(|node| node.windows.len()).sum();
        self.findings = self.nodes.values().map(|node| node.findings.len()).sum();
        let blocked = &self.blocked;
        self.blocked_at.retain(|fingerprint, _| blocked.check(*fingerprint, now_ms).is_err());
    }

    /// What a data plane is to be told since a version (0: everything).
    pub(super) fn since(&self, version: u64, node: &str, now_ms: u64) -> News {
        let mut news = News::default();
        for kept in self.kept.values().filter(|kept| kept.version > version) {
            let age_ms = now_ms.saturating_sub(kept.at_ms);
            let word = kept.verdict.word.aged(age_ms);
            match &word {
                // It holds no more.
                Word::Order(directive) if directive.ttl_ms == 0 => {}
                _ if kept.told <= version => {}
                _ => news.words.push(word),
            }
            let target = kept.verdict.word.target();
            match kept.verdict.prober.as_deref() {
                Some(prober) if prober == node => {
                    let ttl_ms = CHECK_MS.saturating_sub(age_ms);
                    news.checks.push(Check { target: target.clone(), ttl_ms });
                }
                // It may have been this one's before.
                Some(_) if kept.told > version => {
                    news.checks.push(Check { target: target.clone(), ttl_ms: 0 });
                }
                _ => {}
            }
            let mine = kept.grant.as_ref().filter(|(grant, _)| grant.node == node);
            if let Some((grant, at_ms)) = mine {
                let age_ms = now_ms.saturating_sub(*at_ms);
                if age_ms < grant.deadline_ms / 4 {
                    let deadline_ms = grant.deadline_ms - age_ms;
                    news.grants.push(Grant { deadline_ms, ..grant.clone() });
                }
            }
        }
        let told = |fingerprint: &Fingerprint| {
            self.blocked_at.get(fingerprint).is_some_and(|at| *at > version)
        };
        news.blocked = self.blocked.all(now_ms);
        news.blocked.retain(|blocked| told(&blocked.fingerprint));
        news
    }

    /// What this replica's data planes see.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// What this replica's data planes told lately, for other replicas; what is open comes first.
    pub(super) fn reports(&self, now_ms: u64) -> Vec<Report> {
        let mut reports: BTreeMap<&str, Report> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let fresh = node
                .windows
                .iter()
                .filter(|(_, (_, at_ms))| now_ms - at_ms.min(&now_ms) < FRESH_MS);
            let mut windows: Vec<_> =
                fresh.map(|(target, (window, _))| (target.clone(), window.clone())).collect();
            windows.sort_by_key(|(_, window)| std::cmp::Reverse(window.state));
            let tells = now_ms.saturating_sub(node.seen_ms) < FRESH_MS;
            let findings = node.findings.iter().filter(|_| tells);
            let report = Report {
                node: name.clone(),
                zone: node.zone.clone(),
                windows,
                findings: findings.map(|(key, finding)| (key.clone(), finding.clone())).collect(),
                checks: node.checks && tells,
                ..Report::default()
            };
            reports.insert(name, report);
        }
        for (name, target, result, _) in &self.probes {
            if let Some(report) = reports.get_mut(name.as_str()) {
                report.probes.push((target.clone(), *result));
            }
        }
        let mut reports: Vec<_> = reports.into_values().collect();
        reports.retain(|report| {
            // One that can send health probes tells that it is there, too.
            report.checks || !report.windows.is_empty() || !report.probes.is_empty()
        });
        let found = self.found.all(now_ms);
        if let Some(first) = self.nodes.first_key_value().filter(|_| !found.is_empty()) {
            // Whose it was does not matter.
            let node = first.0.clone();
            reports.push(Report { node, blocked: found, ..Report::default() });
        }
        reports
    }

    /// The same as a note of at most so many bytes; `None`: there is nothing to tell.
    pub(super) fn note(&mut self, most: usize, now_ms: u64) -> Option<Vec<u8>> {
        let reports = self.reports(now_ms);
        if reports.is_empty() {
            return None;
        }
        self.number += 1;
        let mut seen = pb::Seen { number: self.number, reports: Vec::new() };
        let mut size = 0;
        let mut left_out = 0;
        for report in reports {
            let mut wire = report.to_proto();
            while size + wire.encoded_len() + 16 > most && !wire.windows.is_empty() {
                // Those at the end are closed.
                let kept = wire.windows.len() / 2;
                left_out += wire.windows.len() - kept;
                wire.windows.truncate(kept);
            }
            size += wire.encoded_len() + 16;
            if size <= most {
                seen.reports.push(wire);
            }
        }
        if left_out > 0 {
            tracing::warn!(windows = left_out, "too much to tell other replicas: some is left out");
        }
        Some(seen.encode_to_vec())
    }
}

#[cfg(test)]
mod tests;
