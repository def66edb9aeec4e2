//! Holds an exchange against its expectations.

mod reply;
mod timing;
mod upstream;

use std::collections::BTreeMap;

use sluicegate_testkit::record::AccessRecord;

use crate::expect::{Expect, RecordExpect, UsageExpect};
use crate::findings::Findings;
use crate::play::Played;
use crate::script::Script;
use crate::table::{Cell, Exchange};

/// Adds everything that is wrong with an exchange.
pub(crate) fn exchange(
    cell: &Cell,
    exchange: &Exchange,
    script: &Script,
    played: &Played,
    findings: &mut Findings,
) {
    let expect = &exchange.expect;
    reply::judge(cell, expect, script, &played.reply, findings);
    timing::judge(&expect.timing, played, findings);
    if exchange.parallel {
        return;
    }
    upstream::judge(&expect.upstream, succeeds(expect), played, findings);
    if let Some(found) = &played.record {
        record(&expect.record, succeeds(expect), found, played.calls.len(), findings);
    }
}

/// Adds what is wrong with exchanges that ran at once, which led to so many upstream calls.
pub(crate) fn together(
    exchange: &Exchange,
    played: &[Played],
    calls: usize,
    findings: &mut Findings,
) {
    let expect = &exchange.expect;
    if expect.statuses.is_empty() {
        return;
    }
    let mut statuses = BTreeMap::new();
    for played in played {
        *statuses.entry(played.reply.status.unwrap_or_default()).or_insert(0) += 1;
    }
    findings.equal("number of each status", &statuses, &expect.statuses);
    if let Some((fewest, most)) = expect.upstream.calls {
        findings.check((fewest..=most).contains(&calls), || {
            format!("{calls} upstream calls in all, expected {fewest} to {most}")
        });
    }
}

/// Whether the access record matters.
pub(crate) fn wants_record(expect: &Expect) -> bool {
    let record = &expect.record;
    let asked = !record.outcome.is_empty()
        || record.status.is_some()
        || record.usage.is_some()
        || record.attempts.is_some()
        || record.attempts_are_calls
        || record.attempt_outcomes.is_some()
        || !record.lacks.is_empty();
    !record.skip && (succeeds(expect) || asked)
}

/// Whether a model answers.
fn succeeds(expect: &Expect) -> bool {
    expect.stream.is_some() || expect.answer.is_some()
}

fn record(
    expect: &RecordExpect,
    success: bool,
    record: &AccessRecord,
    calls: usize,
    findings: &mut Findings,
) {
    let outcomes: Vec<&str> = match expect.outcome.as_slice() {
        [] if success => vec!["success"],
        outcomes => outcomes.iter().map(String::as_str).collect(),
    };
    if !outcomes.is_empty() {
        findings.check(outcomes.contains(&record.outcome.as_str()), || {
            format!("the recorded outcome is {:?}, expected {outcomes:?}", record.outcome)
        });
    }
    if let Some(expected) = expect.status {
        findings.equal("recorded status", record.status, Some(expected));
    }
    if let Some(expected) = expect.usage.or(success.then_some(UsageExpect::Is(7, 2))) {
        let usage = record.usage.unwrap_or_default();
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let holds = match expected {
            UsageExpect::Is(i, o) => (input, output) == (i, o) && !usage.estimated,
            UsageExpect::Estimated(fewest, most) => {
                input > 0 && (fewest..=most).contains(&output) && usage.estimated
            }
            UsageExpect::Nonzero => input > 0 && output > 0,
            UsageExpect::Zero => (input, output) == (0, 0),
        };
        findings.check(holds, || {
            format!("the recorded usage is {:?}, expected {expected:?}", record.usage)
        });
    }
    if let Some(expected) = &expect.finish_reason {
        findings.equal("recorded finish reason", record.finish_reason.as_ref(), Some(expected));
    }
    if let Some(expected) = expect.attempts {
        findings.equal("recorded number of attempts", record.attempts.len(), expected);
    }
    if expect.attempts_are_calls {
        findings.equal("recorded number of attempts", record.attempts.len(), calls);
    }
    if let Some(outcomes) = &expect.attempt_outcomes {
        let recorded: Vec<_> = record.attempts.iter().map(|attempt| &attempt.outcome).collect();
        findings.equal("recorded outcomes of attempts", recorded, outcomes.iter().collect());
    }
    if let Some(least) = expect.first_event_at_least_ms {
        findings.check(record.latency_ms.first_event.is_some_and(|ms| ms >= least), || {
            format!("the recorded latency is {:?}, first event after {least}", record.latency_ms)
        });
    }
    // The caller's own address is no secret of the gateway's.
    let told = record.raw.replace("\"client\":\"127.0.0.1\",", "");
    for text in &expect.lacks {
        findings.check(!told.contains(text), || format!("the record has {text:?}"));
    }
}
