//! The request as it is written.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::anthropic_messages::thinking::Thinking;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Inference::is_empty")]
    pub(super) inference_config: Inference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) additional_model_request_fields: BTreeMap<Cow<'a, str>, Field<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guardrail_config: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_metadata: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<Block<'a>>,
}

/// One block of a turn: an object with one member, which says what it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    Document(Document<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    ReasoningContent(Reasoning<'a>),
}

#[derive(Debug, Serialize)]
pub(super) struct Image<'a> {
    pub(super) format: &'static str,
    pub(super) source: Source<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) source: Source<'a>,
}

/// Base64.
#[derive(Debug, Serialize)]
pub(super) struct Source<'a> {
    pub(super) bytes: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    pub(super) tool_use_id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) input: Box<RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult<'a> {
    pub(super) tool_use_id: Cow<'a, str>,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning<'a> {
    ReasoningText { text: Cow<'a, str>, signature: Cow<'a, str> },
    RedactedContent(Cow<'a, str>),
}

#[derive(Debug, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop_sequences: Vec<Cow<'a, str>>,
}

impl Inference<'_> {
    fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

/// A field of a single model.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Field<'a> {
    AsSpelt(&'a RawValue),
    Thinking(Thinking<'a>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Number<'a> {
    AsSpelt(&'a RawValue),
    Clamped(f64),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choice<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool<'a> {
    pub(super) tool_spec: ToolSpec<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolSpec<'a> {
    pub(super) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Cow<'a, str>>,
    pub(super) input_schema: InputSchema<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct InputSchema<'a> {
    pub(super) json: Schema<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Schema<'a> {
    AsSpelt(&'a RawValue),
    /// An object without members.
    Nothing {
        #[serde(rename = "type")]
        kind: &'static str,
        properties: BTreeMap<(), ()>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Choice<'a> {
    Auto {},
    Any {},
    Tool { name: Cow<'a, str> },
}
