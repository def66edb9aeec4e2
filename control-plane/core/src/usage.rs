//! What data planes have used: checks their reports, adds them up by day and names, and has the
//! ledger count each report once.

mod days;
pub mod query;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use sluicegate_model::{Violation, Violations, name::MAX_MODEL_NAME, path::Path};
use sluicegate_proto::usage::v1 as pb;
use sluicegate_store::ledger::{
    Day, Ledger, MAX_AMOUNT, UsageBatch, UsageCounts, UsageNames, UsageRow,
};

use crate::{error::CoreError, ledger_clock::LedgerClock};

/// Events in one batch, at most.
const MAX_EVENTS: usize = 1_000;
/// Longest name of a data plane, in bytes, so that the text of a source stays below 256.
const MAX_NODE: usize = 238;
/// Longest name that is counted by, in bytes: that of a model, in characters of four bytes.
const MAX_TEXT: usize = MAX_MODEL_NAME * 4;

/// Sources whose cursors are remembered, at most.
const MAX_KNOWN: usize = 4_096;

/// Takes reports.
#[derive(Debug)]
pub struct Usage {
    ledger: Arc<dyn Ledger>,
    clock: Arc<LedgerClock>,
    /// How far each source is counted, as far as this replica has seen. It only tells repetitions
    /// apart for the metrics: what counts once is decided by the ledger.
    known: Mutex<HashMap<String, u64>>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub ack: pb::UsageAck,
    /// Events of it that are counted, now or before.
    pub events: u64,
    /// Events that the source no longer has and that were never counted.
    pub lost: u64,
    /// It had been counted before, as a whole, as far as this replica has seen.
    pub duplicate: bool,
}

impl Usage {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<LedgerClock>) -> Self {
        Self { ledger, clock, known: Mutex::default() }
    }

    /// Counts a report, unless it was counted.
    ///
    /// # Errors
    /// [`CoreError::Invalid`] when it is none that a data plane makes; [`CoreError::Store`] when the
    /// ledger does not answer: then it may be counted or not, and is to be sent again.
    pub async fn report(&self, report: &pb::UsageBatch) -> Result<Taken, CoreError> {
        let last_seq = check(report)?;
        let now_ms = if report.events.is_empty() { 0 } else { self.clock.now_ms().await? };
        let batch = UsageBatch {
            source: format!("{}/{:016x}", report.node_id, report.source),
            first_seq: report.first_seq,
            last_seq,
            nothing_before: report.nothing_before,
            rows: rows(&report.events, now_ms),
        };
        let counted = self.ledger.count(&batch).await?;
        if counted.lost > 0 {
            tracing::error!(
                node = report.node_id,
                source = batch.source,
                events = counted.lost,
                "usage is lost: a data plane no longer has events that were never counted"
            );
        }
        let refused = counted.resend_from.is_some();
        let events = if refused { 0 } else { report.events.len() as u64 };
        let before = self.remember(batch.source, counted.applied_through);
        Ok(Taken {
            events,
            lost: counted.lost,
            duplicate: events > 0 && before >= last_seq,
            ack: pb::UsageAck {
                applied_through: counted.applied_through,
                resend_from: counted.resend_from.unwrap_or(0),
                durable: counted.durable,
                store: counted.store,
                pause_ms: 0,
            },
        })
    }
}

impl Usage {
    /// Notes how far a source is counted; gives how far it was known to be.
    fn remember(&self, source: String, applied_through: u64) -> u64 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN && !known.contains_key(&source) {
            known.clear();
        }
        // A store that falls back asks for events again, and counts them again.
        known.insert(source, applied_through).unwrap_or(0)
    }
}

/// Checks a report; gives the number of its last event.
fn check(report: &pb::UsageBatch) -> Result<u64, Violations> {
    let mut found = Violations::default();
    let mut add = |path: Path, what: &str, hint: String| {
        found.0.push(Violation::new(path, what).hint(hint));
    };
    if report.node_id.is_empty() || report.node_id.len() > MAX_NODE {
        let path = Path::root().field("node_id");
        add(path, "names no data plane", format!("use 1 to {MAX_NODE} bytes"));
    }
    if report.events.len() > MAX_EVENTS {
        let path = Path::root().field("events");
        add(path, "holds too many events", format!("send at most {MAX_EVENTS} at once"));
    }
    let last_seq = report
        .first_seq
        .checked_sub(1)
        .and_then(|before| before.checked_add(report.events.len() as u64))
        .filter(|last| *last <= MAX_AMOUNT);
    if last_seq.is_none() {
        let path = Path::root().field("first_seq");
        add(path, "is no number of an event", format!("count from 1 to {MAX_AMOUNT}"));
    }
    for (index, event) in report.events.iter().enumerate().take(MAX_EVENTS) {
        let names = [
            ("tenant", &event.tenant),
            ("key", &event.key),
            ("model", &event.model),
            ("provider", &event.provider),
            ("credential", &event.credential),
        ];
        for (field, text) in names {
            if text.len() > MAX_TEXT {
                let path = Path::root().field("events").index(index).field(field);
                add(path, "is too long", format!("use at most {MAX_TEXT} bytes"));
            }
        }
    }
    found.or(last_seq.unwrap_or(0))
}

/// The events added up by day and names.
fn rows(events: &[pb::UsageEvent], now_ms: u64) -> Vec<UsageRow> {
    let mut sums: BTreeMap<(Day, UsageNames), UsageCounts> = BTreeMap::new();
    for event in events {
        let day = days::of(now_ms.saturating_sub(event.age_ms));
        let names = UsageNames {
            tenant: event.tenant.clone(),
            key: event.key.clone(),
            model: event.model.clone(),
            provider: event.provider.clone(),
            credential: event.credential.clone(),
        };
        let estimated = event.basis() == pb::Basis::Estimated;
        let counts = UsageCounts {
            requests: 1,
            estimated: u64::from(estimated),
            input_tokens: event.input_tokens,
            output_tokens: event.output_tokens,
            cached_tokens: event.cached_tokens,
            reasoning_tokens: event.reasoning_tokens,
            micro_units: event.micro_units,
            cost_nano: event.cost_nano,
        };
        add(sums.entry((day, names)).or_default(), &counts, MAX_AMOUNT);
    }
    let row = |((day, names), counts)| UsageRow { day, names, counts };
    sums.into_iter().map(row).collect()
}

/// Adds counts, each at most `most`: a number beyond it is no count but a fault of its source.
fn add(sum: &mut UsageCounts, more: &UsageCounts, most: u64) {
    let pairs = [
        (&mut sum.requests, more.requests),
        (&mut sum.estimated, more.estimated),
        (&mut sum.input_tokens, more.input_tokens),
        (&mut sum.output_tokens, more.output_tokens),
        (&mut sum.cached_tokens, more.cached_tokens),
        (&mut sum.reasoning_tokens, more.reasoning_tokens),
        (&mut sum.micro_units, more.micro_units),
        (&mut sum.cost_nano, more.cost_nano),
    ];
    for (sum, more) in pairs {
        *sum = sum.saturating_add(more).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(model: &str, age_ms: u64, tokens: u64, basis: pb::Basis) -> pb::UsageEvent {
        pb::UsageEvent {
            model: model.into(),
            age_ms,
            input_tokens: tokens,
            basis: basis.into(),
            ..pb::UsageEvent::default()
        }
    }

    #[test]
    fn d4_events_are_added_up_by_day_and_names() {
        // A minute after midnight.
        let now_ms = 1_790_035_260_000;
        let events = [
            event("a", 0, 1, pb::Basis::Reported),
            event("a", 30_000, 2, pb::Basis::Estimated),
            event("a", 90_000, 4, pb::Basis::Reported),
            event("b", 0, 8, pb::Basis::Reported),
            event("b", u64::MAX, u64::MAX, pb::Basis::Reported),
        ];
        let shown = |row: &UsageRow| {
            let counts = &row.counts;
            let (day, model) = (row.day.to_string(), row.names.model.clone());
            (day, model, counts.requests, counts.estimated, counts.input_tokens)
        };
        let found: Vec<_> = rows(&events, now_ms).iter().map(shown).collect();
        let row = |day: &str, model: &str, requests, estimated, tokens| {
            (day.to_owned(), model.to_owned(), requests, estimated, tokens)
        };
        assert_eq!(
            found,
            [
                row("1970-01-01", "b", 1, 0, MAX_AMOUNT),
                row("2026-09-21", "a", 1, 0, 4),
                row("2026-09-22", "a", 2, 1, 3),
                row("2026-09-22", "b", 1, 0, 8),
            ]
        );
    }

    #[test]
    fn d4_bad_reports_are_refused() {
        let report = |node: &str, first_seq, events| pb::UsageBatch {
            node_id: node.into(),
            first_seq,
            events,
            ..pb::UsageBatch::default()
        };
        let good = event("m", 0, 1, pb::Basis::Reported);
        assert_eq!(check(&report("n", 5, vec![good.clone(); 3])), Ok(7));
        assert_eq!(check(&report("n", 1, Vec::new())), Ok(0));
        let long = event(&"x".repeat(MAX_TEXT + 1), 0, 1, pb::Basis::Reported);
        for (report, place) in [
            (report("", 1, Vec::new()), "node_id"),
            (report("n", 0, Vec::new()), "first_seq"),
            (report("n", u64::MAX, vec![good.clone(); 2]), "first_seq"),
            (report("n", 1, vec![good.clone(); 1_001]), "events"),
            (report("n", 1, vec![good, long]), "events[1].model"),
        ] {
            let found = check(&report).unwrap_err();
            assert_eq!(found.0[0].path.to_string(), place, "{found}");
        }
    }
}
