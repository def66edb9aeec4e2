//! Cutting a byte stream into the messages of `application/vnd.amazon.eventstream`.
//!
//! A message is a prelude of three big-endian words (length of the whole, length of the headers,
//! CRC-32 of these two), headers, a payload, and the CRC-32 of all before it. (Format: AWS's
//! "Event stream encoding", as Smithy describes it.)

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    frame::{EventTooLarge, Frame, FrameError},
    sse::MAX_EVENT,
};

const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// Value types of headers, by their number: how long each is.
const STRING: u8 = 7;

/// Takes chunks, gives frames: the event's name is what `:event-type` or `:exception-type` says, with
/// `exception:` or `error:` before it where the message is one.
#[derive(Debug, Default)]
pub struct Framer {
    pending: BytesMut,
}

impl Framer {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.pending.extend_from_slice(chunk);
    }

    /// The next whole message; `None` until more bytes come.
    ///
    /// # Errors
    /// When a length or a checksum is wrong: where the next message begins, nobody knows.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prelude) = self.pending.get(..PRELUDE) else { return Ok(None) };
        let mut words = prelude;
        let (total, headers, checksum) = (words.get_u32(), words.get_u32(), words.get_u32());
        if crc32fast::hash(prelude.get(..8).unwrap_or_default()) != checksum {
            return Err(FrameError::Damaged("the checksum of a prelude is wrong"));
        }
        let (total, headers) = (size(total)?, size(headers)?);
        let Some(payload) = total.checked_sub(PRELUDE + headers + CHECKSUM) else {
            return Err(FrameError::Damaged("the lengths of a message do not fit together"));
        };
        if self.pending.len() < total {
            return Ok(None);
        }
        let message = self.pending.split_to(total).freeze();
        let mut end = message.get(total - CHECKSUM..).unwrap_or_default();
        if crc32fast::hash(message.get(..total - CHECKSUM).unwrap_or_default()) != end.get_u32() {
            return Err(FrameError::Damaged("the checksum of a message is wrong"));
        }
        let name = name(message.slice(PRELUDE..PRELUDE + headers))?;
        let start = PRELUDE + headers;
        Ok(Some(Frame::named(&name, message.slice(start..start + payload))))
    }
}

fn size(words: u32) -> Result<usize, FrameError> {
    let size = usize::try_from(words).unwrap_or(usize::MAX);
    if size > MAX_EVENT { Err(EventTooLarge { limit: MAX_EVENT }.into()) } else { Ok(size) }
}

/// What the headers call the message.
fn name(mut headers: Bytes) -> Result<String, FrameError> {
    const DAMAGED: FrameError = FrameError::Damaged("a header is cut short");
    let (mut kind, mut event) = (String::new(), String::new());
    while headers.has_remaining() {
        let length = usize::from(headers.get_u8());
        let name = take(&mut headers, length).ok_or(DAMAGED)?;
        let value_type = headers.try_get_u8().map_err(|_| DAMAGED)?;
        let length = match value_type {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            6 | STRING => usize::from(headers.try_get_u16().map_err(|_| DAMAGED)?),
            9 => 16,
            _ => return Err(FrameError::Damaged("a header has a type that nobody knows")),
        };
        let value = take(&mut headers, length).ok_or(DAMAGED)?;
        let text = || String::from_utf8_lossy(&value).into_owned();
        match name.as_ref() {
            b":message-type" => kind = text(),
            b":event-type" | b":exception-type" | b":error-code" => event = text(),
            _ => {}
        }
    }
    Ok(match kind.as_str() {
        "" | "event" => event,
        other => format!("{other}:{event}"),
    })
}

fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (bytes.len() >= length).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests;
