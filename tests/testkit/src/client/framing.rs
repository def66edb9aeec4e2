//! Takes an HTTP/1.1 response apart, byte by byte as it arrives, and complains about every fault.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::net::{find, find_header, parse_head};

/// One thing the bytes said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A 1xx response.
    Informational(u16),
    Head {
        status: u16,
        headers: Vec<(String, String)>,
    },
    Data(Bytes),
    /// The body is complete.
    End,
    /// The framing is wrong.
    Problem(String),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(usize),
    ChunkSize,
    ChunkData(usize),
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
    Broken,
}

/// The state of one response on a connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    state: State,
    buffer: BytesMut,
    /// Whether the answer has no body whatever its head says, as it is with HEAD.
    bodiless: bool,
}

impl Framing {
    /// Takes the next bytes and gives what they say.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.buffer.extend_from_slice(bytes);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// The peer closed in an orderly way. Ends a body that has no other end.
    pub(super) fn close(&mut self) -> Option<Part> {
        let before = std::mem::replace(&mut self.state, State::Done);
        (before == State::UntilClose).then_some(Part::End)
    }

    /// Whether nothing more can come of this response.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Broken)
    }

    /// Ready for the next response on the same connection; bytes that came early are kept.
    pub(super) fn restart(&mut self) {
        self.state = State::Head;
        self.bodiless = false;
    }

    /// The next response answers a request with this method.
    pub(super) fn answers(&mut self, method: &str) {
        self.bodiless = method == "HEAD";
    }

    /// Does one thing; `false` when more bytes are needed.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Head => self.head(parts),
            State::Length(left) => {
                let rest = self.data(left, parts);
                self.state = State::Length(rest);
                rest == 0 && self.end(parts)
            }
            State::ChunkSize => match self.line() {
                Some(line) => self.chunk_size(&line, parts),
                None => false,
            },
            State::ChunkData(left) => {
                let rest = self.data(left, parts);
                self.state = if rest == 0 { State::ChunkEnd } else { State::ChunkData(rest) };
                rest == 0
            }
            State::ChunkEnd => {
                if self.buffer.len() < 2 {
                    return false;
                }
                if !self.buffer.starts_with(b"\r\n") {
                    return self.broken(parts, "no line end after a chunk".into());
                }
                self.buffer.advance(2);
                self.state = State::ChunkSize;
                true
            }
            State::Trailer => match self.line() {
                Some(line) if line.is_empty() => self.end(parts),
                Some(_) => true,
                None => false,
            },
            State::UntilClose => {
                self.data(usize::MAX, parts);
                false
            }
            State::Done | State::Broken => false,
        }
    }

    fn head(&mut self, parts: &mut Vec<Part>) -> bool {
        let Some(at) = find(&self.buffer, b"\r\n\r\n") else { return false };
        let head = self.buffer.split_to(at + 4);
        let (status_line, headers) = parse_head(&head);
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|code| code.parse::<u16>().ok());
        let Some(status) = status else {
            return self.broken(parts, format!("bad status line {status_line:?}"));
        };
        if (100..200).contains(&status) {
            parts.push(Part::Informational(status));
            return true;
        }
        let lengths: Vec<_> =
            headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case("content-length")).collect();
        let chunked = find_header(&headers, "transfer-encoding").map(str::to_ascii_lowercase);
        if lengths.len() > 1 {
            parts.push(Part::Problem("more than one content-length".into()));
        }
        if chunked.is_some() && !lengths.is_empty() {
            parts.push(Part::Problem("both content-length and transfer-encoding".into()));
        }
        self.state = match (status, chunked.as_deref(), lengths.first()) {
            (204 | 304, _, _) => State::Length(0),
            _ if self.bodiless => State::Length(0),
            (_, Some("chunked"), _) => State::ChunkSize,
            (_, Some(_), _) => State::UntilClose,
            (_, None, Some((_, value))) => match value.parse() {
                Ok(length) => State::Length(length),
                Err(_) => return self.broken(parts, format!("content-length {value:?}")),
            },
            (_, None, None) => State::UntilClose,
        };
        parts.push(Part::Head { status, headers });
        true
    }

    fn chunk_size(&mut self, line: &[u8], parts: &mut Vec<Part>) -> bool {
        let line = String::from_utf8_lossy(line);
        let size = line.split(';').next().unwrap_or_default().trim();
        self.state = match usize::from_str_radix(size, 16) {
            Ok(0) => State::Trailer,
            Ok(size) => State::ChunkData(size),
            Err(_) => return self.broken(parts, format!("bad chunk size {line:?}")),
        };
        true
    }

    /// Passes on at most `left` bytes; gives how many of them are still to come.
    fn data(&mut self, left: usize, parts: &mut Vec<Part>) -> usize {
        let n = left.min(self.buffer.len());
        if n > 0 {
            parts.push(Part::Data(self.buffer.split_to(n).freeze()));
        }
        left - n
    }

    fn line(&mut self) -> Option<BytesMut> {
        let at = find(&self.buffer, b"\r\n")?;
        let line = self.buffer.split_to(at);
        self.buffer.advance(2);
        Some(line)
    }

    fn end(&mut self, parts: &mut Vec<Part>) -> bool {
        self.state = State::Done;
        parts.push(Part::End);
        false
    }

    fn broken(&mut self, parts: &mut Vec<Part>, problem: String) -> bool {
        self.state = State::Broken;
        parts.push(Part::Problem(problem));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_delimited_by_length_chunks_or_close() {
        check("content-length: 2\r\n\r\nhi", "hi", true);
        check("content-length: 3\r\n\r\nhi", "hi", false);
        check("content-length: 0\r\n\r\n", "", true);
        check("transfer-encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n", "hi", true);
        check("transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", "hi", false);
        check("\r\nhi", "hi", false);

        #[track_caller]
        fn check(after_status_line: &str, body: &str, complete: bool) {
            let text = format!("HTTP/1.1 200 OK\r\n{after_status_line}");
            for size in [1, text.len()] {
                let mut framing = Framing::default();
                let parts: Vec<Part> =
                    text.as_bytes().chunks(size).flat_map(|piece| framing.push(piece)).collect();
                let data: Vec<u8> = parts
                    .iter()
                    .filter_map(|part| match part {
                        Part::Data(data) => Some(data.to_vec()),
                        _ => None,
                    })
                    .flatten()
                    .collect();
                assert_eq!(String::from_utf8(data).unwrap(), body, "{text:?}");
                assert_eq!(parts.contains(&Part::End), complete, "{text:?}");
            }
        }
    }

    #[test]
    fn faults_are_named() {
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "bad chunk size");
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nhi\r\n", "no line end");
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n", "more than one");
        check("HTTP/0.9 200 OK\r\n\r\n", "bad status line");

        #[track_caller]
        fn check(text: &str, expected: &str) {
            let parts = Framing::default().push(text.as_bytes());
            let named = |part: &Part| matches!(part, Part::Problem(p) if p.contains(expected));
            assert!(parts.iter().any(named), "{text:?} gave {parts:?}");
        }
    }
}
