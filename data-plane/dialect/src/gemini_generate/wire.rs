//! What Google says: an answer and a piece of one have the same form.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use sluicegate_model::{Outcome, Usage};

use super::logprobs::LogprobsResult;
use crate::{
    chat::number::{count, lenient},
    fault::Fault,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Response {
    pub(super) candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage_metadata: Option<Counts>,
    pub(super) model_version: Option<String>,
    pub(super) response_id: Option<String>,
    /// There is an error in it; read by the error tables.
    pub(super) error: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    content: Option<Content>,
    pub(super) finish_reason: Option<String>,
    index: Option<u64>,
    pub(super) logprobs_result: Option<LogprobsResult>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    parts: Option<Vec<Part>>,
}

/// Parts of other kinds, such as code that was run, are not for the caller.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) text: Option<String>,
    /// The text is a thought.
    pub(super) thought: Option<bool>,
    pub(super) function_call: Option<FunctionCall>,
    pub(super) thought_signature: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionCall {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    args: Option<Box<RawValue>>,
}

/// Counters, any of which may be missing; one that is has not changed, or is zero.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Counts {
    #[serde(deserialize_with = "count")]
    pub(super) prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    cached_content_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    thoughts_token_count: Option<u64>,
}

impl Response {
    /// The prompt was refused: there is no answer, but the status is 200.
    pub(super) fn blocked(&self) -> Option<Fault> {
        let reason = self.prompt_feedback.as_ref()?.block_reason.as_ref()?;
        if self.candidates.as_ref().is_some_and(|candidates| !candidates.is_empty()) {
            return None;
        }
        let message = format!("the provider blocked the prompt: {reason}");
        let fault = Fault::new(Outcome::ContentFiltered, message);
        Some(Fault { code: Some(reason.clone()), ..fault })
    }
}

impl Candidate {
    /// Which of the answers it is; `position` is where it stands.
    pub(super) fn choice(&self, position: usize) -> usize {
        // The first of them is told by saying nothing. (Protobuf's JSON form leaves zeros out.)
        let index = self.index.unwrap_or(0);
        usize::try_from(index).unwrap_or(position)
    }

    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        self.content.take().and_then(|content| content.parts).unwrap_or_default()
    }
}

impl FunctionCall {
    /// The arguments as JSON text. Whole answers are laid out over many lines; the line ends and
    /// margins between values are not the model's, and left out.
    pub(super) fn arguments(&self) -> String {
        let args = self.args.as_deref().map(RawValue::get).filter(|args| *args != "null");
        compact(args.unwrap_or("{}"))
    }
}

fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for character in json.chars() {
        if !quoted && matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        match character {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && character == '\\' && !escaped;
        text.push(character);
    }
    text
}

impl Counts {
    /// Takes what is told anew. Counters grow; they are not added up.
    pub(super) fn update(&mut self, newer: Self) {
        self.prompt_token_count = newer.prompt_token_count.or(self.prompt_token_count);
        self.tool_use_prompt_token_count =
            newer.tool_use_prompt_token_count.or(self.tool_use_prompt_token_count);
        self.cached_content_token_count =
            newer.cached_content_token_count.or(self.cached_content_token_count);
        self.candidates_token_count = newer.candidates_token_count.or(self.candidates_token_count);
        self.thoughts_token_count = newer.thoughts_token_count.or(self.thoughts_token_count);
    }

    /// As OpenAI counts: thoughts are part of the output.
    pub(super) fn usage(self) -> Option<Usage> {
        let input = self.prompt_token_count?;
        let reasoning = self.thoughts_token_count.unwrap_or(0);
        Some(Usage {
            input: input.saturating_add(self.tool_use_prompt_token_count.unwrap_or(0)),
            output: self.candidates_token_count.unwrap_or(0).saturating_add(reasoning),
            cached: self.cached_content_token_count.unwrap_or(0),
            reasoning,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn what_stands_between_values_goes() {
        let spelt =
            "{\n  \"a b\": [ 1.50,\t2e3 ],\r\n  \"c\": \" \\\" \\\\\", \"d\" : \"\\\\ \"\n}";
        assert_eq!(compact(spelt), r#"{"a b":[1.50,2e3],"c":" \" \\","d":"\\ "}"#);
        assert_eq!(compact("{}"), "{}");
    }
}
