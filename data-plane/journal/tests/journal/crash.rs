//! Files that break off anywhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proptest::prelude::*;
use sluicegate_journal::{Journal, Moment, Options, Record};
use sluicegate_proto::usage::v1::{Basis, UsageEvent};

use crate::support::{drain, event, open, options, segments, started, totals};

#[derive(Debug, Clone, Copy)]
enum Step {
    Start { request: u64, lease: u64 },
    Progress { request: u64, output: u64 },
    Finish { request: u64, lease: u64 },
    Drop { request: u64 },
    Close { lease: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (request, lease) = (0_u64..12, 1_u64..4);
    let step = prop_oneof![
        4 => (request.clone(), lease.clone()).prop_map(|(request, lease)| Step::Start { request, lease }),
        2 => (request.clone(), 1_u64..500).prop_map(|(request, output)| Step::Progress { request, output }),
        4 => (request.clone(), lease.clone()).prop_map(|(request, lease)| Step::Finish { request, lease }),
        1 => request.prop_map(|request| Step::Drop { request }),
        1 => lease.prop_map(|lease| Step::Close { lease }),
    ];
    prop::collection::vec(step, 1..60)
}

/// What a journal must know after some of the steps.
#[derive(Debug, Clone, Default, PartialEq)]
struct Expected {
    /// In order.
    events: Vec<String>,
    /// Request, lease that is held, output so far.
    open: BTreeMap<u64, (u64, u64)>,
    leases: BTreeMap<u64, u64>,
    /// Numbers requests, as no two in one process have the same.
    generation: BTreeMap<u64, u64>,
}

impl Expected {
    /// The number of a request: steps use the small ones again.
    fn number(&self, request: u64) -> u64 {
        request + 100 * self.generation.get(&request).copied().unwrap_or(0)
    }

    fn apply(&mut self, journal: &Journal, step: Step) {
        match step {
            Step::Start { request, lease } => {
                let number = self.number(request);
                let charged = *self.leases.entry(lease).or_default();
                let (started, totals) = (started(number, &[lease]), totals(lease, charged));
                let records = [Record::LeaseTotals(&totals), Record::Started(&started)];
                journal.append(&records).unwrap();
                self.open.insert(number, (lease, 0));
            }
            Step::Progress { request, output } => {
                let request = self.number(request);
                let record = Record::Progress { request, attempt: 1, output_tokens: output };
                journal.append(&[record]).unwrap();
                if let Some(open) = self.open.get_mut(&request) {
                    open.1 = output;
                }
            }
            Step::Finish { request, lease } => {
                let number = self.number(request);
                *self.generation.entry(request).or_default() += 1;
                let charged = self.leases.entry(lease).or_default();
                *charged += number;
                let (event, totals) = (event(number), totals(lease, *charged));
                let records = [
                    Record::Event { request: number, event: &event },
                    Record::LeaseTotals(&totals),
                ];
                let seq = journal.append(&records).unwrap();
                self.events.push(event.request_id);
                assert_eq!(seq, Some(self.events.len() as u64));
                self.open.remove(&number);
            }
            Step::Drop { request } => {
                let number = self.number(request);
                *self.generation.entry(request).or_default() += 1;
                journal.append(&[Record::Dropped { request: number, attempt: 1 }]).unwrap();
                self.open.remove(&number);
            }
            Step::Close { lease } => {
                journal.append(&[Record::LeaseClosed { lease }]).unwrap();
                self.leases.remove(&lease);
            }
        }
    }

    /// What the leases come to when the open attempts have been charged.
    fn leases_in_the_end(&self) -> BTreeMap<u64, u64> {
        let mut leases = self.leases.clone();
        for (number, (lease, output)) in &self.open {
            if let Some(charged) = leases.get_mut(lease) {
                *charged += number + output;
            }
        }
        leases
    }

    /// Is this what a source of this history sends?
    fn check_sent(&self, sent: &[(u64, UsageEvent)]) {
        let numbers: Vec<_> = sent.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(numbers, (1..=sent.len() as u64).collect::<Vec<_>>(), "without gaps");
        let (whole, ended) = sent.split_at(self.events.len());
        let whole: Vec<_> = whole.iter().map(|(_, event)| event.request_id.clone()).collect();
        assert_eq!(whole, self.events);
        let ended: Vec<_> = ended
            .iter()
            .map(|(_, event)| {
                assert_eq!(
                    (event.basis(), event.outcome.as_str()),
                    (Basis::Estimated, "interrupted")
                );
                assert_eq!(event.micro_units, event.output_tokens * 10);
                assert_eq!(event.cost_nano, event.output_tokens * 3);
                (event.input_tokens, event.output_tokens)
            })
            .collect();
        let open = self.open.iter().map(|(&number, &(_, output))| (number, output));
        assert_eq!(ended, open.collect::<Vec<_>>(), "each open attempt once, oldest first");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Places to cut a file of this length: all of a short one, its ends and some between of a long one.
fn cuts(length: u64, seed: u64) -> BTreeSet<u64> {
    let mut cuts: BTreeSet<u64> = (0..=length.min(3)).collect();
    cuts.extend((0..12).map(|step| (seed + step * 7919) % (length + 1)));
    cuts.extend(length.saturating_sub(3)..=length);
    cuts
}

/// What the second and third start make of a cut journal.
fn check(folder: &Path, expected: &Expected, seed: u64) {
    let before: BTreeSet<_> = segments(folder).into_iter().collect();
    let (journal, recovered) = open(options(folder, 2));
    assert_eq!(recovered.lost, 0);
    assert_eq!(recovered.interrupted.len(), expected.open.len());
    let leases = |recovered: sluicegate_journal::Recovered| -> BTreeMap<_, _> {
        recovered.leases.into_iter().map(|dead| (dead.totals.lease, dead.totals.charged)).collect()
    };
    assert_eq!(leases(recovered), expected.leases_in_the_end());
    if journal.sources().contains(&1) {
        let mut outbox = journal.outbox(1).unwrap();
        expected.check_sent(&drain(&mut outbox, Moment::now()));
    } else {
        assert!(expected.events.is_empty() && expected.open.is_empty());
    }
    // What was sent is forgotten, as after a kill -9: files as they are, cut where the first start
    // was writing.
    let again = folder.with_extension("again");
    copy(folder, &again);
    drop(journal);
    let written = segments(&again)
        .into_iter()
        .find(|name| !before.contains(name) && name.starts_with("0000000000000001"));
    if let Some(written) = written {
        let file = fs::OpenOptions::new().write(true).open(again.join(written)).unwrap();
        file.set_len(seed % (file.metadata().unwrap().len() + 1)).unwrap();
    }
    let (journal, recovered) = open(options(&again, 3));
    assert_eq!(leases(recovered), expected.leases_in_the_end());
    if let Ok(mut outbox) = journal.outbox(1) {
        expected.check_sent(&drain(&mut outbox, Moment::now()));
    } else {
        assert!(expected.events.is_empty() && expected.open.is_empty());
    }
    drop(journal);
    fs::remove_dir_all(again).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
    ))]

    #[test]
    fn d4_a_journal_that_breaks_off_anywhere_keeps_every_whole_append(
        steps in steps(),
        segment_bytes in prop_oneof![Just(400_u64), Just(3_000), Just(1 << 20)],
        seed in any::<u32>(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("whole");
        let (journal, _) = open(Options { segment_bytes, ..options(&folder, 1) });
        // What is to be known when the last file ends at or after this length.
        let mut history: Vec<(String, u64, Expected)> = Vec::new();
        let mut expected = Expected::default();
        for step in steps {
            let before = expected.clone();
            expected.apply(&journal, step);
            let last = segments(&folder).pop().unwrap();
            if history.last().is_none_or(|(name, _, _)| *name != last) {
                // The file was begun with a checkpoint of what was before.
                history.push((last.clone(), 0, before));
            }
            let length = fs::metadata(folder.join(&last)).unwrap().len();
            history.push((last, length, expected.clone()));
        }
        let whole = root.path().join("copy");
        copy(&folder, &whole);
        drop(journal);

        let last = segments(&whole).pop().unwrap();
        let length = fs::metadata(whole.join(&last)).unwrap().len();
        for cut in cuts(length, u64::from(seed)) {
            let here = root.path().join(format!("cut-{cut}"));
            copy(&whole, &here);
            let file = fs::OpenOptions::new().write(true).open(here.join(&last)).unwrap();
            file.set_len(cut).unwrap();
            let known = history.iter().rev().find(|(name, length, _)| *name == last && *length <= cut);
            check(&here, &known.unwrap().2, u64::from(seed));
            fs::remove_dir_all(here).unwrap();
        }
    }
}

#[test]
fn d4_an_interrupted_attempt_is_an_estimate_with_its_charges() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, recovered) = open(options(folder.path(), 1));
    assert_eq!(recovered, Default::default());
    let begin = Moment::now();
    let (first, second) = (totals(7, 50), totals(8, 5));
    let attempt = started(33, &[7, 8, 9]);
    journal
        .append_at(
            begin,
            &[Record::LeaseTotals(&first), Record::LeaseTotals(&second), Record::Started(&attempt)],
        )
        .unwrap();
    let progress = Record::Progress { request: 33, attempt: 1, output_tokens: 20 };
    journal.append_at(begin.after(1500), &[progress]).unwrap();
    // A charge that was computed earlier but arrives later takes nothing back.
    journal.append(&[Record::LeaseTotals(&totals(7, 49))]).unwrap();
    drop(journal);

    let (journal, recovered) = open(options(folder.path(), 2));
    let leases: Vec<_> =
        recovered.leases.iter().map(|dead| (dead.source, dead.totals.lease)).collect();
    assert_eq!(leases.len(), 2);
    for dead in &recovered.leases {
        let charged = if dead.totals.lease == 7 { 50 + 53 } else { 5 + 53 };
        assert_eq!((dead.source, dead.totals.charged), (1, charged));
        assert_eq!(dead.totals.meter, "meter");
    }
    let interrupted = &recovered.interrupted[0];
    assert_eq!(interrupted.started, attempt);
    assert_eq!((interrupted.output_tokens, interrupted.source), (20, 1));
    assert_eq!(interrupted.uncharged, [(9, 53)], "a lease that nobody told of");

    let later = begin.after(60_000);
    let mut outbox = journal.outbox(1).unwrap();
    let batch = outbox.next_batch(later).unwrap();
    assert_eq!((batch.node_id.as_str(), batch.source, batch.first_seq), ("node-1", 1, 1));
    let sent = &batch.events[0];
    assert_eq!((sent.input_tokens, sent.output_tokens, sent.duration_ms), (33, 20, 1500));
    assert_eq!((sent.micro_units, sent.cost_nano, sent.tenant.as_str()), (200, 60, "tenant"));
    outbox.on_ack(
        later,
        &sluicegate_proto::usage::v1::UsageAck { durable: true, ..crate::support::ack(1) },
    );

    // The leases keep the source until they are closed, over restarts, too.
    journal.tidy(later);
    assert_eq!(journal.sources(), [2, 1]);
    journal.close_dead_lease(1, 7).unwrap();
    drop((outbox, journal));
    let (journal, recovered) = open(options(folder.path(), 3));
    assert!(recovered.interrupted.is_empty());
    assert_eq!(recovered.leases.iter().map(|dead| dead.totals.lease).collect::<Vec<_>>(), [8]);
    journal.close_dead_lease(1, 8).unwrap();
    journal.tidy(later);
    assert_eq!(journal.sources(), [3]);
    assert_eq!(segments(folder.path()).len(), 1);
}
