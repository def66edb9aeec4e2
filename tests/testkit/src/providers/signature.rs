//! Signatures that come back with reasoning: each is of the text it was given out for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The signature of a text.
pub(super) fn sign(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    STANDARD.encode(format!("signed {hash:016x}"))
}
