use proptest::prelude::*;

use super::*;

/// A header of a message: its name, the number of its type, its value as it is written.
type Header<'a> = (&'a str, u8, Vec<u8>);

/// Writes a message by the format's description, apart from the reader.
fn message(headers: &[Header<'_>], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, kind, value) in headers {
        block.push(u8::try_from(name.len()).unwrap());
        block.extend_from_slice(name.as_bytes());
        block.push(*kind);
        block.extend_from_slice(value);
    }
    let total = u32::try_from(16 + block.len() + payload.len()).unwrap();
    let mut out = total.to_be_bytes().to_vec();
    out.extend_from_slice(&u32::try_from(block.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out.extend_from_slice(&block);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out
}

/// CRC-32 bit by bit, so that the reader's own is not checked against itself.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn text(value: &str) -> Vec<u8> {
    let mut out = u16::try_from(value.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(value.as_bytes());
    out
}

fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers = [
        (":event-type", 7, text(name)),
        (":content-type", 7, text("application/json")),
        (":message-type", 7, text("event")),
    ];
    message(&headers, payload.as_bytes())
}

type Seen = Vec<(String, Vec<u8>)>;

/// Reads everything, cut before each of these bytes.
fn read_cut(stream: &[u8], cuts: &[usize]) -> Result<(Seen, Framer), FrameError> {
    let mut framer = Framer::default();
    let mut seen = Vec::new();
    let mut start = 0;
    for cut in cuts.iter().copied().chain([stream.len()]) {
        framer.push(&stream[start..cut]);
        start = cut;
        while let Some(frame) = framer.next_frame()? {
            seen.push((frame.event().unwrap().to_owned(), frame.data().unwrap().to_vec()));
        }
    }
    Ok((seen, framer))
}

fn read(stream: &[u8]) -> Result<Seen, FrameError> {
    read_cut(stream, &[]).map(|(seen, _)| seen)
}

fn two() -> Vec<u8> {
    [event("messageStart", r#"{"role":"assistant"}"#), event("messageStop", "{}")].concat()
}

#[test]
fn c4_messages_read_the_same_however_they_are_cut() {
    let stream = two();
    let whole = read(&stream).unwrap();
    assert_eq!(whole.len(), 2);
    assert_eq!(whole[0], ("messageStart".to_owned(), br#"{"role":"assistant"}"#.to_vec()));
    let every: Vec<_> = (1..stream.len()).collect();
    assert_eq!(read_cut(&stream, &every).unwrap().0, whole);
    for first in 0..stream.len() {
        for second in [first, (first + 7).min(stream.len()), stream.len()] {
            assert_eq!(read_cut(&stream, &[first, second]).unwrap().0, whole, "{first} {second}");
        }
    }
}

#[test]
fn a_message_leaves_with_its_last_byte() {
    let stream = event("messageStop", "{}");
    let mut framer = Framer::default();
    framer.push(&stream[..stream.len() - 1]);
    assert_eq!(framer.next_frame(), Ok(None));
    framer.push(&stream[stream.len() - 1..]);
    assert_eq!(framer.next_frame().unwrap().unwrap().event(), Some("messageStop"));
}

#[test]
fn c3_a_stream_that_breaks_off_gives_no_half_message() {
    let stream = two();
    let first = event("messageStart", r#"{"role":"assistant"}"#).len();
    for length in 0..stream.len() {
        let (seen, _) = read_cut(&stream[..length], &[]).unwrap();
        assert_eq!(seen.len(), usize::from(length >= first), "{length}");
        let mut framer = crate::frame::Framing::AmazonEventStream.framer();
        framer.push(Bytes::copy_from_slice(&stream[..length]));
        while framer.next_frame().unwrap().is_some() {}
        assert_eq!(framer.finish(), None, "{length}");
    }
}

#[test]
fn c3_every_changed_byte_is_found() {
    let stream = event("contentBlockDelta", r#"{"delta":{"text":"A"}}"#);
    for at in 0..stream.len() {
        for bit in 0..8 {
            let mut changed = stream.clone();
            changed[at] ^= 1 << bit;
            let seen = read(&changed);
            assert!(seen.is_err(), "bit {bit} of byte {at}: {seen:?}");
        }
    }
}

#[test]
fn an_error_stays_one() {
    let mut stream = two();
    stream[9] ^= 1;
    let mut framer = Framer::default();
    framer.push(&stream);
    let first = framer.next_frame().unwrap_err();
    assert_eq!(first, FrameError::Damaged("the checksum of a prelude is wrong"));
    framer.push(&two());
    assert_eq!(framer.next_frame().unwrap_err(), first);
}

/// A prelude whose checksum is right, whatever its lengths.
fn prelude(total: u32, headers: u32) -> Vec<u8> {
    let mut out = [total.to_be_bytes(), headers.to_be_bytes()].concat();
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out
}

#[test]
fn lengths_are_checked_before_anything_is_kept() {
    let limit = u32::try_from(MAX_EVENT).unwrap();
    let too_large = FrameError::from(EventTooLarge { limit: MAX_EVENT });
    let unfit = FrameError::Damaged("the lengths of a message do not fit together");
    check(limit + 1, 0, Some(&too_large));
    check(u32::MAX, 0, Some(&too_large));
    check(64, u32::MAX, Some(&too_large));
    check(limit, 0, None);
    check(0, 0, Some(&unfit));
    check(15, 0, Some(&unfit));
    check(16, 1, Some(&unfit));
    check(64, 49, Some(&unfit));
    check(64, 48, None);

    #[track_caller]
    fn check(total: u32, headers: u32, fault: Option<&FrameError>) {
        let seen = read(&prelude(total, headers));
        assert_eq!(seen.as_ref().err(), fault, "{seen:?}");
    }
}

#[test]
fn headers_of_every_type_are_passed_over() {
    let headers = [
        ("a", 0, vec![]),
        ("b", 1, vec![]),
        ("c", 2, vec![1]),
        ("d", 3, vec![1; 2]),
        ("e", 4, vec![1; 4]),
        ("f", 5, vec![1; 8]),
        ("g", 6, text("bytes")),
        ("h", 7, text("text")),
        ("i", 8, vec![1; 8]),
        ("j", 9, vec![1; 16]),
        (":event-type", 7, text("metadata")),
    ];
    assert_eq!(read(&message(&headers, b"{}")).unwrap(), [("metadata".to_owned(), b"{}".to_vec())]);
    assert_eq!(read(&message(&[], b"")).unwrap(), [(String::new(), Vec::new())]);
}

#[test]
fn headers_that_do_not_fit_their_block_are_damage() {
    let cut = FrameError::Damaged("a header is cut short");
    check(&[("a", 2, vec![])], &cut);
    check(&[("a", 9, vec![1; 15])], &cut);
    check(&[("a", 7, vec![0])], &cut);
    check(&[("a", 7, vec![0, 9, b'x'])], &cut);
    let unknown = FrameError::Damaged("a header has a type that nobody knows");
    check(&[("a", 10, vec![])], &unknown);
    // A name that says that it is longer than the block.
    let block = [200_u8, b'a'];
    let mut out = prelude(18, 2);
    out.extend_from_slice(&block);
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    assert_eq!(read(&out).unwrap_err(), cut);
    // One that ends where its type should stand.
    let mut out = prelude(18, 2);
    out.extend_from_slice(&[1, b'a']);
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    assert_eq!(read(&out).unwrap_err(), cut);

    #[track_caller]
    fn check(headers: &[Header<'_>], fault: &FrameError) {
        assert_eq!(&read(&message(headers, b"{}")).unwrap_err(), fault);
    }
}

#[test]
fn c3_exceptions_and_errors_are_told_by_their_names() {
    check(":exception-type", "exception", "exception:throttlingException");
    check(":error-code", "error", "error:throttlingException");
    check(":event-type", "event", "throttlingException");
    check(":event-type", "news", "news:throttlingException");

    #[track_caller]
    fn check(header: &str, kind: &str, expected: &str) {
        let name = (header, 7, text("throttlingException"));
        let kind = (":message-type", 7, text(kind));
        for headers in [[name.clone(), kind.clone()], [kind, name]] {
            assert_eq!(read(&message(&headers, b"{}")).unwrap()[0].0, expected);
        }
    }
}

proptest! {
    /// What is written is read, whatever the names, payloads and cuts.
    #[test]
    fn c4_what_an_encoder_writes_is_read(
        messages in prop::collection::vec(
            ("[a-zA-Z]{0,30}", prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|(name, payload)| message(&[(":event-type", 7, text(name))], payload))
            .collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(read_cut(&stream, &cuts).unwrap().0, messages);
    }

    /// No bytes make the reader panic, and nothing is read behind damage.
    #[test]
    fn c3_no_bytes_do_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = read(&bytes);
        let cut = read_cut(&bytes, &cuts).map(|(seen, _)| seen);
        prop_assert_eq!(whole, cut);
    }

    /// The same of headers within a message whose checksums are right.
    #[test]
    fn c3_no_headers_do_harm(block in prop::collection::vec(any::<u8>(), 0..80)) {
        let total = u32::try_from(16 + block.len()).unwrap();
        let mut out = prelude(total, total - 16);
        out.extend_from_slice(&block);
        out.extend_from_slice(&crc32(&out).to_be_bytes());
        if let Ok(seen) = read(&out) {
            prop_assert_eq!(seen.len(), 1);
        }
    }
}
