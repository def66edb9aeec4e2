//! Halves of characters in JSON text. Servers that cut texts by UTF-16 units write them; JSON allows
//! them, and no text can hold them.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// The text with U+FFFD for each escape that is half a character. Without any, the same bytes.
pub fn mended(text: &Bytes) -> Bytes {
    let mut out = BytesMut::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        let escape = at + found;
        match unit(text, escape) {
            None => at = escape + 2,
            Some(0xd800..=0xdbff) => match unit(text, escape + 6) {
                Some(0xdc00..=0xdfff) => at = escape + 12,
                _ => at = replace(text, &mut out, &mut copied, escape),
            },
            Some(0xdc00..=0xdfff) => at = replace(text, &mut out, &mut copied, escape),
            Some(_) => at = escape + 6,
        }
    }
    if out.is_empty() {
        return text.clone();
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    out.freeze()
}

/// The UTF-16 unit that an escape at this place stands for, if it is one of those.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let hex = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Puts the replacement in the place of the escape at `at`; returns what follows it.
fn replace(text: &[u8], out: &mut BytesMut, copied: &mut usize, at: usize) -> usize {
    out.extend_from_slice(text.get(*copied..at).unwrap_or_default());
    out.extend_from_slice(b"\\ufffd");
    *copied = at + 6;
    *copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_replacements_and_whole_characters_stay() {
        check(r#"{"a":"x"}"#, r#"{"a":"x"}"#);
        check(r#""\ud83d\ude00""#, r#""\ud83d\ude00""#);
        check(r#""a\ud83d""#, r#""a\ufffd""#);
        check(r#""\ude00b\ud83d\ud83d\ude00""#, r#""\ufffdb\ufffd\ud83d\ude00""#);
        check(r#""\\ud83d\n\u00e9""#, r#""\\ud83d\n\u00e9""#);
        check(r#""\\\ud83d""#, r#""\\\ufffd""#);
        check(r#""\u12"#, r#""\u12"#);

        #[track_caller]
        fn check(text: &'static str, expected: &str) {
            assert_eq!(mended(&Bytes::from_static(text.as_bytes())), expected);
        }
    }
}
