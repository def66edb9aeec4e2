//! A whole answer in OpenAI's form.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use sluicegate_model::Usage;

use crate::{call::Call, dialect::Answer};

/// What a model answered.
#[derive(Debug, Default)]
pub struct Reply {
    /// As the upstream has it; where it has none, one is made.
    pub id: Option<String>,
    /// Name of the model as the upstream has it; else the one that was asked for.
    pub model: Option<String>,
    /// Seconds of Unix time.
    pub created: Option<u64>,
    pub choices: Vec<Choice>,
    pub usage: Option<Usage>,
    /// The last finish reason as the upstream spelt it.
    pub finish_word: Option<String>,
}

/// One of the answers that were asked for.
#[derive(Debug, Default)]
pub struct Choice {
    pub content: Option<String>,
    /// What the model thought, as far as it says.
    pub reasoning: Vec<ReasoningPart>,
    pub tool_calls: Vec<ToolCall>,
    /// In OpenAI's words; `None` where the upstream gave no reason.
    pub finish: Option<&'static str>,
    /// OpenAI's `logprobs`, as JSON.
    pub logprobs: Option<Box<RawValue>>,
}

/// One call of a tool.
#[derive(Debug, Default, Clone)]
pub struct ToolCall {
    /// Empty: one is made.
    pub id: String,
    pub name: String,
    /// JSON text.
    pub arguments: String,
    pub signature: Option<String>,
}

/// One thought.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type")]
pub enum ReasoningPart {
    #[serde(rename = "reasoning.text")]
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    #[serde(rename = "reasoning.encrypted")]
    Encrypted { data: String },
}

impl Choice {
    /// Adds text to the answer.
    pub fn say(&mut self, text: &str) {
        self.content.get_or_insert_default().push_str(text);
    }

    /// Adds a thought that nobody signed.
    pub fn think(&mut self, text: &str) {
        match self.reasoning.last_mut() {
            Some(ReasoningPart::Text { text: before, signature: None }) => before.push_str(text),
            _ => {
                self.reasoning.push(ReasoningPart::Text { text: text.to_owned(), signature: None })
            }
        }
    }

    fn thoughts(&self) -> String {
        let texts = self.reasoning.iter().filter_map(|part| match part {
            ReasoningPart::Text { text, .. } => Some(text.as_str()),
            ReasoningPart::Encrypted { .. } => None,
        });
        texts.collect()
    }

    /// Does a later turn need more of the thoughts than their text?
    fn needs_details(&self) -> bool {
        self.reasoning.iter().any(|part| match part {
            ReasoningPart::Text { signature, .. } => signature.is_some(),
            ReasoningPart::Encrypted { .. } => true,
        })
    }

    fn chars(&self) -> u64 {
        let count = |text: &str| text.chars().count() as u64;
        self.content.as_deref().map_or(0, count)
            + count(&self.thoughts())
            + self
                .tool_calls
                .iter()
                .map(|call| count(&call.name) + count(&call.arguments))
                .sum::<u64>()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<BodyChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<BodyUsage>,
}

#[derive(Serialize)]
struct BodyChoice<'a> {
    index: usize,
    message: Message<'a>,
    logprobs: Option<&'a RawValue>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reasoning_details: &'a [ReasoningPart],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<BodyCall<'a>>,
}

#[derive(Serialize)]
pub(super) struct BodyCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) function: BodyFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<Extra<'a>>,
}

#[derive(Serialize)]
pub(super) struct BodyFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

/// Where Google's own OpenAI-compatible server puts the signature of a call.
#[derive(Serialize)]
pub(super) struct Extra<'a> {
    google: Google<'a>,
}

#[derive(Serialize)]
struct Google<'a> {
    thought_signature: &'a str,
}

impl<'a> Extra<'a> {
    pub(super) fn new(thought_signature: &'a str) -> Self {
        Self { google: Google { thought_signature } }
    }
}

#[derive(Serialize)]
pub(crate) struct BodyUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for BodyUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.input.saturating_add(usage.output),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
        }
    }
}

impl Reply {
    /// The answer for the caller of `call`.
    pub fn into_answer(mut self, call: &Call) -> Answer {
        for call in self.choices.iter_mut().flat_map(|choice| &mut choice.tool_calls) {
            if call.id.is_empty() {
                call.id = new_call_id();
            }
        }
        let id = self.id.take().unwrap_or_else(new_id);
        let model = self.model.take().unwrap_or_else(|| call.model.clone());
        let body = Body {
            id: &id,
            object: "chat.completion",
            created: self.created.unwrap_or_else(now_s),
            model: &model,
            choices: self.choices.iter().enumerate().map(choice).collect(),
            usage: self.usage.map(BodyUsage::from),
        };
        Answer {
            body: json(&body),
            usage: self.usage,
            finish_reason: self.finish_word,
            output_chars: self.choices.iter().map(Choice::chars).sum(),
        }
    }
}

fn choice((index, choice): (usize, &Choice)) -> BodyChoice<'_> {
    let calls = choice.tool_calls.iter().map(|call| BodyCall {
        index: None,
        id: Some(&call.id),
        kind: Some("function"),
        function: BodyFunction { name: Some(&call.name), arguments: &call.arguments },
        extra_content: call.signature.as_deref().map(Extra::new),
    });
    BodyChoice {
        index,
        message: Message {
            role: "assistant",
            content: choice.content.as_deref(),
            refusal: None,
            reasoning_content: choice.thoughts(),
            reasoning_details: if choice.needs_details() { &choice.reasoning } else { &[] },
            tool_calls: calls.collect(),
        },
        logprobs: choice.logprobs.as_deref(),
        finish_reason: choice.finish,
    }
}

/// An id for an answer of an upstream that gives none.
pub fn new_id() -> String {
    format!("chatcmpl-{:032x}", fastrand::u128(..))
}

/// An id for a tool call of an upstream that gives none.
pub fn new_call_id() -> String {
    format!("call_{:024x}", fastrand::u128(..) >> 32)
}

/// Seconds of Unix time.
pub fn now_s() -> u64 {
    crate::errors::wall_clock()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// JSON text. What is written here holds nothing that JSON has no form for.
pub(crate) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
