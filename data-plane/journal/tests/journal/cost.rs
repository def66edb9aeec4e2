//! What an append costs. Not a test of anything: run it with
//! `cargo test --release -p sluicegate-journal cost -- --ignored --nocapture`.

use std::{sync::Barrier, time::Duration};

use sluicegate_journal::{Journal, LeaseTotals, Moment, Record};
use sluicegate_proto::usage::v1::UsageEvent;
use tokio::time::Instant;

use crate::support::{event, started};

fn full_event(id: u64) -> UsageEvent {
    UsageEvent {
        request_id: "0190a5b4-7e1a-7c3e-9a36-1a2b3c4d5e6f".to_owned(),
        user: "someone@example.com".to_owned(),
        app: "assistant".to_owned(),
        provider: "openai-eu".to_owned(),
        upstream_model: "gpt-4o-2024-11-20".to_owned(),
        credential: "openai-eu-1".to_owned(),
        output_tokens: 812,
        micro_units: 1_400_000,
        cost_nano: 9_000_000,
        outcome: "success".to_owned(),
        duration_ms: 4_200,
        ..event(id)
    }
}

fn one_request(journal: &Journal, id: u64, event: &UsageEvent, leases: &[LeaseTotals]) -> Duration {
    let mut begun = started(id, &[1, 2, 3]);
    begun.event = event.clone();
    let start = Instant::now();
    journal.append(&[Record::Started(&begun)]).unwrap();
    let mut records = vec![Record::Event { request: id, event }];
    records.extend(leases.iter().map(Record::LeaseTotals));
    journal.append(&records).unwrap();
    start.elapsed()
}

#[test]
#[ignore = "measures, checks nothing"]
fn cost_of_a_request() {
    const EACH: u64 = 100_000;
    for threads in [1, 2, 4] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = sluicegate_journal::Options::new(folder.path(), "node-1", 1);
        let (journal, _) = Journal::open(options, |_, _| Default::default()).unwrap();
        let barrier = Barrier::new(threads);
        let mut times: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads as u64)
                .map(|worker| {
                    let (journal, barrier) = (journal.clone(), &barrier);
                    scope.spawn(move || {
                        let meter = bytes::Bytes::from(vec![b'm'; 80]);
                        let lease = |lease| LeaseTotals {
                            meter: meter.clone(),
                            lease,
                            window: 0,
                            charged: 1,
                            granted: 2,
                        };
                        let leases: Vec<_> = (1..=3).map(lease).collect();
                        let event = full_event(worker);
                        barrier.wait();
                        (0..EACH)
                            .map(|id| {
                                let id = worker * EACH + id;
                                one_request(&journal, id, &event, &leases).as_nanos() as u64 / 2
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        println!(
            "{threads} threads: append mean {} ns, p50 {}, p99 {}, p99.9 {}, max {}; {} bytes a request",
            times.iter().sum::<u64>() / times.len() as u64,
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            journal.numbers(Moment::now()).bytes / times.len() as u64,
        );
        let bytes = journal.numbers(Moment::now()).bytes;
        drop(journal);
        let start = Instant::now();
        let options = sluicegate_journal::Options::new(folder.path(), "node-1", 2);
        let (journal, _) = Journal::open(options, |_, _| Default::default()).unwrap();
        println!("opened again with {bytes} bytes in {:?}", start.elapsed());
        let (mut outbox, start) = (journal.outbox(1).unwrap(), Instant::now());
        let sent = crate::support::drain(&mut outbox, Moment::now()).len();
        println!("{sent} events read for sending in {:?}", start.elapsed());
    }
}
