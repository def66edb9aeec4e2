//! Cutting a byte stream into server-sent events, whatever its segmentation and line ends.
//! (Format: WHATWG HTML, section 9.2 "Server-sent events".)
//!
//! An event leaves the framer as soon as its last byte is there; nothing waits for a later chunk.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Largest event that is accepted unless the framer is told otherwise, in bytes.
pub const MAX_EVENT: usize = 16 * 1024 * 1024;

/// A byte order mark, which may stand at the very beginning of a stream.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// An event grew over the framer's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct EventTooLarge {
    pub limit: usize,
}

/// One block of the stream, up to and with its blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes as they came.
    raw: Bytes,
    data: Data,
    /// Value of the `event` field.
    event: Option<Range<usize>>,
    /// Is it already in the form that [`Frame::to_wire`] writes?
    canonical: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Data {
    /// No `data` field: comments, or fields that only a browser uses.
    None,
    One(Range<usize>),
    /// Several lines, joined.
    Joined(Bytes),
}

impl Frame {
    /// An event that came by another way than this format: its name and its data.
    pub(crate) fn named(name: &str, data: Bytes) -> Self {
        let mut raw = BytesMut::with_capacity(name.len() + data.len());
        raw.extend_from_slice(name.as_bytes());
        raw.extend_from_slice(&data);
        let split = name.len();
        let data = Data::One(split..raw.len());
        Self { raw: raw.freeze(), data, event: Some(0..split), canonical: false }
    }

    /// The same event where its JSON holds halves of characters, with these replaced.
    pub(crate) fn mended(&self) -> Option<Self> {
        let data = self.data()?;
        let mended = crate::json::mended(&data);
        (mended != data).then(|| Self::named(self.event().unwrap_or_default(), mended))
    }

    /// JSON that stands in the stream without a field's name before it, as some servers write their
    /// errors.
    pub fn bare_json(&self) -> Option<&[u8]> {
        let text = self.raw.trim_ascii();
        let is_bare = self.data == Data::None && matches!(text.first(), Some(b'{' | b'['));
        is_bare.then_some(text)
    }

    /// What the `data` fields say; `None` when there is none.
    pub fn data(&self) -> Option<Bytes> {
        match &self.data {
            Data::None => None,
            Data::One(span) => Some(self.raw.slice(span.clone())),
            Data::Joined(joined) => Some(joined.clone()),
        }
    }

    /// The event's name, when it has one that is text.
    pub fn event(&self) -> Option<&str> {
        std::str::from_utf8(self.raw.get(self.event.clone()?)?).ok()
    }

    /// The bytes as they came.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The event as the gateway writes it: `data: ` with one space and line feeds. The bytes
    /// themselves when they are in that form already.
    pub fn to_wire(&self) -> Bytes {
        if self.canonical {
            return self.raw.clone();
        }
        match self.data() {
            Some(data) => write_event(self.event(), &data),
            None => comments(&self.raw),
        }
    }

    /// The same event with other data.
    pub fn with_data(&self, data: &[u8]) -> Bytes {
        write_event(self.event(), data)
    }
}

/// One event in wire form.
pub fn write_event(event: Option<&str>, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 16 + event.map_or(0, |name| name.len() + 8));
    if let Some(name) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    for line in data.split(|byte| *byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// The comment lines of a block, in wire form; empty when it has none.
fn comments(raw: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    for line in
        raw.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| line.starts_with(b":"))
    {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n");
    }
    if !out.is_empty() {
        out.extend_from_slice(b"\n");
    }
    out.freeze()
}

/// Takes chunks, gives frames.
#[derive(Debug)]
pub struct Framer {
    /// A chunk that arrived when nothing was pending: frames are cut from it without a copy.
    whole: Bytes,
    /// An unfinished frame and what followed it.
    joined: BytesMut,
    /// Where the line that is being looked at begins, and how far it was looked at.
    line: usize,
    seen: usize,
    /// The last byte was the CR of a line end; an LF that follows belongs to it.
    swallow_lf: bool,
    /// Nothing was read yet: a byte order mark may come.
    at_start: bool,
    limit: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT)
    }
}

impl Framer {
    /// A framer that refuses events over `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            whole: Bytes::new(),
            joined: BytesMut::new(),
            line: 0,
            seen: 0,
            swallow_lf: false,
            at_start: true,
            limit,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if self.whole.is_empty() && self.joined.is_empty() {
            self.whole = chunk;
            return;
        }
        if !self.whole.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.whole));
        }
        self.joined.extend_from_slice(&chunk);
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// When an unfinished event is over the limit. The stream cannot be read any further.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, EventTooLarge> {
        self.skip_prefix();
        loop {
            let pending = self.pending();
            let Some(offset) =
                pending.get(self.seen..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest))
            else {
                self.seen = pending.len();
                return self.check_limit().map(|()| None);
            };
            let end = self.seen + offset;
            let blank = end == self.line;
            let cr = pending.get(end) == Some(&b'\r');
            let after = end + 1;
            let crlf = cr && pending.get(after) == Some(&b'\n');
            let next = if crlf { after + 1 } else { after };
            if blank {
                self.swallow_lf = cr && !crlf && after == pending.len();
                let raw = self.take(next);
                // Blank lines between frames are no frames.
                if end == 0 {
                    self.skip_prefix();
                    continue;
                }
                return Ok(Some(parse(raw)));
            }
            if cr && after == pending.len() {
                // The LF of this line end may still come; until it does, the line is not left, so
                // that it is not taken for a blank one.
                self.seen = end;
                return self.check_limit().map(|()| None);
            }
            self.line = next;
            self.seen = next;
        }
    }

    /// The stream ended. What is pending counts as an event if it has data: some servers leave the
    /// last blank line out.
    pub fn finish(&mut self) -> Option<Frame> {
        let rest = self.take(self.pending().len());
        if rest.is_empty() {
            return None;
        }
        let mut closed = BytesMut::from(rest.as_ref());
        closed.extend_from_slice(b"\n\n");
        let frame = parse(closed.freeze());
        (frame.data != Data::None || frame.bare_json().is_some()).then_some(frame)
    }

    fn pending(&self) -> &[u8] {
        if self.joined.is_empty() { &self.whole } else { &self.joined }
    }

    fn check_limit(&self) -> Result<(), EventTooLarge> {
        if self.pending().len() > self.limit {
            Err(EventTooLarge { limit: self.limit })
        } else {
            Ok(())
        }
    }

    fn skip_prefix(&mut self) {
        if self.swallow_lf && !self.pending().is_empty() {
            self.swallow_lf = false;
            if self.pending().first() == Some(&b'\n') {
                drop(self.take(1));
            }
        }
        if self.at_start && !self.pending().is_empty() {
            if self.pending().starts_with(BOM) {
                drop(self.take(BOM.len()));
                self.at_start = false;
            } else {
                // What is only the beginning of one may still become one.
                self.at_start = BOM.starts_with(self.pending());
            }
        }
    }

    fn take(&mut self, length: usize) -> Bytes {
        self.line = 0;
        self.seen = 0;
        if self.joined.is_empty() {
            self.whole.split_to(length.min(self.whole.len()))
        } else {
            let taken = self.joined.split_to(length.min(self.joined.len())).freeze();
            if self.joined.is_empty() {
                self.joined = BytesMut::new();
            }
            taken
        }
    }
}

/// Reads the fields of a whole block.
fn parse(raw: Bytes) -> Frame {
    let mut data = Data::None;
    let mut event = None;
    let mut others = false;
    let mut at = 0;
    while at < raw.len() {
        let rest = raw.get(at..).unwrap_or(&[]);
        let length = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or(&[]);
        let value = |field: &[u8]| {
            let skip = match line.get(field.len()..) {
                Some([b':', b' ', ..]) => 2,
                Some([b':', ..]) => 1,
                Some([]) => 0,
                _ => return None,
            };
            line.starts_with(field).then(|| at + field.len() + skip..at + length)
        };
        if let Some(span) = value(b"data") {
            data = match data {
                Data::None => Data::One(span),
                Data::One(first) => Data::Joined(join(&raw, first, span)),
                Data::Joined(joined) => Data::Joined(
                    [joined.as_ref(), b"\n", raw.get(span).unwrap_or(&[])].concat().into(),
                ),
            };
        } else if let Some(span) = value(b"event") {
            event = Some(span);
        } else if !line.is_empty() {
            others = true;
        }
        at += length + 1;
    }
    let canonical = match &data {
        Data::One(span) => {
            event.is_none()
                && !others
                && span.start == 6
                && raw.starts_with(b"data: ")
                && raw.len() == span.end + 2
                && raw.ends_with(b"\n\n")
        }
        Data::None | Data::Joined(_) => false,
    };
    Frame { raw, data, event, canonical }
}

fn join(raw: &Bytes, first: Range<usize>, second: Range<usize>) -> Bytes {
    let (first, second) = (raw.get(first).unwrap_or(&[]), raw.get(second).unwrap_or(&[]));
    [first, b"\n", second].concat().into()
}

#[cfg(test)]
mod tests;
