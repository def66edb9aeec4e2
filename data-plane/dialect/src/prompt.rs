//! How large a prompt is before an upstream has counted it.
//!
//! The parts of a request that become prompt are measured as they stand: text and the JSON around
//! it, escapes of characters counted as the characters, data URLs taken out and counted by the piece.

use std::{borrow::Cow, ops::Range};

use memchr::memmem;

/// What precedes the bytes of an image, a sound or a file within a string.
const MEDIA: &[u8] = b";base64,";
/// Names of members whose values are data URLs.
const MEDIA_NAMES: [&[u8]; 3] = [br#""url""#, br#""image_url""#, br#""file_data""#];
/// Longest beginning of a data URL with the name before it, in bytes.
const MIME: usize = 160;
/// Longest text that is looked at piece by piece to guess at the rest.
const SAMPLE: usize = 4 * 1024;
const PIECES: usize = 4;

/// The spans of a body that become prompt.
#[derive(Debug, Clone, Default)]
pub struct Prompt(Vec<Part>);

#[derive(Debug, Clone)]
struct Part {
    span: Range<usize>,
    /// Upstreams read media in it. Elsewhere what looks like media is text like any other.
    media: bool,
}

/// Size of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptSize {
    /// Bytes of text, UTF-8, without media.
    pub text: u64,
    /// Images, sounds and files that are part of it.
    pub media: u64,
    /// Messages of a conversation, by their roles.
    pub messages: u64,
}

impl Prompt {
    /// Another member of the body that becomes prompt; `media`: it may hold images and the like.
    pub(crate) fn add(&mut self, span: Range<usize>, media: bool) {
        self.0.push(Part { span, media });
    }

    /// Measures the prompt within the body that it was found in.
    pub fn size(&self, body: &[u8]) -> PromptSize {
        let mut size = PromptSize::default();
        for Part { span, media: has_media } in &self.0 {
            let part = body.get(span.clone()).unwrap_or_default();
            let mut text = part.len();
            for (media, _) in media(part).filter(|_| *has_media) {
                size.media += 1;
                text -= media.len();
            }
            if *has_media {
                size.messages += memmem::find_iter(part, br#""role""#).count() as u64;
            }
            // Six bytes that stand for a character of about three.
            let escaped = memmem::find_iter(part, br"\u").count();
            size.text += text.saturating_sub(escaped * 3) as u64;
        }
        size
    }

    /// The text, or of a long one some pieces from all over it, and how many bytes of the whole one
    /// byte of them stands for.
    pub fn sample<'a>(&self, body: &'a [u8]) -> (Cow<'a, str>, f64) {
        let size = self.size(body);
        if let [Part { span, .. }] = self.0.as_slice()
            && size.media == 0
            && size.text <= SAMPLE as u64
        {
            let part = body.get(span.clone()).unwrap_or_default();
            if memchr::memchr(b'\\', part).is_none() {
                return (String::from_utf8_lossy(part), 1.0);
            }
        }
        let mut text = Vec::with_capacity(body.len().min(64 * 1024));
        for Part { span, media } in &self.0 {
            let part = body.get(span.clone()).unwrap_or_default();
            if *media {
                text.extend(without_media(part));
            } else {
                text.extend_from_slice(part);
            }
        }
        let pieces = if text.len() <= SAMPLE {
            text
        } else {
            let step = text.len() / PIECES;
            let piece = SAMPLE / PIECES;
            // Nobody can know where to put what should not be seen.
            (0..PIECES)
                .map(|index| index * step + fastrand::usize(..=step - piece))
                .filter_map(|start| text.get(start..start + piece))
                .flatten()
                .copied()
                .collect()
        };
        let sample = unescaped(&String::from_utf8_lossy(&pieces));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let factor = (size.text as f64 / sample.len().max(1) as f64).max(1.0);
        (Cow::Owned(sample), factor)
    }
}

/// The bytes of media in a part of a body, and where each ends. Media is the value of a member that
/// is read as such, and a data URL; text that only looks like one has no such name before it.
fn media(part: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    memmem::find_iter(part, MEDIA).filter_map(|at| {
        let before = part.get(at.saturating_sub(MIME)..at)?;
        let quote = memchr::memrchr(b'"', before)?;
        let (name, value) = before.split_at_checked(quote)?;
        let name = name.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let is_read = MEDIA_NAMES.iter().any(|known| name.ends_with(known));
        if !is_read || !value.starts_with(b"\"data:") || value.contains(&b'\\') {
            return None;
        }
        let rest = part.get(at..)?;
        let length = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        Some((rest.get(..length)?, at + length))
    })
}

fn without_media(part: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(part.len().min(64 * 1024));
    let mut from = 0;
    for (bytes, end) in media(part) {
        kept.extend_from_slice(part.get(from..end - bytes.len()).unwrap_or_default());
        from = end;
    }
    kept.extend_from_slice(part.get(from..).unwrap_or_default());
    kept
}

/// Resolves the escapes that stand for characters; what is no escape stays.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut units: Vec<u16> = Vec::new();
    while let Some((before, after)) = rest.split_once('\\') {
        let unit = after
            .strip_prefix('u')
            .and_then(|hex| hex.get(..4))
            .and_then(|hex| u16::from_str_radix(hex, 16).ok());
        if !before.is_empty() {
            flush(&mut units, &mut plain);
        }
        plain.push_str(before);
        match unit {
            Some(unit) => {
                units.push(unit);
                rest = after.get(5..).unwrap_or_default();
            }
            None => {
                flush(&mut units, &mut plain);
                let mut characters = after.chars();
                match characters.next() {
                    Some('n') => plain.push('\n'),
                    Some('t') => plain.push('\t'),
                    Some(other) => plain.push(other),
                    None => {}
                }
                rest = characters.as_str();
            }
        }
    }
    flush(&mut units, &mut plain);
    plain.push_str(rest);
    plain
}

fn flush(units: &mut Vec<u16>, plain: &mut String) {
    let characters = char::decode_utf16(units.drain(..));
    plain.extend(characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(body: &str) -> Prompt {
        let mut prompt = Prompt::default();
        prompt.add(0..body.len(), true);
        prompt
    }

    #[test]
    fn media_counts_by_the_piece() {
        let image = "A".repeat(100_000);
        let body = format!(
            r#"[{{"url":"data:image/png;base64,{image}"}},{{"url" : "data:x;base64,{image}"}},"hello"]"#
        );
        let size = prompt(&body).size(body.as_bytes());
        assert_eq!(size.media, 2);
        assert!(size.text < 100, "{size:?}");
        let (sample, _) = prompt(&body).sample(body.as_bytes());
        assert!(sample.contains("hello") && !sample.contains("AAAA"));
    }

    #[test]
    fn b3_text_that_looks_like_media_is_text() {
        let long = "words ".repeat(10_000);
        for value in [
            format!(r#"{{"text":";base64,{long}"}}"#),
            format!(r#"{{"text":"data:x;base64,{long}"}}"#),
            format!(r#"{{"text":"\"url\":\"data:x;base64,{long}"}}"#),
            format!(r#"{{"url":"see ;base64,{long}"}}"#),
        ] {
            let size = prompt(&value).size(value.as_bytes());
            assert!(size.media == 0 && size.text >= 60_000, "{size:?}");
        }
        // Nobody looks for images in the description of a tool.
        let tool = format!(r#"{{"url":"data:x;base64,{long}"}}"#);
        let mut tools = Prompt::default();
        tools.add(0..tool.len(), false);
        assert!(tools.size(tool.as_bytes()).text >= 60_000);
    }

    #[test]
    fn escaped_characters_count_as_themselves() {
        let plain = "你好".repeat(20);
        let escaped: String = plain.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let body = format!("\"{escaped}\\n😀\\ud83d\\ude00\"");
        let size = prompt(&body).size(body.as_bytes());
        assert!((120..=150).contains(&size.text), "{size:?}");
        let (sample, factor) = prompt(&body).sample(body.as_bytes());
        assert_eq!(sample, format!("\"{plain}\n😀😀\""));
        assert!((1.0..1.2).contains(&factor));
    }

    #[test]
    fn a_long_text_is_sampled_from_all_over() {
        let body = format!("{}{}", "a".repeat(50_000), "b".repeat(50_000));
        let (sample, factor) = prompt(&body).sample(body.as_bytes());
        assert!(sample.len() <= SAMPLE && sample.contains('a') && sample.contains('b'));
        assert!((20.0..30.0).contains(&factor), "{factor}");
    }
}
