//! Tools, how they are chosen, and the form that an answer must have.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::Unfit;

/// A function that a model may call.
#[derive(Debug, Clone)]
pub struct Tool<'a> {
    pub name: Cow<'a, str>,
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema, as it is spelt; absent: no parameters.
    pub parameters: Option<&'a RawValue>,
    pub strict: Option<bool>,
}

/// Which tools a model must, may or must not call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    Auto,
    None,
    /// Any, but one.
    Required,
    /// This one.
    Named(Cow<'a, str>),
}

/// The form of an answer.
#[derive(Debug, Clone)]
pub enum Format<'a> {
    JsonObject,
    JsonSchema { name: Cow<'a, str>, schema: &'a RawValue, strict: Option<bool> },
}

#[derive(Deserialize)]
struct RawTool<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<RawFunction<'a>>,
}

#[derive(Deserialize)]
struct RawFunction<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(default)]
    strict: Option<bool>,
}

pub(super) fn tools(raw: &RawValue) -> Result<Vec<Tool<'_>>, Unfit> {
    let raws: Vec<RawTool<'_>> = serde_json::from_str(raw.get())
        .map_err(|_| Unfit::invalid("tools", "must be a list of tools with a name each"))?;
    raws.into_iter()
        .enumerate()
        .map(|(index, RawTool { kind, function })| {
            let kind = kind.as_deref().unwrap_or("function");
            let Some(function) = function.filter(|_| kind == "function") else {
                let kind = crate::redact::message(kind);
                return Err(Unfit::unsupported(
                    format!("tools[{index}]"),
                    format!("it takes tools of type 'function', not '{kind}'"),
                ));
            };
            Ok(Tool {
                name: function.name,
                description: function.description,
                parameters: function.parameters.filter(|schema| schema.get() != "null"),
                strict: function.strict,
            })
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawToolChoice<'a> {
    #[serde(borrow)]
    Word(Cow<'a, str>),
    #[serde(borrow)]
    Named(RawNamed<'a>),
}

#[derive(Deserialize)]
struct RawNamed<'a> {
    #[serde(borrow)]
    function: RawName<'a>,
}

#[derive(Deserialize)]
struct RawName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

pub(super) fn choice(raw: &RawValue) -> Result<ToolChoice<'_>, Unfit> {
    match serde_json::from_str(raw.get()) {
        Ok(RawToolChoice::Named(named)) => Ok(ToolChoice::Named(named.function.name)),
        Ok(RawToolChoice::Word(word)) => match word.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => Ok(ToolChoice::Required),
            _ => Err(Unfit::invalid("tool_choice", "must be none, auto, required or a function")),
        },
        Err(_) => {
            Err(Unfit::unsupported("tool_choice", "it knows none, auto, required or a function"))
        }
    }
}

#[derive(Deserialize)]
struct RawFormat<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    json_schema: Option<RawSchema<'a>>,
}

#[derive(Deserialize)]
struct RawSchema<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
    #[serde(default)]
    strict: Option<bool>,
}

pub(super) fn format(raw: &RawValue) -> Result<Option<Format<'_>>, Unfit> {
    let wrong = || Unfit::invalid("response_format", "must be an object with a 'type'");
    let format: RawFormat<'_> = serde_json::from_str(raw.get()).map_err(|_| wrong())?;
    match format.kind.as_ref() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::JsonObject)),
        "json_schema" => {
            let missing = || Unfit::invalid("response_format.json_schema.schema", "is required");
            let json_schema = format.json_schema.ok_or_else(missing)?;
            Ok(Some(Format::JsonSchema {
                name: json_schema.name.unwrap_or(Cow::Borrowed("answer")),
                schema: json_schema.schema.ok_or_else(missing)?,
                strict: json_schema.strict,
            }))
        }
        _ => {
            Err(Unfit::invalid("response_format.type", "must be text, json_object or json_schema"))
        }
    }
}
