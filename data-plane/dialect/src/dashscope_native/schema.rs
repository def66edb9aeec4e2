//! The bodies of the format, as they go up and as they come down.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use sluicegate_model::Usage;

use crate::chat::Number;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) input: Input<'a>,
    pub(super) parameters: Parameters<'a>,
}

#[derive(Serialize)]
pub(super) struct Input<'a> {
    pub(super) messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    pub(super) content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<&'a str>,
}

/// A text, or the list that models want which see or hear.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

/// One member that says what it is by its name: `{"image":"https://…"}`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    /// Addresses or data URLs.
    Image(Cow<'a, str>),
    Audio(Cow<'a, str>),
    Video(Cow<'a, str>),
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CallFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct CallFunction<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: ToolFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct ToolFunction<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Choose<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Named<'a>,
    },
}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
}

#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) json_schema: Option<Schema<'a>>,
}

#[derive(Serialize)]
pub(super) struct Schema<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Serialize, Default)]
pub(super) struct Parameters<'a> {
    pub(super) result_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) incremental_output: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) n: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choose<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    /// Members that are the same there.
    #[serde(flatten)]
    pub(super) alike: BTreeMap<&'static str, &'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) enable_thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_budget: Option<u64>,
}

/// A whole answer, or one event of a stream.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Answered {
    pub(super) output: Option<Output>,
    pub(super) usage: Value,
    pub(super) request_id: Option<String>,
    /// What went wrong; empty where nothing did.
    pub(super) code: Value,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Output {
    pub(super) choices: Option<Vec<RawChoice>>,
    /// The older form, which some models have whatever they are asked for.
    pub(super) text: Option<String>,
    pub(super) finish_reason: Option<String>,
    /// A task that failed says it here.
    pub(super) code: Value,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct RawChoice {
    pub(super) index: Option<usize>,
    pub(super) finish_reason: Option<String>,
    pub(super) message: Option<RawMessage>,
    pub(super) logprobs: Option<Box<RawValue>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct RawMessage {
    pub(super) content: Option<RawContent>,
    pub(super) reasoning_content: Option<String>,
    pub(super) tool_calls: Option<Vec<RawCall>>,
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
pub(super) enum RawContent {
    Text(String),
    Pieces(Vec<RawPiece>),
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct RawPiece {
    pub(super) text: Option<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct RawCall {
    pub(super) index: Option<usize>,
    pub(super) id: Option<String>,
    pub(super) function: Option<RawFunction>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct RawFunction {
    pub(super) name: Option<String>,
    /// A text; some servers write the object itself.
    pub(super) arguments: Option<Box<RawValue>>,
}

impl RawContent {
    /// Its texts, put together.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Pieces(pieces) => pieces.into_iter().filter_map(|piece| piece.text).collect(),
        }
    }
}

/// Reads a usage object; `None` when it holds no count at all.
pub(super) fn usage(usage: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| usage.get(*name)?.as_u64());
    let detail = |within: [&str; 2], name: &str| {
        within.iter().find_map(|within| usage.get(*within)?.get(name)?.as_u64()).unwrap_or(0)
    };
    let input = count(["input_tokens", "prompt_tokens"]);
    let output = count(["output_tokens", "completion_tokens"]);
    (input.is_some() || output.is_some()).then(|| Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cached: detail(["prompt_tokens_details", "input_tokens_details"], "cached_tokens"),
        reasoning: detail(
            ["output_tokens_details", "completion_tokens_details"],
            "reasoning_tokens",
        ),
    })
}

/// Is a member called `code` one of an error?
pub(super) fn is_code(code: &Value) -> bool {
    match code {
        Value::String(code) => !code.is_empty() && code != "200",
        Value::Number(code) => !matches!(code.as_u64(), Some(0 | 200)),
        _ => false,
    }
}
