//! Tools, and which of them a model may call, in Anthropic's words.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    chat::{
        Chat,
        tools::{Tool, ToolChoice},
    },
    dialect::Unfit,
};

#[derive(Serialize)]
pub(super) struct Declared<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Cow<'a, RawValue>,
}

#[derive(Serialize)]
pub(super) struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

/// The tools of a request.
///
/// # Errors
/// When the parameters of one are no JSON Schema of an object.
pub(super) fn declared<'a>(tools: &'a [Tool<'a>]) -> Result<Vec<Declared<'a>>, Unfit> {
    let declare = |(index, tool): (usize, &'a Tool<'a>)| {
        Ok(Declared {
            name: &tool.name,
            description: tool.description.as_deref(),
            input_schema: schema(index, tool.parameters)?,
        })
    };
    tools.iter().enumerate().map(declare).collect()
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
}

/// The schema as it is spelt; its `type` is required here, and put in where it is missing.
fn schema(index: usize, spelt: Option<&RawValue>) -> Result<Cow<'_, RawValue>, Unfit> {
    let fault = || {
        let param = format!("tools[{index}].function.parameters");
        Unfit::invalid(param, "must be the JSON Schema of an object")
    };
    let text = spelt.map_or("{}", RawValue::get);
    let rest = text.strip_prefix('{').ok_or_else(fault)?;
    let peek: Peek<'_> = serde_json::from_str(text).map_err(|_| fault())?;
    match spelt {
        Some(raw) if peek.kind.is_some() => Ok(Cow::Borrowed(raw)),
        _ => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            let typed = RawValue::from_string(format!(r#"{{"type":"object"{comma}{rest}"#));
            typed.map(Cow::Owned).map_err(|_| fault())
        }
    }
}

/// The choice of a request. What forbids parallel calls stands in it, so that one may have to be made.
pub(super) fn choice<'a>(chat: &'a Chat<'_>) -> Option<Choice<'a>> {
    let (kind, name) = match chat.tool_choice.as_ref() {
        None if chat.parallel_tool_calls != Some(false) || chat.tools.is_empty() => return None,
        None | Some(ToolChoice::Auto) => ("auto", None),
        Some(ToolChoice::None) => ("none", None),
        Some(ToolChoice::Required) => ("any", None),
        Some(ToolChoice::Named(name)) => ("tool", Some(name.as_ref())),
    };
    let alone = chat.parallel_tool_calls == Some(false) && kind != "none";
    Some(Choice { kind, name, disable_parallel_tool_use: alone.then_some(true) })
}
