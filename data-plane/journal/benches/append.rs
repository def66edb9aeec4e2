//! What a request costs to write down, in its mean and its tail, from one thread and from several;
//! and what it costs to read all of it again after a restart.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this reports to a terminal")]

use std::{sync::Barrier, time::Duration};

use sluicegate_journal::{Hold, Journal, LeaseTotals, Moment, Options, Record, Started};
use sluicegate_proto::usage::v1::{UsageAck, UsageEvent};
use tokio::time::Instant;

const REQUESTS: u64 = 100_000;
const LEASES: std::ops::RangeInclusive<u64> = 1..=3;

fn event() -> UsageEvent {
    UsageEvent {
        request_id: "0190a5b4-7e1a-7c3e-9a36-1a2b3c4d5e6f".to_owned(),
        attempt: 1,
        tenant: "tenant".to_owned(),
        key: "key".to_owned(),
        user: "someone@example.com".to_owned(),
        app: "assistant".to_owned(),
        model: "model".to_owned(),
        provider: "openai-eu".to_owned(),
        upstream_model: "gpt-4o-2024-11-20".to_owned(),
        credential: "openai-eu-1".to_owned(),
        input_tokens: 300,
        output_tokens: 812,
        micro_units: 1_400_000,
        cost_nano: 9_000_000,
        outcome: "success".to_owned(),
        duration_ms: 4_200,
        ..UsageEvent::default()
    }
}

/// The two appends of each of a thread's requests, one after the other: their times.
fn requests(journal: &Journal, worker: u64) -> Vec<Duration> {
    let event = event();
    let holds: Vec<_> = LEASES.map(|lease| Hold { lease, amount: 1_000 }).collect();
    let meter = bytes::Bytes::from(vec![b'm'; 80]);
    let settled: Vec<_> = LEASES
        .map(|lease| LeaseTotals { meter: meter.clone(), lease, window: 0, charged: 1, granted: 2 })
        .collect();
    let mut times = Vec::with_capacity(2 * REQUESTS as usize);
    let mut append = |records: &[Record<'_>]| {
        let start = Instant::now();
        journal.append(records).unwrap();
        times.push(start.elapsed());
    };
    for request in worker * REQUESTS..(worker + 1) * REQUESTS {
        let begun = Started {
            request,
            event: event.clone(),
            holds: holds.clone(),
            memo: bytes::Bytes::from_static(b"what the price depends on"),
        };
        append(&[Record::Started(&begun)]);
        let mut records = vec![Record::Event { request, event: &event }];
        records.extend(settled.iter().map(Record::LeaseTotals));
        append(&records);
    }
    times
}

fn open(folder: &tempfile::TempDir, incarnation: u64) -> Journal {
    let options = Options::new(folder.path(), "node-1", incarnation);
    Journal::open(options, |_, _| Default::default()).unwrap().0
}

fn read_all(journal: &Journal) -> usize {
    let (mut outbox, mut read) = (journal.outbox(1).unwrap(), 0);
    while let Some(batch) = outbox.next_batch(Moment::now()) {
        let Some(more) = batch.events.len().checked_sub(1) else { break };
        read += more + 1;
        let applied_through = batch.first_seq + more as u64;
        let ack = UsageAck { applied_through, store: "bench".to_owned(), ..UsageAck::default() };
        outbox.on_ack(Moment::now(), &ack);
    }
    read
}

fn main() {
    for threads in [1, 2, 4] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let journal = open(&folder, 1);
        let barrier = Barrier::new(threads);
        let mut times: Vec<Duration> = std::thread::scope(|scope| {
            let work = |worker| {
                let (journal, barrier) = (&journal, &barrier);
                move || {
                    barrier.wait();
                    requests(journal, worker)
                }
            };
            let workers: Vec<_> = (0..threads as u64).map(|w| scope.spawn(work(w))).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        times.sort_unstable();
        let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1_000];
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        let bytes = journal.numbers(Moment::now()).bytes;
        println!(
            "{threads} threads: an append takes {mean:?} in the mean, p50 {:?}, p99 {:?}, p99.9 {:?}, \
             at most {:?}; {} bytes a request",
            at(500),
            at(990),
            at(999),
            at(1_000),
            bytes / (threads as u64 * REQUESTS),
        );
        drop(journal);
        let start = Instant::now();
        let journal = open(&folder, 2);
        println!("opened again with {bytes} bytes in {:?}", start.elapsed());
        let start = Instant::now();
        println!("{} events read for sending in {:?}", read_all(&journal), start.elapsed());
    }
}
