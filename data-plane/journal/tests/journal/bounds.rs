//! The limit: pressure, refusal, and room that comes back.

use std::{fs, os::unix::fs::PermissionsExt};

use sluicegate_journal::{JournalError, Moment, Options, Pressure, Record};

use crate::support::{ack, event, open, options, put, segments};

const LIMIT: u64 = 2_000_000;

fn small(folder: &std::path::Path) -> Options {
    Options { limit_bytes: LIMIT, segment_bytes: 50_000, ..options(folder, 1) }
}

#[test]
fn d4_appends_go_on_past_the_limit_and_fail_a_tenth_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(folder.path()));
    let now = Moment::now();
    let big = sluicegate_proto::usage::v1::UsageEvent { user: "u".repeat(500), ..event(1) };
    let record = [Record::Event { request: 1, event: &big }];
    let (mut pressures, mut written) = (Vec::new(), 0);
    let error = loop {
        pressures.push((journal.numbers(now).bytes, journal.pressure()));
        match journal.append(&record) {
            Ok(seq) => {
                written += 1;
                assert_eq!(seq, Some(written));
            }
            Err(error) => break error,
        }
    };
    for (bytes, pressure) in pressures {
        let expected = match bytes {
            bytes if bytes >= LIMIT => Pressure::Full,
            bytes if bytes >= LIMIT / 5 * 4 => Pressure::High,
            _ => Pressure::Fine,
        };
        assert_eq!(pressure, expected, "at {bytes}");
    }
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    let on_disk: u64 = segments(folder.path())
        .iter()
        .map(|name| fs::metadata(folder.path().join(name)).unwrap().len())
        .sum();
    let numbers = journal.numbers(now);
    assert_eq!(numbers.bytes, on_disk);
    assert!(on_disk > LIMIT + LIMIT / 10 - 1000 && on_disk <= LIMIT + LIMIT / 10, "{on_disk}");
    assert_eq!((journal.dropped(), numbers.waiting), (1, written));
    assert!(journal.append(&record).is_err());
    assert_eq!(journal.dropped(), 2);

    // A control plane that counts makes room, although its store is not durable and the ten minutes
    // are not over.
    journal.sync();
    let mut outbox = journal.outbox(1).unwrap();
    let mut now = now;
    while let Some(batch) = outbox.next_batch(now)
        && !batch.events.is_empty()
    {
        outbox.on_ack(now, &ack(batch.first_seq + batch.events.len() as u64 - 1));
        now = now.after(20_000);
    }
    journal.tidy(now);
    assert_eq!(journal.pressure(), Pressure::Fine);
    assert!(journal.numbers(now).bytes > LIMIT / 2, "no more is let go of than has to be");
    assert_eq!(put(&journal, now, 9), written + 1, "what was dropped has no number");
}

#[test]
fn d4_one_append_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(options(folder.path(), 1));
    let huge = sluicegate_proto::usage::v1::UsageEvent { user: "u".repeat(2 << 20), ..event(1) };
    let error = journal.append(&[Record::Event { request: 1, event: &huge }]).unwrap_err();
    assert!(matches!(error, JournalError::TooLarge(_)), "{error}");
    assert_eq!(journal.dropped(), 1);
}

#[test]
fn d4_a_folder_that_takes_no_new_files_fails_softly_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage");
    let (journal, _) = open(Options { segment_bytes: 2_000, ..options(&path, 1) });
    let now = Moment::now();
    put(&journal, now, 1);
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    // The present segment still takes everything, though it is full long since.
    (2..=40).for_each(|id| assert_eq!(put(&journal, now, id), id));
    fs::rename(&aside, &path).unwrap();
    assert_eq!(put(&journal, now, 41), 41);
    assert_eq!(segments(&path).len(), 2);
    journal.sync();
    let sent = crate::support::drain(&mut journal.outbox(1).unwrap(), now);
    assert_eq!(sent.len(), 41);
    assert_eq!(journal.dropped(), 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}
