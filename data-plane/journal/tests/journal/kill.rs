//! kill -9 of a process that writes.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use sluicegate_journal::{Moment, Options, Record};

use crate::support::{event, numbered, open, options, started, totals};

const FOLDER: &str = "SLUICEGATE_JOURNAL_TEST_FOLDER";
const INCARNATION: &str = "SLUICEGATE_JOURNAL_TEST_INCARNATION";
const ROUNDS: u64 = 12;
/// Requests of different rounds have different numbers.
const PER_ROUND: u64 = 1_000_000;

/// The process that is killed: it says `s` when a start is written, `e` when an event is.
#[test]
fn writes_until_it_is_killed() {
    let (Ok(folder), Ok(incarnation)) = (env::var(FOLDER), env::var(INCARNATION)) else { return };
    let incarnation: u64 = incarnation.parse().unwrap();
    let small = Options { segment_bytes: 20_000, ..options(Path::new(&folder), incarnation) };
    let (journal, _) = open(small);
    let mut out = std::io::stdout().lock();
    for id in incarnation * PER_ROUND.. {
        let (begun, totals, event) = (started(id, &[1]), totals(1, id), event(id));
        journal.append(&[Record::LeaseTotals(&totals), Record::Started(&begun)]).unwrap();
        out.write_all(format!("@s {id}\n").as_bytes()).unwrap();
        if id % 7 == 0 {
            continue;
        }
        journal.append(&[Record::Event { request: id, event: &event }]).unwrap();
        out.write_all(format!("@e {id}\n").as_bytes()).unwrap();
    }
}

#[test]
fn d4_kill_9_loses_no_append_that_had_returned() {
    let folder = tempfile::tempdir().unwrap();
    // By request: whether its event was written, and how often it was sent as what.
    let mut promised: BTreeMap<u64, bool> = BTreeMap::new();
    for round in 1..=ROUNDS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(INCARNATION, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let patience = fastrand::usize(1..3_000);
        let mut note = |line: String| {
            if let Some(id) = line.strip_prefix("@s ") {
                promised.insert(id.parse().unwrap(), false);
            } else if let Some(id) = line.strip_prefix("@e ") {
                promised.insert(id.parse().unwrap(), true);
            }
        };
        lines.by_ref().take(patience).for_each(|line| note(line.unwrap()));
        child.kill().unwrap();
        lines.for_each(|line| note(line.unwrap_or_default()));
        assert!(!child.wait().unwrap().success());
    }
    assert!(promised.len() > ROUNDS as usize, "{}", promised.len());

    let (journal, recovered) = open(options(folder.path(), ROUNDS + 1));
    assert_eq!(recovered.lost, 0);
    let mut sent: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
    let now = Moment::now();
    for source in 1..=ROUNDS {
        let mut outbox = journal.outbox(source).unwrap();
        let mut next = 1;
        while let Some(batch) = outbox.next_batch(now)
            && !batch.events.is_empty()
        {
            for (seq, event) in numbered(batch) {
                assert_eq!(seq, next, "of source {source}");
                next += 1;
                let was_finished = event.outcome != "interrupted";
                sent.entry(event.input_tokens).or_default().push(was_finished);
            }
            outbox.on_ack(now, &crate::support::ack(next - 1));
        }
    }
    for (id, finished) in &promised {
        let times = sent.get(id).map(Vec::as_slice).unwrap_or_default();
        let [as_finished] = times else { panic!("request {id} was sent {times:?}") };
        assert!(*as_finished || !finished, "request {id} was finished, its event is lost");
    }
    // At most one append of each round had returned unsaid, or was there without having returned.
    let unsaid = sent.keys().filter(|id| !promised.contains_key(id)).count() as u64;
    assert!(unsaid <= ROUNDS, "{unsaid}");
    assert!(sent.values().all(|times| times.len() == 1));
    let charged = recovered.leases.iter().map(|dead| (dead.source, dead.totals.charged));
    for (source, charged) in charged {
        let last = promised.range(..(source + 1) * PER_ROUND).next_back().unwrap().0;
        assert!(charged >= *last, "totals of source {source} are {charged}, at least {last}");
    }
}
