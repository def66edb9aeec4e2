//! Text in the values of headers.

use std::fmt::Write;

/// The text as printable ASCII. What is not, and the characters in `also`, are written as in URLs.
pub(crate) fn visible(text: &str, also: &[u8]) -> String {
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' && !also.contains(&byte) => value.push(char::from(byte)),
            // Writing to a string never fails.
            _ => drop(write!(value, "%{byte:02X}")),
        }
    }
    value
}
