//! The sending end, step by step.

use std::time::Duration;

use prost::Message;
use sluicegate_journal::{
    Journal, MAX_BATCH_BYTES, MAX_BATCH_EVENTS, Moment, Options, Outbox, Record,
};
use sluicegate_proto::usage::v1::{UsageAck, UsageBatch, UsageEvent};

use crate::support::{ack, drain, event, open, options, put, segments};

fn with_events(folder: &std::path::Path, now: Moment, count: u64) -> (Journal, Outbox) {
    let (journal, _) = open(options(folder, 1));
    (1..=count).for_each(|id| assert_eq!(put(&journal, now, id), id));
    journal.sync();
    let outbox = journal.outbox(1).unwrap();
    (journal, outbox)
}

fn shape(batch: &UsageBatch) -> (u64, usize, bool) {
    (batch.first_seq, batch.events.len(), batch.nothing_before)
}

#[test]
fn d4_batches_are_bounded_in_events_and_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, mut outbox) = with_events(folder.path(), now, 1_200);
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!(shape(&batch), (1, MAX_BATCH_EVENTS, false));
    assert_eq!(outbox.next_batch(now), None, "one at a time");
    assert_eq!(outbox.due_in(now), None);
    outbox.on_ack(now, &ack(500));
    assert_eq!(outbox.due_in(now), Some(Duration::ZERO));
    assert_eq!(journal.numbers(now).waiting, 700);
    assert_eq!(drain(&mut outbox, now).len(), 700);

    let wordy = UsageEvent { user: "u".repeat(3_000), ..event(1) };
    for _ in 0..200 {
        journal.append_at(now, &[Record::Event { request: 1, event: &wordy }]).unwrap();
    }
    let huge = UsageEvent { user: "u".repeat(400_000), ..event(1) };
    journal.append_at(now, &[Record::Event { request: 1, event: &huge }]).unwrap();
    journal.sync();
    let (mut batches, mut seen) = (0, 0);
    while seen < 201 {
        let batch = outbox.next_batch(now).unwrap();
        seen += batch.events.len();
        batches += 1;
        let fits = batch.encoded_len() <= MAX_BATCH_BYTES;
        assert!(fits || batch.events.len() == 1, "{} bytes", batch.encoded_len());
        outbox.on_ack(now, &ack(1_200 + seen as u64));
    }
    assert_eq!(batches, 4, "three of many, the huge one alone");
}

#[test]
fn d4_age_grows_until_the_batch_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, mut outbox) = with_events(folder.path(), now, 1);
    assert_eq!(journal.numbers(now.after(700)).oldest_waiting_ms, 700);
    let batch = outbox.next_batch(now.after(1_000)).unwrap();
    assert_eq!(batch.events[0].age_ms, 1_000);
    outbox.on_failure(now.after(2_000));
    let batch = outbox.next_batch(now.after(9_000)).unwrap();
    assert_eq!(batch.events[0].age_ms, 9_000);
    outbox.on_ack(now.after(9_000), &ack(1));
    assert_eq!(journal.numbers(now.after(9_500)).oldest_waiting_ms, 0);
}

#[test]
fn d4_nothing_is_sent_before_it_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let slow = Options { sync_every: Duration::from_secs(3_600), ..options(folder.path(), 1) };
    let (journal, _) = open(slow);
    let commits = journal.commits();
    put(&journal, now, 1);
    let mut outbox = journal.outbox(1).unwrap();
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!(shape(&batch), (1, 0, false), "only a sign of life");
    outbox.on_ack(now, &ack(0));
    assert_eq!(outbox.next_batch(now), None);
    assert!(!commits.has_changed().unwrap());
    journal.sync();
    assert!(commits.has_changed().unwrap());
    assert_eq!(shape(&outbox.next_batch(now).unwrap()), (1, 1, false));
}

#[test]
fn d4_failures_back_off_and_pauses_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = Moment::now();
    let (_journal, mut outbox) = with_events(folder.path(), now, 1);
    for failures in 0..20 {
        assert_eq!(shape(&outbox.next_batch(now).unwrap()), (1, 1, false));
        outbox.on_failure(now);
        let wait = outbox.due_in(now).unwrap();
        let longest = Duration::from_millis((100 << failures.min(8)).min(5_000));
        assert!(wait <= longest && wait >= longest / 2, "{wait:?} after {failures} failures");
        let left = u64::try_from(wait.as_millis()).unwrap();
        assert_eq!(outbox.next_batch(now.after(left - 1)), None);
        now = now.after(left);
    }
    assert!(outbox.next_batch(now).is_some());
    outbox.on_ack(now, &UsageAck { pause_ms: 7_000, ..ack(1) });
    assert_eq!(outbox.due_in(now), Some(Duration::from_secs(7)));
    assert_eq!(outbox.next_batch(now.after(6_999)), None);
    assert_eq!(shape(&outbox.next_batch(now.after(7_000)).unwrap()), (2, 0, false));
}

#[test]
fn d4_signs_of_life_while_acknowledged_events_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, mut outbox) = with_events(folder.path(), now, 3);
    assert_eq!(drain(&mut outbox, now).len(), 3);
    assert_eq!(outbox.due_in(now), Some(Duration::from_secs(2)));
    let later = now.after(2_000);
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (4, 0, false));
    // The store fell back to an older copy of itself.
    outbox.on_ack(later, &UsageAck { resend_from: 2, ..ack(1) });
    assert_eq!(journal.numbers(later).waiting, 2);
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (2, 2, false));
    outbox.on_ack(later, &UsageAck { durable: true, ..ack(3) });
    assert_eq!(outbox.due_in(later), Some(Duration::from_secs(30)));
    assert_eq!(outbox.next_batch(later.after(29_999)), None);
    assert_eq!(shape(&outbox.next_batch(later.after(30_000)).unwrap()), (4, 0, false));
}

#[test]
fn d4_a_store_that_asks_for_what_is_gone_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, mut outbox) = with_events(folder.path(), now, 3);
    assert_eq!(drain(&mut outbox, now).len(), 3);
    let later = now.after(700_000);
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (4, 0, false));
    outbox.on_ack(later, &ack(3));
    journal.tidy(later);
    journal.sync();
    journal.tidy(later);
    assert_eq!(segments(folder.path()).len(), 1);
    assert_eq!(put(&journal, later, 4), 4);
    journal.sync();
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (4, 1, false));
    outbox.on_ack(later, &UsageAck { resend_from: 1, ..ack(0) });
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (4, 1, true));
    outbox.on_failure(later);
    let later = later.after(5_000);
    assert_eq!(shape(&outbox.next_batch(later).unwrap()), (4, 1, true), "said until it is heard");
    outbox.on_ack(later, &ack(4));
    assert_eq!(journal.numbers(later).waiting, 0);
    // A store that does not get it is not asked in a tight loop.
    let mut asked = 0;
    let mut at = later.after(2_000);
    let end = at.after(60_000);
    while end.since(at) > 0 {
        match outbox.next_batch(at) {
            Some(batch) => {
                asked += 1;
                assert_eq!(batch.nothing_before, batch.first_seq > 1 && asked > 1);
                outbox.on_ack(at, &UsageAck { resend_from: 1, ..ack(0) });
            }
            None => at = at.after(50),
        }
    }
    assert!(asked < 50, "{asked} times in a minute");
}

#[test]
fn d4_acknowledgements_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, mut outbox) = with_events(folder.path(), now, 10);
    outbox.next_batch(now).unwrap();
    outbox.on_ack(now, &ack(7));
    drop((outbox, journal));
    let (journal, _) = open(options(folder.path(), 2));
    let mut outbox = journal.outbox(1).unwrap();
    assert_eq!(shape(&outbox.next_batch(now).unwrap()), (8, 3, false), "only what is new");
    outbox.on_ack(now.after(60_000), &ack(10));
    drop((outbox, journal));

    let (journal, _) = open(options(folder.path(), 3));
    let at = now.after(60_000 + 599_999);
    journal.tidy(at);
    assert_eq!(journal.sources(), [3, 1], "ten minutes from the acknowledgement, restarted or not");
    let mut outbox = journal.outbox(1).unwrap();
    assert_eq!(shape(&outbox.next_batch(at).unwrap()), (11, 0, false));
    outbox.on_ack(at, &ack(10));
    journal.tidy(now.after(1_000_000));
    assert_eq!(journal.sources(), [3, 1], "nobody has said that it is still counted");
    let at = at.after(2_000);
    assert_eq!(shape(&outbox.next_batch(at).unwrap()), (11, 0, false));
    outbox.on_ack(at, &ack(10));
    journal.tidy(at);
    assert_eq!(journal.sources(), [3]);
    assert!(outbox.is_over());
    assert_eq!((outbox.next_batch(at.after(60_000)), outbox.due_in(at)), (None, None));
    assert!(journal.outbox(1).is_err());
    assert_eq!(segments(folder.path()).len(), 1);
}

#[test]
fn d4_a_segment_goes_only_when_the_checkpoint_after_it_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let sync_every = Duration::from_secs(3_600);
    let (journal, _) = open(Options { segment_bytes: 1, sync_every, ..options(folder.path(), 1) });
    put(&journal, now, 1);
    journal.sync();
    let mut outbox = journal.outbox(1).unwrap();
    assert_eq!(shape(&outbox.next_batch(now).unwrap()), (1, 1, false));
    outbox.on_ack(now, &UsageAck { durable: true, ..ack(1) });
    put(&journal, now, 2);
    let both = segments(folder.path());
    journal.tidy(now);
    assert!(segments(folder.path()).starts_with(&both), "a power cut could take the second one");
    journal.sync();
    journal.tidy(now);
    assert!(!segments(folder.path()).contains(&both[0]));
    assert_eq!(shape(&outbox.next_batch(now).unwrap()), (2, 1, false));
}

#[test]
fn d4_many_writers_and_a_sender_at_once() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(Options { segment_bytes: 20_000, ..options(folder.path(), 1) });
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let journal = journal.clone();
            scope.spawn(move || {
                (0..EACH).for_each(|id| {
                    put(&journal, Moment::now(), writer * EACH + id);
                });
            });
        }
        let mut outbox = journal.outbox(1).unwrap();
        while seen.len() < usize::try_from(WRITERS * EACH).unwrap() {
            let now = Moment::now();
            let Some(batch) = outbox.next_batch(now) else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!((batch.first_seq, batch.nothing_before), (seen.len() as u64 + 1, false));
            seen.extend(batch.events.iter().map(|event| event.input_tokens));
            outbox.on_ack(now, &UsageAck { durable: true, ..ack(seen.len() as u64) });
            journal.tidy(now);
        }
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..WRITERS * EACH).collect::<Vec<_>>());
    journal.sync();
    journal.tidy(Moment::now());
    assert_eq!((segments(folder.path()).len(), journal.dropped()), (1, 0));
}
