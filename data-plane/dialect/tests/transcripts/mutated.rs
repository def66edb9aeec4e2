//! Damaging what upstreams answered.

use bytes::Bytes;
use http::StatusCode;
use sluicegate_dialect::Sent;

use crate::play::Transcript;

/// Bytes that mean something to a reader.
const MARKS: &[u8] = b"{}[]\",:\\0-9eunt\n\r \xff\x00";

/// Reads a transcript's answer and stream with `times` random faults, as each thing that they can be
/// taken for. Whatever comes of it is right, as long as something does.
pub(crate) fn check(transcript: &Transcript, times: usize) {
    let mut rng = fastrand::Rng::with_seed(11);
    for bytes in [&transcript.answer, &transcript.stream].into_iter().flatten() {
        for _ in 0..times {
            let damaged = Bytes::from(damaged(bytes, &mut rng));
            drop(transcript.dialect.answer(&transcript.call, &transcript.headers, &damaged));
            transcript.dialect.refusal(StatusCode::BAD_REQUEST, &transcript.headers, &damaged);
            stream(transcript, &damaged);
        }
    }
}

fn stream(transcript: &Transcript, bytes: &Bytes) {
    let sent = Sent::default();
    let mut reader = transcript.dialect.stream(&transcript.call, &sent, &transcript.headers);
    let mut framer = transcript.dialect.framing().framer();
    framer.push(bytes.clone());
    while let Ok(Some(frame)) = framer.next_frame() {
        reader.read(&frame);
    }
    if let Some(frame) = framer.finish() {
        reader.read(&frame);
    }
    reader.tail();
    // A finish for every choice that was asked for is one for every choice that came.
    assert!(reader.complete() || !reader.whole(), "{}: {bytes:?}", transcript.name);
}

fn damaged(bytes: &[u8], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..rng.usize(1..4) {
        if out.is_empty() {
            return out;
        }
        let at = rng.usize(..out.len());
        match rng.u8(..5) {
            0 => out[at] = MARKS[rng.usize(..MARKS.len())],
            1 => out[at] = rng.u8(..),
            2 => out.truncate(at),
            3 => {
                let end = (at + rng.usize(..40)).min(out.len());
                out.drain(at..end);
            }
            _ => {
                let end = (at + rng.usize(..40)).min(out.len());
                let again = out[at..end].to_vec();
                out.splice(at..at, again);
            }
        }
    }
    out
}
