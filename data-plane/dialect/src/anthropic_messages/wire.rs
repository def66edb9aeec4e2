//! What Anthropic says, whole and in pieces: the parts that both have in common.

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_model::Usage;

use crate::chat::number::count;

/// A block of an answer. Members that its type has not are absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Box<RawValue>>,
}

/// Counters, any of which may be missing.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    output_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(deserialize_with = "count")]
    thinking_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl Counts {
    /// Takes what is told anew. Counters are restated, never continued: some servers correct those of
    /// the beginning at the end.
    pub(super) fn update(&mut self, newer: Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.output_tokens_details = newer.output_tokens_details.or(self.output_tokens_details);
    }

    /// As OpenAI counts: what was read from a cache or written to one is part of the input.
    pub(super) fn usage(self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let details = self.output_tokens_details.unwrap_or_default();
        Some(Usage {
            input: self
                .input_tokens
                .unwrap_or(0)
                .saturating_add(self.cache_creation_input_tokens.unwrap_or(0))
                .saturating_add(cached),
            output: self.output_tokens.unwrap_or(0),
            cached,
            reasoning: details.thinking_tokens.or(details.reasoning_tokens).unwrap_or(0),
        })
    }
}
