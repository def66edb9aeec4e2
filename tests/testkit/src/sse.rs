//! A strict reader of `text/event-stream`, after the WHATWG specification, that also keeps the raw
//! lines and the time at which each event became complete.

use bytes::Bytes;
use tokio::time::Instant;

/// One dispatched event.
#[derive(Debug, Clone)]
pub struct Event {
    /// When its closing blank line arrived.
    pub at: Instant,
    /// The last `event:` field.
    pub name: Option<String>,
    /// All `data:` fields joined by LF; `None` when there was none.
    pub data: Option<String>,
    /// The last `id:` field.
    pub id: Option<String>,
    /// The lines as they came, without their line ends.
    pub lines: Vec<Bytes>,
}

/// Push bytes in as they arrive, read events out.
#[derive(Debug, Default)]
pub struct SseParser {
    /// Every event so far.
    pub events: Vec<Event>,
    /// Comment lines, with their colon.
    pub comments: Vec<Bytes>,
    /// Whether a field held bytes that are not UTF-8.
    pub invalid_utf8: bool,
    line: Vec<u8>,
    block: Vec<Bytes>,
    past_first_line: bool,
    after_cr: bool,
}

impl SseParser {
    /// Takes the next bytes of the body, which arrived at `at`.
    pub fn push(&mut self, bytes: &[u8], at: Instant) {
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' => self.end_line(at),
                b'\r' => {
                    self.after_cr = true;
                    self.end_line(at);
                }
                _ => self.line.push(byte),
            }
        }
    }

    /// Bytes of an event that no blank line has closed.
    pub fn unfinished(&self) -> Option<String> {
        let mut rest = self.block.clone();
        if !self.line.is_empty() {
            rest.push(Bytes::copy_from_slice(&self.line));
        }
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest.join(&b'\n')).into_owned())
    }

    fn end_line(&mut self, at: Instant) {
        let mut line = Bytes::from(std::mem::take(&mut self.line));
        if !std::mem::replace(&mut self.past_first_line, true) && line.starts_with(b"\xef\xbb\xbf")
        {
            line = line.slice(3..);
        }
        match line.first() {
            None => self.dispatch(at),
            Some(b':') => self.comments.push(line),
            Some(_) => self.block.push(line),
        }
    }

    fn dispatch(&mut self, at: Instant) {
        let lines = std::mem::take(&mut self.block);
        if lines.is_empty() {
            return;
        }
        let (mut name, mut data, mut id) = (None, None::<String>, None);
        for line in &lines {
            let (field, value) = field(line);
            let value = match std::str::from_utf8(value) {
                Ok(value) => value.to_owned(),
                Err(_) => {
                    self.invalid_utf8 = true;
                    String::from_utf8_lossy(value).into_owned()
                }
            };
            match field {
                b"event" => name = Some(value),
                b"id" => id = Some(value),
                b"data" => {
                    data = Some(match data {
                        Some(before) => before + "\n" + &value,
                        None => value,
                    });
                }
                _ => {}
            }
        }
        self.events.push(Event { at, name, data, id, lines });
    }
}

/// Splits at the first colon and drops one space after it.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|&byte| byte == b':') {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_and_field_form_is_read() {
        check("data: a\n\n", &["a"]);
        check("data:a\n\n", &["a"]);
        check("data:  a\n\n", &[" a"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check(": ping\n\ndata: x: y\n\n", &["x: y"]);
        check("data: open\n", &[]);

        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let whole = [text.as_bytes()];
            let bytewise: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            for pieces in [&whole[..], &bytewise] {
                let mut parser = SseParser::default();
                for piece in pieces {
                    parser.push(piece, Instant::now());
                }
                let data: Vec<_> = parser.events.iter().filter_map(|e| e.data.as_deref()).collect();
                assert_eq!(data, expected, "{text:?}");
            }
        }
    }

    #[test]
    fn a_cut_event_stays_visible_and_bad_bytes_are_noted() {
        let mut parser = SseParser::default();
        parser.push(b"data: \xff\n\nevent: x\ndata: ha", Instant::now());
        assert!(parser.invalid_utf8);
        assert_eq!(parser.unfinished().as_deref(), Some("event: x\ndata: ha"));
    }
}
