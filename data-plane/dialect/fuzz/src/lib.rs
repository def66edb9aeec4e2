//! What the fuzz targets share. Where a target is for every dialect, the first byte of its input
//! says which, and the second what the call was like; `examples/seeds.rs` writes inputs so.

use bytes::Bytes;
use sluicegate_dialect::{
    Call, Dialect, Endpoint,
    frame::{Framer, Framing},
    registry, sse,
};

/// Every dialect, each variant by itself, in the order that the first byte counts them.
pub fn dialects() -> Vec<&'static dyn Dialect> {
    registry::all().collect()
}

/// The dialect, the call's kind and the bytes that an input holds.
pub fn split(input: &[u8]) -> Option<(&'static dyn Dialect, u8, &[u8])> {
    let (first, rest) = input.split_first()?;
    let (kind, bytes) = rest.split_first()?;
    let dialects = dialects();
    let dialect = dialects.get(usize::from(*first) % dialects.len())?;
    Some((*dialect, *kind, bytes))
}

/// A call of this kind: its lowest bits say what it asks for.
pub fn call(kind: u8) -> Call {
    let endpoint = match kind & 3 {
        0 | 3 => Endpoint::Chat,
        1 => Endpoint::Embeddings,
        _ => Endpoint::Completions,
    };
    let asked = match endpoint {
        Endpoint::Chat => r#""messages":[{"role":"user","content":"A"}]"#,
        Endpoint::Completions => r#""prompt":"A""#,
        Endpoint::Embeddings => r#""input":["A","B"]"#,
    };
    let usage = kind & 4 != 0;
    let n = if kind & 8 != 0 { 2 } else { 1 };
    let stream = kind & 16 != 0;
    let body = format!(
        r#"{{"model":"m",{asked},"n":{n},"stream":{stream},"stream_options":{{"include_usage":{usage}}}}}"#
    );
    Call::parse(endpoint, body.into()).expect("the body was written here")
}

/// Cuts a stream into events, whose bytes come in pieces of these lengths, over and over.
pub fn frames(framing: Framing, bytes: &[u8], lengths: &[u8]) -> Vec<sse::Frame> {
    let mut framer = framing.framer();
    let mut frames = Vec::new();
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| usize::from(*length).max(1));
        framer.push(rest.split_to(length.min(rest.len())));
        if !drain(&mut framer, &mut frames) {
            return frames;
        }
    }
    frames.extend(framer.finish());
    frames
}

fn drain(framer: &mut Framer, frames: &mut Vec<sse::Frame>) -> bool {
    loop {
        match framer.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Two readings of one stream are the same.
pub fn assert_same(one: &[sse::Frame], other: &[sse::Frame]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one.data(), other.data());
        assert_eq!(one.event(), other.event());
    }
}

/// A whole message of Amazon's event stream.
pub fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("inputs are small").to_be_bytes();
    let mut out = Vec::new();
    out.extend(length(16 + headers.len() + payload.len()));
    out.extend(length(headers.len()));
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend(headers);
    out.extend(payload);
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

/// The bytes of a stream in this framing. Amazon's are written as its transcripts are, a line for each
/// message: its type, its name, its payload. No fuzzer finds a checksum.
pub fn stream(framing: Framing, bytes: &[u8]) -> Vec<u8> {
    if framing == Framing::ServerSentEvents {
        return bytes.to_vec();
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| line.len() < 1 << 16);
    lines
        .flat_map(|line| {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let mut word = || words.next().unwrap_or_default();
            let (kind, name, payload) = (word(), word(), word());
            let naming: &[u8] = match kind {
                b"exception" => b":exception-type",
                b"error" => b":error-code",
                _ => b":event-type",
            };
            message(&[header(naming, name), header(b":message-type", kind)].concat(), payload)
        })
        .collect()
}

/// A header whose value is a text.
fn header(name: &[u8], value: &[u8]) -> Vec<u8> {
    let short = u8::try_from(name.len()).expect("names are short");
    let long = u16::try_from(value.len()).expect("lines are short").to_be_bytes();
    [&[short], name, &[7], &long, value].concat()
}
