//! What a check showed, in words for people.

use sluicegate_dialect::{Fault, redact};
use sluicegate_model::secret::Secret;

use super::heard::Exchange;

/// Longest text of an upstream that is quoted, in characters.
const MAX_QUOTE: usize = 160;
/// A key this short would be found within ordinary words.
const SHORTEST_KEY: usize = 6;

/// What is looked at, in the order in which it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    Reachable,
    Answer,
    UsageInAnswer,
    Stream,
    FirstChunk,
    StreamEnd,
    FirstToken,
    UsageInStream,
    NullContent,
    ToolCall,
    ToolCallInStream,
    WrongKey,
    UnknownModel,
    OversizedInput,
    LimitHeaders,
    KeptConnections,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Reachable,
        Self::Answer,
        Self::UsageInAnswer,
        Self::Stream,
        Self::FirstChunk,
        Self::StreamEnd,
        Self::FirstToken,
        Self::UsageInStream,
        Self::NullContent,
        Self::ToolCall,
        Self::ToolCallInStream,
        Self::WrongKey,
        Self::UnknownModel,
        Self::OversizedInput,
        Self::LimitHeaders,
        Self::KeptConnections,
    ];

    /// Stable name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Answer => "answer",
            Self::UsageInAnswer => "usage_in_answer",
            Self::Stream => "stream",
            Self::FirstChunk => "first_chunk",
            Self::StreamEnd => "stream_end",
            Self::FirstToken => "first_token",
            Self::UsageInStream => "usage_in_stream",
            Self::NullContent => "null_content",
            Self::ToolCall => "tool_call",
            Self::ToolCallInStream => "tool_call_in_stream",
            Self::WrongKey => "wrong_key",
            Self::UnknownModel => "unknown_model",
            Self::OversizedInput => "oversized_input",
            Self::LimitHeaders => "limit_headers",
            Self::KeptConnections => "kept_connections",
        }
    }
}

/// How what was seen is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As the format has it.
    Good,
    /// Otherwise, and worth knowing.
    Note,
    /// Clients or the gateway would take it for something else.
    Bad,
    /// Not tried.
    Skipped,
}

/// What one check showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: Check,
    pub seen: String,
    pub verdict: Verdict,
    /// What the gateway does about it, or what to do; empty: nothing needs doing.
    pub advice: String,
}

impl Finding {
    pub(super) fn new(check: Check, verdict: Verdict, seen: impl Into<String>) -> Self {
        Self { check, seen: seen.into(), verdict, advice: String::new() }
    }

    pub(super) fn good(check: Check, seen: impl Into<String>) -> Self {
        Self::new(check, Verdict::Good, seen)
    }

    pub(super) fn skipped(check: Check, why: impl Into<String>) -> Self {
        Self::new(check, Verdict::Skipped, why)
    }

    /// A call that showed nothing of what it was made for.
    pub(super) fn untold(check: Check, exchange: &Exchange, fault: &Fault) -> Self {
        let seen = format!("cannot be told: {}", words(exchange, fault));
        Self::new(check, Verdict::Note, seen).advise("probe again")
    }

    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// Without keys, addresses and accounts, whatever the upstream said.
    pub(super) fn redacted(self, key: Option<&Secret>) -> Self {
        let key = key.map(Secret::expose).filter(|key| key.len() >= SHORTEST_KEY);
        let seen =
            key.map_or_else(|| self.seen.clone(), |key| self.seen.replace(key, "[redacted]"));
        Self { seen: redact::message(&seen), ..self }
    }
}

/// A failed call in a few words: its status, what the gateway takes it for, what was said.
pub(super) fn words(exchange: &Exchange, fault: &Fault) -> String {
    let status = exchange.head.as_ref().map(|head| format!("{}, ", head.status.as_u16()));
    let said = fault.message.as_deref().map(quoted).filter(|said| !said.is_empty());
    format!(
        "{}read as {}{}",
        status.unwrap_or_default(),
        fault.outcome.name(),
        said.map(|said| format!(": {said}")).unwrap_or_default()
    )
}

/// An upstream's words, capped.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a15_no_key_is_ever_shown() {
        let key = Secret::new("very/plain-key");
        let seen = "401: the key very/plain-key of 10.0.0.7:8000 is sk-abc";
        let shown = Finding::good(Check::Answer, seen).redacted(Some(&key)).seen;
        assert_eq!(shown, "401: the key [redacted] of [redacted] is [redacted]");
    }

    #[test]
    fn words_are_capped() {
        assert_eq!(quoted(&"é".repeat(500)).chars().count(), MAX_QUOTE + 3);
        assert_eq!(quoted("short"), "short");
    }

    #[test]
    fn names_tell_checks_apart() {
        let mut names = Check::ALL.map(Check::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Check::ALL.len());
    }
}
