//! Replacing spans of a text while every other byte stays.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::call::Member;

/// Replacements for one text.
#[derive(Debug, Default)]
pub struct Splices(Vec<(Range<usize>, Bytes)>);

impl Splices {
    /// Puts `with` in the place of `span`; an empty span inserts.
    pub fn replace(&mut self, span: Range<usize>, with: impl Into<Bytes>) {
        self.0.push((span, with.into()));
    }

    /// Takes members out of the object that they are all the members of; `out` says which, by index.
    /// One at least must stay.
    pub fn remove_members(&mut self, members: &[Member], out: impl Fn(usize) -> bool) {
        let mut kept_before = false;
        for (index, member) in members.iter().enumerate() {
            if !out(index) {
                kept_before = true;
                continue;
            }
            // With the comma before it, or where nothing before it stays, the one behind it.
            let before = index.checked_sub(1).and_then(|before| members.get(before));
            let span = match (kept_before, before, members.get(index + 1)) {
                (true, Some(before), _) => before.value.end..member.value.end,
                (_, _, Some(after)) => member.name.start..after.name.start,
                _ => member.name.start..member.value.end,
            };
            self.replace(span, "");
        }
    }

    /// Is there nothing to replace?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with all replacements made. Without any, the same bytes, not copied. Spans must
    /// not overlap; one that does, or lies outside, is left out.
    pub fn apply(mut self, text: &Bytes) -> Bytes {
        if self.0.is_empty() {
            return text.clone();
        }
        // An insertion comes before what begins where it stands.
        self.0.sort_by_key(|(span, _)| (span.start, span.end));
        let added: usize = self.0.iter().map(|(_, with)| with.len()).sum();
        let mut out = BytesMut::with_capacity(text.len() + added);
        let mut at = 0;
        for (span, with) in self.0 {
            let Some(kept) = text.get(at..span.start) else { continue };
            out.extend_from_slice(kept);
            out.extend_from_slice(&with);
            at = span.end.max(at);
        }
        out.extend_from_slice(text.get(at..).unwrap_or(&[]));
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_inserts_and_keeps_the_rest() {
        let text = Bytes::from_static(b"0123456789");
        let mut splices = Splices::default();
        splices.replace(8..9, "EIGHT");
        splices.replace(2..4, "");
        splices.replace(0..0, "<");
        splices.replace(10..10, ">");
        assert_eq!(splices.apply(&text), "<014567EIGHT9>");
    }

    #[test]
    fn nothing_to_do_copies_nothing() {
        let text = Bytes::from_static(b"abc");
        assert_eq!(Splices::default().apply(&text).as_ptr(), text.as_ptr());
    }
}
