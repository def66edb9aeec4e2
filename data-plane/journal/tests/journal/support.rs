//! What the tests have in common.

use std::{path::Path, time::Duration};

use sluicegate_journal::{
    Hold, Journal, LeaseTotals, Moment, Options, Outbox, Priced, Record, Recovered, Started,
};
use sluicegate_proto::usage::v1::{UsageAck, UsageBatch, UsageEvent};

/// Options for tests: what is appended reaches the disk at once.
pub(crate) fn options(folder: &Path, incarnation: u64) -> Options {
    let sync_every = Duration::from_millis(1);
    Options { sync_every, ..Options::new(folder, "node-1", incarnation) }
}

pub(crate) fn open(options: Options) -> (Journal, Recovered) {
    Journal::open(options, price).unwrap()
}

/// Ten units a token of output, charged to every lease that holds something.
pub(crate) fn price(started: &Started, output_tokens: u64) -> Priced {
    let amount = started.event.input_tokens + output_tokens;
    Priced {
        micro_units: output_tokens * 10,
        cost_nano: output_tokens * 3,
        lease_charges: started.holds.iter().map(|hold| (hold.lease, amount)).collect(),
    }
}

pub(crate) fn event(id: u64) -> UsageEvent {
    UsageEvent {
        request_id: format!("request-{id}"),
        attempt: 1,
        tenant: "tenant".to_owned(),
        key: "key".to_owned(),
        model: "model".to_owned(),
        input_tokens: id,
        ..UsageEvent::default()
    }
}

pub(crate) fn started(request: u64, leases: &[u64]) -> Started {
    let holds = leases.iter().map(|&lease| Hold { lease, amount: 1000 }).collect();
    Started { request, event: event(request), holds, memo: format!("memo {request}").into() }
}

pub(crate) fn totals(lease: u64, charged: u64) -> LeaseTotals {
    LeaseTotals { meter: "meter".into(), lease, window: 0, charged, granted: charged + 100 }
}

/// Appends one finished event without a start.
pub(crate) fn put(journal: &Journal, now: Moment, id: u64) -> u64 {
    let event = event(id);
    journal.append_at(now, &[Record::Event { request: id, event: &event }]).unwrap().unwrap()
}

/// Everything that a source has to send, against a server that counts it.
pub(crate) fn drain(outbox: &mut Outbox, now: Moment) -> Vec<(u64, UsageEvent)> {
    let mut all = Vec::new();
    while let Some(batch) = outbox.next_batch(now) {
        let through = batch.first_seq + batch.events.len() as u64 - 1;
        outbox.on_ack(now, &ack(through));
        if batch.events.is_empty() {
            break;
        }
        all.extend(numbered(batch));
    }
    all
}

pub(crate) fn numbered(batch: UsageBatch) -> impl Iterator<Item = (u64, UsageEvent)> {
    (batch.first_seq..).zip(batch.events)
}

pub(crate) fn ack(applied_through: u64) -> UsageAck {
    UsageAck { applied_through, store: "store".to_owned(), ..UsageAck::default() }
}

/// Names of the segments in a folder.
pub(crate) fn segments(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".seg"));
    names.sort();
    names
}
