//! Amazon's event stream, whose segmentation must not matter. Inputs seldom have right checksums: each
//! is also read as a payload and as headers of a message that is whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_dialect::frame::Framing;
use sluicegate_dialect_fuzz::{assert_same, frames, message};

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, then that of the headers.
    let Some((lengths, bytes)) = input.split_at_checked(3) else { return };
    let Some((length, bytes)) = bytes.split_first() else { return };
    let (headers, payload) = bytes.split_at(usize::from(*length).min(bytes.len()));
    let message = message(headers, payload);
    let twice = [message.as_slice(), &message].concat();
    for bytes in [bytes, &message, &twice] {
        let whole = frames(Framing::AmazonEventStream, bytes, &[]);
        assert_same(&whole, &frames(Framing::AmazonEventStream, bytes, lengths));
        for frame in &whole {
            frame.to_wire();
        }
    }
});
