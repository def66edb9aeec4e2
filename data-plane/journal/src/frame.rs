//! Frames: what was written together is read together, or not at all.
//!
//! A frame is a length and a CRC-32 (four bytes each, little-endian; the checksum covers the length,
//! too), then records: a kind (one byte), a length (four), a payload. Zeros, as a power cut leaves
//! them behind, are no frame.

use std::io::{self, Read};

use bytes::{Buf, BufMut};

use crate::{
    clock::Moment,
    record::{self, Record, Stored, kind},
};

/// Length and checksum.
pub(crate) const HEAD: usize = 8;

/// A frame on its way to the disk.
#[derive(Debug)]
pub(crate) struct FrameBuf {
    bytes: Vec<u8>,
    /// Where the numbers of the events stand.
    numbers: Vec<usize>,
}

impl FrameBuf {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.resize(HEAD, 0);
        Self { bytes, numbers: Vec::new() }
    }

    /// A frame of these records, written at this moment.
    pub(crate) fn of(now: Moment, records: &[Record<'_>]) -> Self {
        let mut frame = Self::new();
        for record in records {
            frame.push(|out| record::encode(out, now, record));
        }
        frame
    }

    /// Adds a record; `encode` writes its payload and gives its kind.
    pub(crate) fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> u8) {
        let start = self.bytes.len();
        self.bytes.put_bytes(0, 5);
        let payload = self.bytes.len();
        let kind = encode(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - payload).unwrap_or(u32::MAX);
        if let Some(mut head) = self.bytes.get_mut(start..payload) {
            head.put_u8(kind);
            head.put_u32_le(length);
        }
        if kind == kind::EVENT {
            self.numbers.push(payload);
        }
    }

    /// How many events it has.
    pub(crate) fn events(&self) -> u64 {
        self.numbers.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Numbers the events from `first_seq` on and gives the bytes for the disk. Cheap: it is done
    /// under the writer's lock.
    pub(crate) fn seal(&mut self, first_seq: u64) -> &[u8] {
        let events = self.numbers.iter();
        for (&at, seq) in events.zip(first_seq..) {
            if let Some(mut number) = self.bytes.get_mut(at..at + 8) {
                number.put_u64_le(seq);
            }
        }
        let (mut head, body) = self.bytes.split_at_mut(HEAD);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let sum = checksum(length, body);
        head.put_u32_le(length);
        head.put_u32_le(sum);
        &self.bytes
    }

    /// The records, as a reader will see them.
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(HEAD..).unwrap_or_default()
    }
}

fn checksum(length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// What comes next in a file.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    /// A whole frame's records, and where the frame begins.
    Frame { offset: u64, body: &'a [u8] },
    /// The file ends here, properly.
    End,
    /// What follows is no frame: it was not written to its end, or is damaged.
    Bad,
}

/// Reads the frames of one file in order.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    offset: u64,
    end: u64,
    body: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// `input` stands at `offset`; nothing at or after `end` is looked at.
    pub(crate) fn new(input: R, offset: u64, end: u64) -> Self {
        Self { input, offset, end, body: Vec::new() }
    }

    /// Where the next frame begins; after `Bad`: where the good part ends.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        let left = self.end.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Next::End);
        }
        let Some(room) = left.checked_sub(HEAD as u64) else { return Ok(Next::Bad) };
        let mut head = [0; HEAD];
        if !filled(self.input.read_exact(&mut head))? {
            return Ok(Next::Bad);
        }
        let mut head = head.as_slice();
        let (length, sum) = (head.get_u32_le(), head.get_u32_le());
        if length == 0 || u64::from(length) > room {
            return Ok(Next::Bad);
        }
        self.body.resize(length as usize, 0);
        if !filled(self.input.read_exact(&mut self.body))? || checksum(length, &self.body) != sum {
            return Ok(Next::Bad);
        }
        let offset = self.offset;
        self.offset += HEAD as u64 + u64::from(length);
        Ok(Next::Frame { offset, body: &self.body })
    }
}

/// Was the buffer filled? A file that turned out shorter than it was is no error.
fn filled(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The records of a frame. Kinds that this version does not know are passed over.
pub(crate) fn records(mut body: &[u8]) -> impl Iterator<Item = Stored<'_>> {
    std::iter::from_fn(move || {
        let kind = body.try_get_u8().ok()?;
        let length = body.try_get_u32_le().ok()? as usize;
        let (payload, rest) = body.split_at_checked(length)?;
        body = rest;
        Some(record::decode(kind, payload))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64) -> Vec<u8> {
        let event = Default::default();
        let mut frame = FrameBuf::of(
            Moment::default(),
            &[
                Record::Dropped { request: 1, attempt: 2 },
                Record::Event { request: 3, event: &event },
            ],
        );
        frame.seal(seq).to_vec()
    }

    #[test]
    fn d4_any_cut_or_flipped_byte_ends_the_reading_before_its_frame() {
        let (first, second) = (frame(1), frame(2));
        let whole = [first.clone(), second].concat();
        let count = |bytes: &[u8]| {
            let mut frames = Frames::new(bytes, 0, bytes.len() as u64);
            let mut good = 0;
            loop {
                match frames.next().unwrap() {
                    Next::Frame { .. } => good += 1,
                    Next::End => return (good, true, frames.offset()),
                    Next::Bad => return (good, false, frames.offset()),
                }
            }
        };
        for cut in 0..=whole.len() {
            let good = cut / first.len();
            let end = (good * first.len()) as u64;
            assert_eq!(count(&whole[..cut]), (good, cut % first.len() == 0, end), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(count(&damaged).0, at / first.len(), "flipped at {at}");
        }
        assert_eq!(count(&[whole.as_slice(), &[0; 4096]].concat()).0, 2, "zeros are no frame");
    }

    #[test]
    fn unknown_kinds_are_passed_over() {
        let mut frame = FrameBuf::new();
        frame.push(|out| {
            out.put_slice(b"of tomorrow");
            200
        });
        frame.push(|out| record::encode(out, Moment::default(), &Record::LeaseClosed { lease: 9 }));
        let seen: Vec<_> = records(frame.body()).collect();
        assert!(matches!(seen.as_slice(), [Stored::LeaseClosed { lease: 9 }]), "{seen:?}");
    }
}
