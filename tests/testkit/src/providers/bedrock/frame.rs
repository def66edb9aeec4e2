//! The binary framing `application/vnd.amazon.eventstream`.

use bytes::{BufMut as _, Bytes, BytesMut};

/// Bytes before the headers: two lengths and their checksum.
const PRELUDE: usize = 12;

/// Bytes of the checksum at the end.
const CHECKSUM: usize = 4;

/// The type of a header that is a text.
const TEXT: u8 = 7;

/// A message with headers that are texts.
///
/// Both lengths and both checksums (CRC-32 of the two lengths, and of all that stands before) are
/// right. Panics on a header name of more than 255 bytes, or a value of more than 65535.
pub fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Bytes {
    let mut block = BytesMut::new();
    for (name, value) in headers {
        block.put_u8(u8::try_from(name.len()).expect("a header's name is at most 255 bytes long"));
        block.put_slice(name.as_bytes());
        block.put_u8(TEXT);
        block.put_u16(u16::try_from(value.len()).expect("a header's value is at most 64 KiB long"));
        block.put_slice(value.as_bytes());
    }
    let total = PRELUDE + block.len() + payload.len() + CHECKSUM;
    let length = |n: usize| u32::try_from(n).expect("a message is shorter than 4 GiB");
    let mut message = BytesMut::with_capacity(total);
    message.put_u32(length(total));
    message.put_u32(length(block.len()));
    message.put_u32(crc32fast::hash(&message));
    message.put_slice(&block);
    message.put_slice(payload);
    message.put_u32(crc32fast::hash(&message));
    message.freeze()
}

/// An event of that type with a JSON payload.
pub(super) fn event(kind: &str, payload: &str) -> Bytes {
    let headers =
        [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
    encode(&headers, payload.as_bytes())
}

/// An exception of that type with a JSON payload.
pub(super) fn exception(kind: &str, payload: &str) -> Bytes {
    let headers = [
        (":exception-type", kind),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    encode(&headers, payload.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths and checksums that the specification's own samples have.
    #[test]
    fn messages_are_those_of_the_specification() {
        let empty = [
            0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98,
            0xc8, 0xff,
        ];
        assert_eq!(&encode(&[], b"")[..], empty);
        let payload = encode(&[], b"{'foo':'bar'}");
        assert_eq!(payload[..12], [0, 0, 0, 0x1d, 0, 0, 0, 0, 0xfd, 0x52, 0x8c, 0x5a]);
        assert_eq!(payload[25..], [0xc3, 0x65, 0x39, 0x36]);
    }

    #[test]
    fn headers_stand_between_the_prelude_and_the_payload() {
        let message = event("messageStop", "{}");
        let read = |at: usize| {
            u32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]])
        };
        let (total, headers) = (read(0), read(4));
        assert_eq!(usize::try_from(total).unwrap(), message.len());
        let end = 12 + usize::try_from(headers).unwrap();
        assert_eq!(&message[end..message.len() - 4], b"{}");
        assert_eq!(&message[12..27], b"\x0b:event-type\x07\x00\x0b");
        // A changed byte is seen by the checksum.
        let mut changed = message.to_vec();
        changed[20] ^= 1;
        assert_ne!(crc32fast::hash(&changed[..changed.len() - 4]), read(message.len() - 4));
        assert_eq!(crc32fast::hash(&message[..message.len() - 4]), read(message.len() - 4));
    }
}
