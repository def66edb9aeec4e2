//! Server-sent events, whose segmentation must not matter.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_dialect::frame::Framing;
use sluicegate_dialect_fuzz::{assert_same, frames};

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces.
    let Some((lengths, bytes)) = input.split_at_checked(3) else { return };
    let whole = frames(Framing::ServerSentEvents, bytes, &[]);
    assert_same(&whole, &frames(Framing::ServerSentEvents, bytes, lengths));
    assert_same(&whole, &frames(Framing::ServerSentEvents, bytes, &[1]));
    // What is written is read as the same.
    for frame in whole.iter().filter(|frame| frame.data().is_some()) {
        let again = frames(Framing::ServerSentEvents, &frame.to_wire(), &[]);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].data(), frame.data());
    }
});
