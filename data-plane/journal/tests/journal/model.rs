//! A node and a store over everything that goes wrong between them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use sluicegate_journal::{Journal, Moment, Options, Outbox, Record};
use sluicegate_proto::usage::v1::{UsageAck, UsageBatch};

use crate::support::{event, open, options, segments, started};

/// A store keeps to less than what nodes keep: 9 of 10 minutes.
const FALLS_BACK_MS: u64 = 540_000;

#[derive(Debug, Clone)]
enum Step {
    /// This many attempts begin and end, in one segment or several.
    Finish(u8),
    /// An attempt begins and goes on.
    Begin,
    /// The source at this place sends.
    Send(u8, Fate),
    /// A batch that was sent earlier arrives once more.
    Again(u8),
    Tick(u32),
    Tidy,
    /// The process ends properly, or not.
    Restart {
        killed: bool,
    },
    /// The store is again what it was this long ago, under its name or another.
    FallBack {
        ms: u32,
        renamed: bool,
    },
    /// Whether acknowledgements are durable from now on.
    Durable(bool),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    IsLost,
    AnswerIsLost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![
        4 => Just(Fate::Arrives),
        1 => Just(Fate::IsLost),
        1 => Just(Fate::AnswerIsLost),
    ];
    let step = prop_oneof![
        8 => (1_u8..12).prop_map(Step::Finish),
        2 => Just(Step::Begin),
        16 => (any::<u8>(), fate).prop_map(|(source, fate)| Step::Send(source, fate)),
        2 => any::<u8>().prop_map(Step::Again),
        4 => (0_u32..5_000).prop_map(Step::Tick),
        2 => (0_u32..400_000).prop_map(Step::Tick),
        4 => Just(Step::Tidy),
        2 => any::<bool>().prop_map(|killed| Step::Restart { killed }),
        2 => (0..u32::try_from(FALLS_BACK_MS).unwrap(), any::<bool>())
            .prop_map(|(ms, renamed)| Step::FallBack { ms, renamed }),
        1 => any::<bool>().prop_map(Step::Durable),
    ];
    prop::collection::vec(step, 1..100)
}

/// What a store has counted: for every source up to where, and every request how often.
#[derive(Debug, Clone, Default)]
struct Counted {
    through: BTreeMap<u64, u64>,
    requests: BTreeMap<String, u32>,
}

struct Store {
    name: String,
    counted: Counted,
    /// Older copies and when they were the newest.
    copies: VecDeque<(Moment, Counted)>,
    durable: bool,
    /// It was told that events are missing for good.
    told_of_losses: u32,
}

impl Store {
    fn take(&mut self, now: Moment, batch: &UsageBatch) -> UsageAck {
        let through = self.counted.through.entry(batch.source).or_default();
        let mut ack = UsageAck { store: self.name.clone(), ..UsageAck::default() };
        if batch.first_seq > *through + 1 {
            if !batch.nothing_before {
                ack.applied_through = *through;
                ack.resend_from = *through + 1;
                return ack;
            }
            self.told_of_losses += 1;
            *through = batch.first_seq - 1;
        }
        let before = self.copies.back().is_none_or(|(at, _)| now.since(*at) > 0);
        for (seq, event) in (batch.first_seq..).zip(&batch.events) {
            if seq == *through + 1 {
                *through = seq;
                *self.counted.requests.entry(event.request_id.clone()).or_default() += 1;
            }
        }
        ack.applied_through = *through;
        ack.durable = self.durable;
        if self.durable {
            self.copies.clear();
        }
        if before || self.durable {
            self.copies.push_back((now, self.counted.clone()));
        }
        ack
    }

    /// Goes back to how it was at this time, but not behind what it called durable.
    fn fall_back(&mut self, now: Moment, ms: u64) {
        while self.copies.len() > 1 && self.copies.back().is_some_and(|(at, _)| now.since(*at) < ms)
        {
            self.copies.pop_back();
        }
        if let Some((at, copy)) = self.copies.back()
            && now.since(*at) <= FALLS_BACK_MS
        {
            self.counted = copy.clone();
        }
    }
}

struct World {
    root: PathBuf,
    folder: PathBuf,
    now: Moment,
    incarnation: u64,
    requests: u64,
    node: Option<(Journal, BTreeMap<u64, Outbox>)>,
    store: Store,
    sent: Vec<UsageBatch>,
    promised: BTreeSet<String>,
}

impl World {
    fn new(root: &Path) -> Self {
        let mut world = Self {
            root: root.to_owned(),
            folder: root.join("0"),
            now: Moment::now(),
            incarnation: 0,
            requests: 0,
            node: None,
            store: Store {
                name: "store".to_owned(),
                counted: Counted::default(),
                copies: VecDeque::new(),
                durable: false,
                told_of_losses: 0,
            },
            sent: Vec::new(),
            promised: BTreeSet::new(),
        };
        world.store.copies.push_back((world.now, Counted::default()));
        world.restart(false);
        world
    }

    fn journal(&self) -> &Journal {
        &self.node.as_ref().unwrap().0
    }

    fn restart(&mut self, killed: bool) {
        let node = self.node.take();
        if killed {
            // The files as they are; what the old process still does to its own is not seen.
            let next = self.root.join((self.incarnation + 1).to_string());
            fs::create_dir(&next).unwrap();
            for name in segments(&self.folder) {
                // The old process may be deleting this one just now.
                if let Ok(bytes) = fs::read(self.folder.join(&name)) {
                    fs::write(next.join(&name), bytes).unwrap();
                }
            }
            self.folder = next;
        }
        drop(node);
        self.incarnation += 1;
        let (journal, recovered) =
            open(Options { segment_bytes: 1_500, ..options(&self.folder, self.incarnation) });
        assert_eq!(recovered.lost, 0);
        let sources = journal.sources();
        let outboxes = sources.into_iter().map(|source| (source, journal.outbox(source).unwrap()));
        let outboxes = outboxes.collect();
        self.node = Some((journal, outboxes));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Finish(count) => {
                for _ in 0..count {
                    self.requests += 1;
                    let (id, journal) = (self.requests, self.journal());
                    let event = event(id);
                    journal.append_at(self.now, &[Record::Started(&started(id, &[]))]).unwrap();
                    journal
                        .append_at(self.now, &[Record::Event { request: id, event: &event }])
                        .unwrap();
                    self.promised.insert(event.request_id);
                }
                self.journal().sync();
            }
            Step::Begin => {
                self.requests += 1;
                let started = started(self.requests, &[]);
                self.journal().append_at(self.now, &[Record::Started(&started)]).unwrap();
                self.promised.insert(started.event.request_id);
            }
            Step::Send(source, fate) => self.send(usize::from(source), fate),
            Step::Again(which) => {
                if let Some(batch) = self.sent.get(usize::from(which) % self.sent.len().max(1)) {
                    self.store.take(self.now, batch);
                }
            }
            Step::Tick(ms) => self.now = self.now.after(u64::from(ms)),
            Step::Tidy => self.journal().tidy(self.now),
            Step::Restart { killed } => self.restart(killed),
            Step::FallBack { ms, renamed } => {
                self.store.fall_back(self.now, u64::from(ms));
                if renamed {
                    self.store.name.push('\'');
                }
            }
            Step::Durable(durable) => self.store.durable = durable,
        }
    }

    fn send(&mut self, which: usize, fate: Fate) {
        let (_, outboxes) = self.node.as_mut().unwrap();
        let at = which % outboxes.len();
        let outbox = outboxes.values_mut().nth(at).unwrap();
        let Some(batch) = outbox.next_batch(self.now) else { return };
        let ack = (fate != Fate::IsLost).then(|| self.store.take(self.now, &batch));
        match ack {
            Some(ack) if fate == Fate::Arrives => outbox.on_ack(self.now, &ack),
            _ => outbox.on_failure(self.now),
        }
        self.sent.push(batch);
    }

    /// All is well for as long as it takes: every source sends, the time goes by.
    fn settle(&mut self) {
        self.restart(true);
        for _ in 0..400 {
            let (_, outboxes) = self.node.as_mut().unwrap();
            for outbox in outboxes.values_mut() {
                while let Some(batch) = outbox.next_batch(self.now) {
                    let ack = self.store.take(self.now, &batch);
                    outbox.on_ack(self.now, &ack);
                }
            }
            self.journal().tidy(self.now);
            self.now = self.now.after(5_000);
        }
        self.journal().sync();
        self.journal().tidy(self.now);
    }

    fn check(&self) {
        assert_eq!(self.store.told_of_losses, 0, "the store was told that something is lost");
        let counted = &self.store.counted.requests;
        let names: BTreeSet<_> = counted.keys().cloned().collect();
        assert_eq!(names, self.promised);
        assert!(counted.values().all(|&times| times == 1), "{counted:?}");
        let numbers = self.journal().numbers(self.now);
        assert_eq!((numbers.waiting, numbers.sources, numbers.dropped), (0, 1, 0));
        assert_eq!(segments(&self.folder).len(), 1, "nothing is kept for ever");
        assert!(numbers.bytes < 1_000, "{numbers:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
    ))]

    #[test]
    fn d4_every_event_is_counted_exactly_once(steps in steps()) {
        let root = tempfile::tempdir().unwrap();
        let mut world = World::new(root.path());
        steps.into_iter().for_each(|step| world.step(step));
        world.settle();
        world.check();
    }
}
