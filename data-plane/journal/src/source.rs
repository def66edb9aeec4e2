//! The files of one source, and writing to them.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    book::Book,
    clock::Moment,
    frame::{FrameBuf, records},
    record::{self, Cursor, Stored},
    segment::{self, Segment},
};

/// A segment that is written to is ended after this time when nothing in it is needed: 1 minute.
const OLD_MS: u64 = 60_000;

/// One start of one data plane: this one, or one that is dead.
#[derive(Debug)]
pub(crate) struct Source {
    folder: PathBuf,
    pub(crate) incarnation: u64,
    pub(crate) node_id: String,
    segment_bytes: u64,
    /// Oldest first.
    pub(crate) segments: VecDeque<Segment>,
    /// The last segment, while it is written to. A dead source has none until something is added.
    active: Option<Arc<File>>,
    next_index: u32,
    /// Of all segments.
    bytes: u64,
    pub(crate) book: Book,
    /// Files with something that may not be on the disk yet.
    unsynced: Vec<Arc<File>>,
    /// Events up to here are on the disk.
    pub(crate) synced_seq: u64,
    /// An acknowledgement is not written yet.
    cursor: Option<Cursor>,
    /// About when the oldest event that waits was written.
    pub(crate) oldest_waiting: Option<Moment>,
}

/// What a group commit has to bring to the disk.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) files: Vec<Arc<File>>,
    /// What is on the disk when they are.
    last_seq: u64,
    last_index: u32,
    /// The folder has new files.
    pub(crate) has_new: bool,
}

impl Source {
    pub(crate) fn new(
        folder: &Path,
        incarnation: u64,
        node_id: String,
        segment_bytes: u64,
    ) -> Self {
        Self {
            folder: folder.to_owned(),
            incarnation,
            node_id,
            segment_bytes,
            segments: VecDeque::new(),
            active: None,
            next_index: 1,
            bytes: 0,
            book: Book::default(),
            unsynced: Vec::new(),
            synced_seq: 0,
            cursor: None,
            oldest_waiting: None,
        }
    }

    /// Takes a segment that an earlier start has left.
    pub(crate) fn found(&mut self, segment: Segment) {
        self.next_index = segment.index.saturating_add(1);
        self.bytes += segment.bytes;
        self.segments.push_back(segment);
    }

    /// Everything that was found is on the disk.
    pub(crate) fn found_all(&mut self, now: Moment) {
        self.synced_seq = self.book.last_seq();
        self.segments.iter_mut().for_each(|segment| segment.durable = true);
        if self.waiting() > 0 {
            self.oldest_waiting = Some(now);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Events that are not acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.book.last_seq().saturating_sub(self.book.retention.acknowledged())
    }

    /// Numbers the frame's events and writes it, into a new segment if that is due or the present
    /// one fails. All of it is in the book then, or nothing.
    ///
    /// # Errors
    /// The disk refuses twice.
    pub(crate) fn append(&mut self, frame: &mut FrameBuf, now: Moment) -> io::Result<()> {
        let is_full = self.active.is_some()
            && self.segments.back().is_some_and(|segment| {
                segment.bytes - segment.checkpoint_bytes >= self.segment_bytes
            });
        if is_full && let Err(error) = self.rotate(now) {
            // The one that is full still takes it.
            tracing::debug!(%error, "no new segment of the usage journal");
        }
        if self.active.is_some() && self.write(frame, now).is_ok() {
            return Ok(());
        }
        self.rotate(now)?;
        self.write(frame, now)
    }

    fn write(&mut self, frame: &mut FrameBuf, now: Moment) -> io::Result<()> {
        let (Some(file), Some(segment)) = (&self.active, self.segments.back_mut()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (offset, first_seq) = (segment.bytes, self.book.next_seq);
        if let Err(error) = file.write_all_at(frame.seal(first_seq), offset) {
            // Half a frame is cut by whoever reads it, should cutting it here fail, too.
            if let Err(error) = file.set_len(offset) {
                tracing::debug!(%error, "a half-written record stays in the usage journal");
            }
            self.active = None;
            return Err(error);
        }
        segment.bytes += frame.len() as u64;
        self.bytes += frame.len() as u64;
        if frame.events() > 0 {
            segment.note_events(offset, first_seq, first_seq + frame.events() - 1);
            self.oldest_waiting.get_or_insert(now);
        }
        records(frame.body()).for_each(|stored| self.book.enter(&stored));
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, file)) {
            self.unsynced.push(file.clone());
        }
        Ok(())
    }

    /// Begins a new segment.
    ///
    /// # Errors
    /// It cannot be made; the present one stays.
    pub(crate) fn rotate(&mut self, now: Moment) -> io::Result<()> {
        let (index, first_seq) = (self.next_index, self.book.next_seq);
        let path = self.folder.join(segment::file_name(self.incarnation, index));
        let mut frame = segment::header(self.incarnation, &self.node_id, first_seq, now);
        self.book.checkpoint(&mut frame);
        // A name that failed once is not tried again.
        self.next_index = index.saturating_add(1);
        let (segment, file) = Segment::create(path, index, first_seq, &mut frame, now)?;
        let file = Arc::new(file);
        self.bytes += segment.bytes;
        self.segments.push_back(segment);
        self.unsynced.push(file.clone());
        self.active = Some(file);
        Ok(())
    }

    /// Begins to sync: hands out what is not on the disk. `None`: everything is.
    pub(crate) fn take_unsynced(&mut self) -> Option<Unsynced> {
        let files = std::mem::take(&mut self.unsynced);
        let last_index = self.segments.back().map_or(0, |segment| segment.index);
        (!files.is_empty()).then(|| Unsynced {
            files,
            last_seq: self.book.last_seq(),
            last_index,
            has_new: self.segments.iter().any(|segment| !segment.durable),
        })
    }

    /// It is on the disk now; with `failed`, the disk would not say so.
    pub(crate) fn synced(&mut self, what: &Unsynced, failed: bool) {
        self.synced_seq = self.synced_seq.max(what.last_seq);
        for segment in &mut self.segments {
            segment.durable |= !failed && segment.index <= what.last_index;
        }
        if failed {
            self.active = None;
        }
    }

    /// Notes an acknowledgement; it is written with the next [`Source::tidy`].
    pub(crate) fn acknowledge(&mut self, cursor: Cursor) {
        if self.book.acknowledge(&cursor) {
            self.cursor = Some(cursor);
        }
        if self.waiting() == 0 {
            self.oldest_waiting = None;
        }
    }

    /// Writes down the newest acknowledgement.
    fn write_cursor(&mut self, now: Moment) -> io::Result<()> {
        let Some(cursor) = self.cursor.take() else { return Ok(()) };
        let mut frame = FrameBuf::new();
        frame.push(|out| record::encode_cursor(out, &cursor));
        // Entering it once more changes nothing: it is the newest.
        let outcome = self.append(&mut frame, now);
        if outcome.is_err() {
            self.cursor = Some(cursor);
        }
        outcome
    }

    /// Writes down what was acknowledged, ends an old segment of which nothing is needed, and gives
    /// the files that may be deleted, to be deleted in this order.
    ///
    /// # Errors
    /// The disk refuses; nothing is lost, the next call does it.
    pub(crate) fn tidy(&mut self, now: Moment, is_dead: bool) -> io::Result<Vec<PathBuf>> {
        if is_dead && self.is_over() {
            self.active = None;
            self.bytes = 0;
            return Ok(self.segments.drain(..).map(|segment| segment.path).collect());
        }
        self.write_cursor(now)?;
        let released = self.book.retention.released();
        if !is_dead
            && self.segments.back().is_some_and(|active| {
                active.has_events()
                    && active.last_seq <= released
                    && now.since(active.created) >= OLD_MS
            })
        {
            self.rotate(now)?;
        }
        let mut done = Vec::new();
        while let [first, second, ..] = self.segments.make_contiguous()
            // What the first one knows besides its events is in the second's checkpoint.
            && second.durable
            && (!first.has_events() || first.last_seq <= released)
            && let Some(first) = self.segments.pop_front()
        {
            self.bytes -= first.bytes;
            done.push(first.path);
        }
        Ok(done)
    }

    /// A dead source of which nothing is needed any more.
    pub(crate) fn is_over(&self) -> bool {
        let last = self.segments.iter().rev().find(|segment| segment.has_events());
        last.is_none_or(|last| last.last_seq <= self.book.retention.released())
            && self.book.open.is_empty()
            && self.book.leases.is_empty()
    }

    /// Closes a lease of a dead source.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn close_lease(&mut self, lease: u64, now: Moment) -> io::Result<()> {
        if !self.book.leases.contains_key(&lease) {
            return Ok(());
        }
        let mut frame = FrameBuf::of(now, &[record::Record::LeaseClosed { lease }]);
        self.append(&mut frame, now)
    }

    /// The segment that has event `seq` or the first one after it, and that event's number.
    pub(crate) fn find(&self, seq: u64) -> Option<(&Segment, u64)> {
        let has_it = |segment: &&Segment| segment.has_events() && segment.last_seq >= seq;
        let segment = self.segments.iter().find(has_it)?;
        Some((segment, seq.max(segment.first_seq)))
    }

    /// Events after `last_good` in this segment cannot be read. Gives how many there were.
    pub(crate) fn damaged(&mut self, index: u32, last_good: u64) -> u64 {
        if self.segments.back().is_some_and(|segment| segment.index == index) {
            self.active = None;
        }
        let segment = self.segments.iter_mut().find(|segment| segment.index == index);
        segment.map_or(0, |segment| {
            let lost = segment.last_seq.saturating_sub(last_good);
            segment.last_seq = segment.last_seq.min(last_good);
            lost
        })
    }

    /// Enters what a segment of an earlier start says.
    pub(crate) fn replay(&mut self, stored: &Stored<'_>) {
        self.book.enter(stored);
    }
}
