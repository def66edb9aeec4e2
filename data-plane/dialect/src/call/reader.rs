//! Reading the members of a request that decide something here.

use std::ops::Range;

use super::{InvalidCall, StreamOptions};
use crate::{
    json::{JsonError, Kind, Scanner, whole_number},
    prompt::Prompt,
};

/// Longest `user` that is kept for records, in characters.
const MAX_USER: usize = 128;

/// What was read of a body so far.
#[derive(Default)]
pub(super) struct Reader {
    /// Bit per selector.
    pub(super) seen: u32,
    pub(super) model: Option<(String, Range<usize>)>,
    pub(super) stream: bool,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) user: Option<String>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) uncapped: Vec<Range<usize>>,
    pub(super) n: Option<u64>,
    pub(super) best_of: u64,
    pub(super) prompt: Prompt,
    /// How many prompts a list of them has.
    pub(super) prompts: u64,
}

impl Reader {
    /// Reads the value of a member that decides something.
    pub(super) fn member(
        &mut self,
        name: &'static str,
        scanner: &mut Scanner<'_>,
    ) -> Result<Result<(), InvalidCall>, JsonError> {
        let wrong = |expected| Ok(Err(InvalidCall::WrongType { name, expected }));
        let kind = scanner.kind()?;
        match (name, kind) {
            ("model", Kind::String) => {
                let text = scanner.string()?;
                let model = text.decode().into_owned();
                let span = scanner.span_of(text);
                if model.is_empty() {
                    return wrong("a non-empty string");
                }
                self.model = Some((model, span));
                return Ok(Ok(()));
            }
            ("user", Kind::String) => {
                self.user = Some(scanner.string()?.decode().chars().take(MAX_USER).collect());
                return Ok(Ok(()));
            }
            ("stream_options", Kind::Object) => {
                self.stream_options = Some(stream_options(scanner)?);
                return Ok(Ok(()));
            }
            ("prompt", Kind::Array) => {
                // A list of numbers is one prompt in tokens.
                let mut prompts = 0;
                let span = scanner.array(|scanner, _| {
                    prompts += u64::from(scanner.kind()? != Kind::Number);
                    scanner.skip().map(drop)
                })?;
                self.prompts = prompts;
                self.prompt.add(span, false);
                return Ok(Ok(()));
            }
            _ => {}
        }
        let span = scanner.skip()?;
        match (name, kind) {
            ("model", _) => wrong("a string"),
            ("stream", Kind::True) => {
                self.stream = true;
                Ok(Ok(()))
            }
            ("stream", Kind::False | Kind::Null) => Ok(Ok(())),
            ("stream", _) => wrong("true or false"),
            ("stream_options", Kind::Null) => {
                self.stream_options = Some(StreamOptions::Other(span));
                Ok(Ok(()))
            }
            ("stream_options", _) => wrong("an object"),
            ("max_tokens" | "max_completion_tokens" | "max_output_tokens", _) => {
                match output_cap(scanner.slice(span.clone())) {
                    // The largest counts: which of them an upstream reads, only it knows.
                    Some(cap) => self.max_output_tokens = self.max_output_tokens.max(Some(cap)),
                    None => self.uncapped.push(span),
                }
                Ok(Ok(()))
            }
            ("best_of", _) => {
                self.best_of = count(scanner.slice(span)).unwrap_or(0);
                Ok(Ok(()))
            }
            ("prompt", _) => {
                self.prompt.add(span, false);
                Ok(Ok(()))
            }
            ("n", _) => {
                self.n = count(scanner.slice(span));
                Ok(Ok(()))
            }
            // `user` of another type and what else `n` may be are the upstream's to judge.
            _ => Ok(Ok(())),
        }
    }
}

/// How many a value asks for, also where it is written as upstreams should not take it: as a
/// fraction, or in quotes.
fn count(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    output_cap(text.trim_ascii())
}

/// Tokens that a value caps the answer at; what is larger than any number counts as the largest.
/// `None`: it sets no cap, or is the upstream's to judge.
fn output_cap(text: &[u8]) -> Option<u64> {
    if text.first() == Some(&b'-') || text.is_empty() {
        return None;
    }
    if let Some(cap) = whole_number(text) {
        return Some(cap);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and the number is not negative"
    )]
    Some(number.ceil() as u64)
}

fn stream_options(scanner: &mut Scanner<'_>) -> Result<StreamOptions, JsonError> {
    let mut include_usage = None;
    let mut empty = true;
    let span = scanner.object(|scanner, name| {
        empty = false;
        let kind = scanner.kind()?;
        let span = scanner.skip()?;
        if name.is("include_usage") {
            include_usage = Some((kind == Kind::True, span));
        }
        Ok(())
    })?;
    Ok(StreamOptions::Object { insert_at: span.start + 1, empty, include_usage })
}
