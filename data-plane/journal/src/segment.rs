//! Segment files: their names, what is known of one, making one, going through one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Seek, SeekFrom},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    clock::{self, Moment},
    frame::{FrameBuf, Frames, Next, records},
    record::{FORMAT, Header, Stored, encode_header},
};

/// Between two remembered positions lies at least this much: 64 KiB.
const MARK_EVERY: u64 = 64 << 10;
/// Read at once.
const BUFFER: usize = 128 << 10;

/// One file of a source, as the memory has it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) index: u32,
    /// Its good part.
    pub(crate) bytes: u64,
    /// Size of its first frame.
    pub(crate) checkpoint_bytes: u64,
    /// Number of its first event, if it has any.
    pub(crate) first_seq: u64,
    /// Number of its last event; below `first_seq`: it has none.
    pub(crate) last_seq: u64,
    pub(crate) created: Moment,
    /// Its checkpoint is on the disk for sure.
    pub(crate) durable: bool,
    /// Some events and where their frames begin, ascending.
    marks: Vec<Mark>,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    seq: u64,
    offset: u64,
}

impl Segment {
    /// Makes the file of a new segment, its first frame in it.
    ///
    /// # Errors
    /// The file cannot be made or written. Nothing of it is left then.
    pub(crate) fn create(
        path: PathBuf,
        index: u32,
        first_seq: u64,
        frame: &mut FrameBuf,
        now: Moment,
    ) -> io::Result<(Self, File)> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let bytes = frame.seal(0);
        if let Err(error) = file.write_all_at(bytes, 0) {
            drop(file);
            remove(&path);
            return Err(error);
        }
        let bytes = bytes.len() as u64;
        let segment = Self {
            path,
            index,
            bytes,
            checkpoint_bytes: bytes,
            first_seq,
            last_seq: first_seq.saturating_sub(1),
            created: now,
            durable: false,
            marks: Vec::new(),
        };
        Ok((segment, file))
    }

    pub(crate) fn has_events(&self) -> bool {
        self.last_seq >= self.first_seq
    }

    /// Remembers a frame with events that was written at `offset`.
    pub(crate) fn note_events(&mut self, offset: u64, first: u64, last: u64) {
        if self.marks.last().is_none_or(|mark| offset >= mark.offset + MARK_EVERY) {
            self.marks.push(Mark { seq: first, offset });
        }
        self.last_seq = last;
    }

    /// A place from which on the event `seq` will be met.
    pub(crate) fn place_of(&self, seq: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.seq <= seq);
        let mark = after.checked_sub(1).and_then(|at| self.marks.get(at));
        mark.map_or(0, |mark| mark.offset)
    }
}

/// Header of a segment.
pub(crate) fn header(incarnation: u64, node_id: &str, first_seq: u64, now: Moment) -> FrameBuf {
    let header = Header {
        format: FORMAT,
        incarnation,
        node_id: node_id.to_owned(),
        first_seq,
        wall_ms: now.wall_ms,
        boot_ms: now.boot_ms,
        boot_id: clock::boot_id().to_owned(),
    };
    let mut frame = FrameBuf::new();
    frame.push(|out| encode_header(out, &header));
    frame
}

/// Name of a segment's file.
pub(crate) fn file_name(incarnation: u64, index: u32) -> String {
    format!("{incarnation:016x}-{index:08}.seg")
}

/// Incarnation and index in a file's name.
pub(crate) fn parse_name(name: &str) -> Option<(u64, u32)> {
    let (incarnation, index) = name.strip_suffix(".seg")?.split_once('-')?;
    let parsed = (u64::from_str_radix(incarnation, 16).ok()?, index.parse().ok()?);
    (file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// Opens a file for reading from `offset` to `end`.
pub(crate) fn read_from(path: &Path, offset: u64, end: u64) -> io::Result<Frames<BufReader<File>>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(Frames::new(BufReader::with_capacity(BUFFER, file), offset, end))
}

/// What a file turned out to be.
#[derive(Debug)]
pub(crate) enum Scanned {
    /// A segment; `cut` bytes at its end are no whole frame.
    Segment { segment: Segment, node_id: String, cut: u64 },
    /// It was never finished: not even its first frame is whole, and nothing can follow it.
    Unborn,
    /// Its first frame is damaged.
    Damaged,
    /// Its format is newer than this version.
    Newer(u32),
}

/// Goes through a file from an earlier start and hands every record on.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn scan(
    path: &Path,
    index: u32,
    mut enter: impl FnMut(&Stored<'_>),
) -> io::Result<Scanned> {
    let length = fs::metadata(path)?.len();
    let mut frames = read_from(path, 0, length)?;
    let Ok(Next::Frame { body, .. }) = frames.next() else {
        return Ok(if begins_unwritten(path, length)? {
            Scanned::Unborn
        } else {
            Scanned::Damaged
        });
    };
    let first_frame = body.to_vec();
    let Some(Stored::Header(header)) = records(&first_frame).next() else {
        return Ok(Scanned::Damaged);
    };
    if header.format > FORMAT {
        return Ok(Scanned::Newer(header.format));
    }
    records(&first_frame).for_each(|stored| enter(&stored));
    let mut segment = Segment {
        path: path.to_owned(),
        index,
        bytes: length,
        checkpoint_bytes: frames.offset(),
        first_seq: header.first_seq,
        last_seq: header.first_seq.saturating_sub(1),
        created: Moment::default(),
        durable: false,
        marks: Vec::new(),
    };
    // What cannot be read is no better than what was not written.
    while let Ok(Next::Frame { offset, body }) = frames.next() {
        let mut events = None;
        for stored in records(body) {
            if let Stored::Event { seq, .. } = stored {
                events = Some((events.map_or(seq, |(first, _)| first), seq));
            }
            enter(&stored);
        }
        if let Some((first, last)) = events {
            segment.note_events(offset, first, last);
        }
    }
    segment.bytes = frames.offset();
    Ok(Scanned::Segment { cut: length - segment.bytes, segment, node_id: header.node_id })
}

/// Does the file break off within its first frame, or hold only zeros? So it looks when the process
/// or the machine died while it was being made.
fn begins_unwritten(path: &Path, length: u64) -> io::Result<bool> {
    let bytes = fs::read(path)?;
    let declared = bytes.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length)));
    let breaks_off = declared.is_none_or(|declared| declared + crate::frame::HEAD as u64 > length);
    Ok(breaks_off || bytes.iter().all(|&byte| byte == 0))
}

/// Removes a file; one that is not there is fine.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, file = %path.display(), "a part of the usage journal cannot be deleted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = file_name(0xfeed, 12);
        assert_eq!(name, "000000000000feed-00000012.seg");
        assert_eq!(parse_name(&name), Some((0xfeed, 12)));
        for other in ["journal.lock", "feed-12.seg", "000000000000FEED-00000012.seg", "x.seg"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_place_is_at_or_before_its_event() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame = header(1, "n", 10, Moment::default());
        let path = folder.path().join(file_name(1, 1));
        let (mut segment, _) = Segment::create(path, 1, 10, &mut frame, Moment::default()).unwrap();
        assert_eq!(segment.place_of(10), 0);
        for step in 0..100 {
            segment.note_events(100 + step * 10_000, 10 + step * 2, 11 + step * 2);
        }
        assert!(segment.marks.len() < 20, "{}", segment.marks.len());
        for seq in 10..210 {
            let offset = 100 + (seq - 10) / 2 * 10_000;
            let place = segment.place_of(seq);
            assert!(place <= offset && place + MARK_EVERY + 10_000 > offset, "{seq}: {place}");
        }
    }
}
