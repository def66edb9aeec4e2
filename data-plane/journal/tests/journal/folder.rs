//! Who may use the folder, and what is left alone in it.

use std::{fs, os::unix::fs::PermissionsExt};

use sluicegate_journal::{Journal, JournalError, Moment};

use crate::support::{drain, open, options, price, put, segments};

#[test]
fn d4_only_one_process_and_only_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/usage");
    let (journal, _) = open(options(&path, 1));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    let error = Journal::open(options(&path, 2), price).unwrap_err();
    assert!(matches!(error, JournalError::InUse(_)), "{error}");
    assert!(error.to_string().contains("another sluicegate process"), "{error}");
    drop(journal);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    drop(open(options(&path, 2)));
    assert_eq!(mode(&path), 0o700, "what others could read is made private");
}

#[test]
fn d4_an_incarnation_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(options(folder.path(), 7));
    put(&journal, Moment::now(), 1);
    drop(journal);
    let error = Journal::open(options(folder.path(), 7), price).unwrap_err();
    assert!(matches!(error, JournalError::NotNew { incarnation: 7, .. }), "{error}");
}

#[test]
fn starts_that_wrote_nothing_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for incarnation in 1..=5 {
        let (journal, _) = open(options(folder.path(), incarnation));
        journal.tidy(Moment::now());
        assert_eq!(segments(folder.path()).len(), 1);
        assert_eq!(journal.sources(), [incarnation]);
    }
}

#[test]
fn d4_a_segment_that_cannot_be_read_is_set_aside_and_the_rest_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, _) =
        open(sluicegate_journal::Options { segment_bytes: 1, ..options(folder.path(), 1) });
    (1..=3).for_each(|id| assert_eq!(put(&journal, now, id), id));
    drop(journal);
    let names = segments(folder.path());
    assert_eq!(names.len(), 3);
    let middle = folder.path().join(&names[1]);
    let mut bytes = fs::read(&middle).unwrap();
    bytes[12] ^= 1;
    fs::write(&middle, bytes).unwrap();

    let (journal, recovered) = open(options(folder.path(), 2));
    assert_eq!((recovered.lost, journal.dropped()), (1, 1), "what is lost is counted");
    assert!(folder.path().join(&names[1]).with_extension("damaged").exists());
    let mut outbox = journal.outbox(1).unwrap();
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!((batch.first_seq, batch.events.len(), batch.nothing_before), (1, 1, false));
    outbox.on_ack(now, &crate::support::ack(1));
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!((batch.first_seq, batch.events.len(), batch.nothing_before), (3, 1, true));
}

#[test]
fn d4_damage_that_shows_while_sending_loses_only_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let now = Moment::now();
    let (journal, _) = open(options(folder.path(), 1));
    (1..=10).for_each(|id| assert_eq!(put(&journal, now, id), id));
    journal.sync();
    let path = folder.path().join(&segments(folder.path())[0]);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 10] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut outbox = journal.outbox(1).unwrap();
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!((batch.first_seq, batch.events.len()), (1, 9));
    assert_eq!(journal.dropped(), 1);
    outbox.on_ack(now, &crate::support::ack(9));
    assert_eq!(put(&journal, now, 11), 11, "the number is not given again");
    journal.sync();
    let batch = outbox.next_batch(now).unwrap();
    assert_eq!((batch.first_seq, batch.events.len(), batch.nothing_before), (11, 1, true));
}

#[test]
fn d4_files_of_a_newer_version_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(options(folder.path(), 1));
    put(&journal, Moment::now(), 1);
    drop(journal);
    let path = folder.path().join(&segments(folder.path())[0]);
    let old = fs::read(&path).unwrap();
    // The header's first field is the format: a frame head, kind and length, then tag and value.
    assert_eq!(old[13..15], [8, 1]);
    let length = u32::from_le_bytes(old[0..4].try_into().unwrap());
    let mut newer = old.clone();
    newer[14] = 2;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length.to_le_bytes());
    sum.update(&newer[8..8 + length as usize]);
    newer[4..8].copy_from_slice(&sum.finalize().to_le_bytes());
    fs::write(&path, &newer).unwrap();
    let (journal, _) = open(options(folder.path(), 2));
    assert_eq!(journal.sources(), [2]);
    drop(journal);
    assert_eq!(fs::read(&path).unwrap(), newer);
    fs::write(&path, &old).unwrap();
    let (journal, _) = open(options(folder.path(), 3));
    assert_eq!(drain(&mut journal.outbox(1).unwrap(), Moment::now()).len(), 1);
}
