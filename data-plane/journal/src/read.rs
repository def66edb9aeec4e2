//! Reads events back, to send them.

use std::{io, path::PathBuf};

use prost::Message;
use sluicegate_proto::usage::v1::UsageEvent;

use crate::{
    clock::Moment,
    frame::{Next, records},
    journal::Shared,
    outbox::{MAX_BATCH_BYTES, MAX_BATCH_EVENTS},
    record::Stored,
    segment,
};

/// Left for what a batch has besides its events.
const BATCH_HEAD_BYTES: usize = 1024;
/// Most bytes that one event needs besides its own: tag and length.
const EVENT_HEAD_BYTES: usize = 6;

/// Consecutive events.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Number of the first one; without events: of the one that will come next.
    pub(crate) first_seq: u64,
    pub(crate) events: Vec<UsageEvent>,
    /// When the first one was written.
    pub(crate) oldest: Option<Moment>,
    bytes: usize,
}

impl Run {
    fn next_seq(&self) -> u64 {
        self.first_seq + self.events.len() as u64
    }

    /// Adds the next event; `false`: it does not fit any more.
    fn add(&mut self, at: Moment, now: Moment, mut event: UsageEvent) -> bool {
        event.age_ms = event.age_ms.saturating_add(now.since(at));
        let bytes = event.encoded_len() + EVENT_HEAD_BYTES;
        let fits = self.bytes + bytes <= MAX_BATCH_BYTES - BATCH_HEAD_BYTES;
        // One that is too large for any batch goes alone.
        if self.events.len() >= MAX_BATCH_EVENTS || !(fits || self.events.is_empty()) {
            return false;
        }
        self.oldest.get_or_insert(at);
        self.bytes += bytes;
        self.events.push(event);
        true
    }
}

/// Part of one segment.
struct Stretch {
    path: PathBuf,
    index: u32,
    offset: u64,
    end: u64,
    /// Number of the first event that is wanted.
    first: u64,
    /// Number of the last event that may be sent.
    last: u64,
}

impl Shared {
    /// The events of a source from number `from` on, or from the first one that is left, as many as
    /// fit into a batch and are on the disk. `None`: the source is gone. Blocks on the disk.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(crate) fn read(&self, source: u64, from: u64, now: Moment) -> io::Result<Option<Run>> {
        let mut run = Run { first_seq: from, ..Run::default() };
        loop {
            let stretch = match self.stretch(source, run.next_seq()) {
                Found::Gone => return Ok(None),
                Found::Nothing { next_seq } => {
                    if run.events.is_empty() {
                        run.first_seq = next_seq;
                    }
                    return Ok(Some(run));
                }
                Found::Stretch(stretch) => stretch,
            };
            if stretch.first != run.next_seq() {
                if !run.events.is_empty() {
                    return Ok(Some(run));
                }
                run.first_seq = stretch.first;
            }
            match fill(&mut run, &stretch, now)? {
                Filled::Full => return Ok(Some(run)),
                Filled::Through => {}
                Filled::Damaged(reason) => self.damaged(source, &stretch, &run, &reason),
            }
        }
    }

    /// Where the event `seq` is, or the first one after it.
    fn stretch(&self, source: u64, seq: u64) -> Found {
        let mut state = self.lock();
        let Some(source) = state.source_mut(source) else { return Found::Gone };
        match source.find(seq) {
            Some((segment, first)) if first <= source.synced_seq => Found::Stretch(Stretch {
                path: segment.path.clone(),
                index: segment.index,
                offset: segment.place_of(first),
                end: segment.bytes,
                first,
                last: segment.last_seq.min(source.synced_seq),
            }),
            // Not yet.
            Some((_, first)) => Found::Nothing { next_seq: first },
            None => Found::Nothing { next_seq: source.book.next_seq },
        }
    }

    fn damaged(&self, source: u64, stretch: &Stretch, run: &Run, reason: &str) {
        let mut state = self.lock();
        let last_good = run.next_seq() - 1;
        let lost =
            state.source_mut(source).map_or(0, |source| source.damaged(stretch.index, last_good));
        drop(state);
        self.lose(lost);
        tracing::error!(
            file = %stretch.path.display(), lost, after = last_good,
            "events of the usage journal cannot be read again and will not be counted: {reason}"
        );
    }
}

enum Found {
    Gone,
    Nothing { next_seq: u64 },
    Stretch(Stretch),
}

enum Filled {
    /// Nothing more fits.
    Full,
    /// All of the stretch is in.
    Through,
    Damaged(String),
}

fn fill(run: &mut Run, stretch: &Stretch, now: Moment) -> io::Result<Filled> {
    let mut frames = match segment::read_from(&stretch.path, stretch.offset, stretch.end) {
        Ok(frames) => frames,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Filled::Damaged(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    while run.next_seq() <= stretch.last {
        let body = match frames.next() {
            Ok(Next::Frame { body, .. }) => body,
            Ok(Next::End | Next::Bad) => return Ok(Filled::Damaged("damaged".to_owned())),
            Err(error) => return Ok(Filled::Damaged(error.to_string())),
        };
        for stored in records(body) {
            let Stored::Event { seq, at, event, .. } = stored else { continue };
            if seq < run.next_seq() || seq > stretch.last {
                continue;
            }
            if seq > run.next_seq() {
                return Ok(Filled::Damaged(format!("event {} is missing", run.next_seq())));
            }
            let Ok(event) = UsageEvent::decode(event) else {
                return Ok(Filled::Damaged(format!("event {seq} is malformed")));
            };
            if !run.add(at, now, event) {
                return Ok(Filled::Full);
            }
        }
    }
    Ok(Filled::Through)
}
