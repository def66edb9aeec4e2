//! The bodies of the format, as they go up and as they come down.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use sluicegate_model::Usage;

use crate::chat::Number;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) functions: Vec<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Choose<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) penalty_score: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stop: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<Cow<'a, str>>,
    /// Members of its own.
    #[serde(flatten)]
    pub(super) own: BTreeMap<&'static str, &'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
}

/// A turn.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

#[derive(Serialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Assistant,
    /// What a function returned; it stands where users speak.
    Function,
}

#[derive(Serialize, Debug, PartialEq, Eq)]
pub(super) struct FunctionCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a RawValue,
}

#[derive(Serialize)]
pub(super) struct Choose<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Named<'a>,
}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
}

/// A whole answer, or one event of a stream.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Answered {
    pub(super) id: Option<String>,
    pub(super) created: Option<u64>,
    pub(super) result: Option<String>,
    pub(super) function_call: Option<Called>,
    pub(super) finish_reason: Option<String>,
    pub(super) is_end: Option<bool>,
    pub(super) is_truncated: Option<bool>,
    /// The conversation must not go on: something in it is not allowed.
    pub(super) need_clear_history: Option<bool>,
    pub(super) usage: Value,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Called {
    pub(super) name: Option<String>,
    /// JSON text, always whole.
    pub(super) arguments: Option<String>,
    /// Why the model calls it.
    pub(super) thoughts: Option<String>,
}

impl Answered {
    /// The call that is made, if one is.
    pub(super) fn called(&self) -> Option<&Called> {
        self.function_call.as_ref().filter(|call| !call.name().is_empty())
    }
}

impl Called {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Its arguments; none are an empty object.
    pub(super) fn arguments(&self) -> &str {
        self.arguments.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("{}")
    }
}

/// Reads a usage object; `None` when it holds no count at all.
pub(super) fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage.get(name)?.as_u64();
    let detail = |within: &str, name: &str| usage.get(within)?.get(name)?.as_u64();
    let input = count("prompt_tokens");
    let output = count("completion_tokens");
    (input.is_some() || output.is_some()).then(|| Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cached: detail("prompt_tokens_details", "cached_tokens").unwrap_or(0),
        reasoning: detail("completion_tokens_details", "reasoning_tokens").unwrap_or(0),
    })
}
