//! A caller's chat request, read whole: for formats that say it in other words.
//!
//! Texts are borrowed from the body where they have no escapes, and JSON that is only passed on (tool
//! schemas, arguments, numbers) stays as it is spelt.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    content::{self, Part, Text},
    tools::{self, Format, Tool, ToolChoice},
};
use crate::{call::Call, dialect::Unfit};

/// A chat request.
#[derive(Debug, Clone)]
pub struct Chat<'a> {
    pub messages: Vec<Message<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub tool_choice: Option<ToolChoice<'a>>,
    pub parallel_tool_calls: Option<bool>,
    pub format: Option<Format<'a>>,
    pub stop: Vec<Cow<'a, str>>,
    /// Every other member that is given and not null, by its name, as it is spelt.
    pub others: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

/// More tool calls than any model makes in one turn.
const MOST_CALLS: usize = 1024;

/// One turn of the conversation. Adjacent turns of one side may follow each other; formats that do
/// not take that merge them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// What developers say, by whichever role's name.
    System(Vec<Part<'a>>),
    User(Vec<Part<'a>>),
    Assistant(Turn<'a>),
    Tool {
        call_id: Cow<'a, str>,
        /// Name of the tool that the nearest call before with this id called.
        name: Option<Cow<'a, str>>,
        content: Vec<Part<'a>>,
    },
}

/// A turn of the model's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn<'a> {
    pub content: Vec<Part<'a>>,
    pub calls: Vec<PastCall<'a>>,
    pub reasoning: Vec<Reasoning<'a>>,
}

/// A tool call of an earlier turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCall<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// JSON text of an object.
    pub arguments: Cow<'a, str>,
    /// What proves to its maker that it made the call (`extra_content.google.thought_signature`).
    pub signature: Option<Cow<'a, str>>,
}

/// A thought of an earlier turn (`reasoning_details`, or `reasoning_content` for a bare text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reasoning<'a> {
    Text {
        text: Cow<'a, str>,
        signature: Option<Cow<'a, str>>,
    },
    /// A thought that only its maker can read.
    Encrypted(Cow<'a, str>),
}

impl<'a> Chat<'a> {
    /// Reads the body of a call.
    ///
    /// # Errors
    /// What is wrong in it, with the member's place.
    pub fn read(call: &'a Call) -> Result<Self, Unfit> {
        refuse_twice(call)?;
        let members: BTreeMap<Name<'a>, &'a RawValue> = serde_json::from_slice(&call.body)
            .map_err(|_| Unfit::invalid("", "the request body is not a JSON object"))?;
        let mut others: BTreeMap<Cow<'a, str>, &'a RawValue> = members
            .into_iter()
            .filter(|(_, value)| value.get() != "null")
            .map(|(name, value)| (name.0, value))
            .collect();
        let mut take = |name: &str| others.remove(name);
        let messages = take("messages")
            .ok_or_else(|| Unfit::invalid("messages", "is required"))
            .and_then(messages)?;
        let tools = take("tools").map(tools::tools).transpose()?.unwrap_or_default();
        let tool_choice = take("tool_choice").map(tools::choice).transpose()?;
        let format = take("response_format").map(tools::format).transpose()?.flatten();
        let stop = take("stop").map(stop).transpose()?.unwrap_or_default();
        let parallel = take("parallel_tool_calls").and_then(|raw| raw.get().parse().ok());
        for known in ["model", "stream", "stream_options"] {
            others.remove(known);
        }
        Ok(Self {
            messages,
            // A choice without tools is none.
            tool_choice: tool_choice.filter(|_| !tools.is_empty()),
            tools,
            parallel_tool_calls: parallel,
            format,
            stop,
            others,
        })
    }

    /// Takes a member that is a number, out of those that are left.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_number(&mut self, name: &'static str) -> Result<Option<f64>, Unfit> {
        let Some(raw) = self.others.remove(name) else { return Ok(None) };
        let number: Option<f64> = raw.get().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Some).ok_or_else(|| Unfit::invalid(name, "must be a number"))
    }

    /// Takes a member that is a whole number that is not negative.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_count(&mut self, name: &'static str) -> Result<Option<u64>, Unfit> {
        let Some(raw) = self.others.remove(name) else { return Ok(None) };
        let number: Option<u64> = raw.get().parse().ok();
        number.map(Some).ok_or_else(|| Unfit::invalid(name, "must be a whole number of at least 0"))
    }

    /// Takes a member that is a text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_text(&mut self, name: &'static str) -> Result<Option<Cow<'a, str>>, Unfit> {
        let Some(raw) = self.others.remove(name) else { return Ok(None) };
        let text: Result<Text<'a>, _> = serde_json::from_str(raw.get());
        text.map(|text| Some(text.0)).map_err(|_| Unfit::invalid(name, "must be a string"))
    }

    /// Takes a member as JSON, to be passed on as it is spelt.
    pub fn take_raw(&mut self, name: &str) -> Option<&'a RawValue> {
        self.others.remove(name)
    }

    /// The bound on the answer: the caller's, whichever member says it, else the one that the gateway
    /// puts in.
    pub fn take_cap(&mut self, call: &Call) -> Option<u64> {
        for name in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
            self.others.remove(name);
        }
        call.max_output_tokens.or(call.send_cap)
    }
}

/// A member that is given twice would mean one thing to one reader and another to the next.
fn refuse_twice(call: &Call) -> Result<(), Unfit> {
    let mut names: Vec<&[u8]> =
        call.members.iter().filter_map(|member| call.body.get(member.name.clone())).collect();
    names.sort_unstable();
    match names.array_windows().find(|[one, other]| one == other) {
        None => Ok(()),
        Some([name, _]) => {
            let name = String::from_utf8_lossy(name);
            Err(Unfit::invalid(name.trim_matches('"'), "is given more than once"))
        }
    }
}

/// A member's name, borrowed where it has no escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

fn stop(raw: &RawValue) -> Result<Vec<Cow<'_, str>>, Unfit> {
    let wrong = |_| Unfit::invalid("stop", "must be a string or a list of strings");
    if raw.get().starts_with('"') {
        let Text(text) = serde_json::from_str(raw.get()).map_err(wrong)?;
        return Ok(vec![text]);
    }
    let texts: Vec<Text<'_>> = serde_json::from_str(raw.get()).map_err(wrong)?;
    Ok(texts.into_iter().map(|text| text.0).collect())
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<RawCall<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<RawFunction<'a>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_details: Option<Vec<RawDetail<'a>>>,
}

#[derive(Deserialize)]
struct RawCall<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    function: RawFunction<'a>,
    #[serde(borrow, default)]
    extra_content: Option<RawExtra<'a>>,
}

#[derive(Deserialize)]
struct RawFunction<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawExtra<'a> {
    #[serde(borrow, default)]
    google: Option<RawGoogle<'a>>,
}

#[derive(Deserialize)]
struct RawGoogle<'a> {
    #[serde(borrow, default)]
    thought_signature: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct RawDetail<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    data: Option<Text<'a>>,
}

fn messages(raw: &RawValue) -> Result<Vec<Message<'_>>, Unfit> {
    let raws: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| Unfit::invalid("messages", "must be a list of messages"))?;
    if raws.is_empty() {
        return Err(Unfit::invalid("messages", "must hold at least one message"));
    }
    let read = raws.into_iter().enumerate().map(|(index, raw)| message(index, raw));
    let mut messages: Vec<Message<'_>> = read.collect::<Result<_, Unfit>>()?;
    let mut called: HashMap<Cow<'_, str>, Cow<'_, str>> = HashMap::new();
    for message in &mut messages {
        match message {
            Message::Assistant(turn) => {
                let calls = turn.calls.iter();
                called.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
            }
            Message::Tool { call_id, name, .. } => *name = called.get(call_id).cloned(),
            Message::System(_) | Message::User(_) => {}
        }
    }
    Ok(messages)
}

fn message(index: usize, raw: &RawValue) -> Result<Message<'_>, Unfit> {
    let at = |member: &str| format!("messages[{index}]{member}");
    let raw: RawMessage<'_> = serde_json::from_str(raw.get())
        .map_err(|error| Unfit::invalid(at(""), format!("is not a message: {}", reason(&error))))?;
    let content = content::parts(raw.content, &at(".content"))?;
    match raw.role.as_ref() {
        "system" | "developer" => Ok(Message::System(content)),
        "user" => Ok(Message::User(content)),
        "assistant" => turn(index, raw, content).map(Message::Assistant),
        "tool" => {
            let id = raw
                .tool_call_id
                .ok_or_else(|| Unfit::invalid(at(".tool_call_id"), "is required"))?;
            Ok(Message::Tool { call_id: id.0, name: None, content })
        }
        "function" => {
            let name = raw.name.ok_or_else(|| Unfit::invalid(at(".name"), "is required"))?;
            Ok(Message::Tool { call_id: name.0, name: None, content })
        }
        _ => Err(Unfit::invalid(
            at(".role"),
            "must be one of system, developer, user, assistant, tool",
        )),
    }
}

/// What serde says, without the place in a text that the caller never wrote.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    // What a struct is, no caller knows.
    match text.split_once(", expected ") {
        Some((what, expected)) if expected.starts_with("struct ") => {
            format!("{what}, expected an object")
        }
        _ => text.to_owned(),
    }
}

fn turn<'a>(
    index: usize,
    raw: RawMessage<'a>,
    mut content: Vec<Part<'a>>,
) -> Result<Turn<'a>, Unfit> {
    if content.is_empty()
        && let Some(refusal) = raw.refusal
    {
        content.push(Part::Text(refusal.0));
    }
    let given = raw.tool_calls.as_ref().map_or(0, Vec::len);
    if given > MOST_CALLS {
        let what = format!("holds {given} calls; at most {MOST_CALLS} are sent on");
        return Err(Unfit::invalid(format!("messages[{index}].tool_calls"), what));
    }
    let mut calls = Vec::new();
    for (position, call) in raw.tool_calls.unwrap_or_default().into_iter().enumerate() {
        let at = format!("messages[{index}].tool_calls[{position}]");
        let signature = call.extra_content.and_then(|extra| extra.google?.thought_signature);
        calls.push(PastCall {
            id: call
                .id
                .map(|id| id.0)
                .ok_or_else(|| Unfit::invalid(format!("{at}.id"), "is required"))?,
            name: call.function.name,
            arguments: arguments(call.function.arguments, &at)?,
            signature: signature.map(|text| text.0),
        });
    }
    if let Some(function) = raw.function_call {
        let at = format!("messages[{index}].function_call");
        calls.push(PastCall {
            // The old form has no ids: the function's name stands in for one.
            id: function.name.clone(),
            name: function.name,
            arguments: arguments(function.arguments, &at)?,
            signature: None,
        });
    }
    let mut reasoning: Vec<_> = raw
        .reasoning_details
        .unwrap_or_default()
        .into_iter()
        .filter_map(|detail| match detail {
            RawDetail { data: Some(data), .. } => Some(Reasoning::Encrypted(data.0)),
            RawDetail { text, signature, .. } if text.is_some() || signature.is_some() => {
                Some(Reasoning::Text {
                    text: text.map_or(Cow::Borrowed(""), |text| text.0),
                    signature: signature.map(|text| text.0),
                })
            }
            RawDetail { .. } => None,
        })
        .collect();
    if reasoning.is_empty() {
        let plain = raw.reasoning.and_then(|raw| serde_json::from_str::<Text<'a>>(raw.get()).ok());
        let text = raw.reasoning_content.or(plain).filter(|text| !text.0.is_empty());
        reasoning.extend(text.map(|text| Reasoning::Text { text: text.0, signature: None }));
    }
    Ok(Turn { content, calls, reasoning })
}

/// Arguments as the text of a JSON object. An empty text is an empty object; an object is what some
/// clients send in its place.
fn arguments<'a>(raw: Option<&'a RawValue>, at: &str) -> Result<Cow<'a, str>, Unfit> {
    let fault =
        || Unfit::invalid(format!("{at}.function.arguments"), "must be the text of a JSON object");
    let text = match raw.map(RawValue::get) {
        None | Some("null") => Cow::Borrowed(""),
        Some(text) if text.starts_with('{') => Cow::Borrowed(text),
        Some(text) => serde_json::from_str::<Text<'a>>(text).map_err(|_| fault())?.0,
    };
    if text.trim().is_empty() {
        return Ok(Cow::Borrowed("{}"));
    }
    let is_object =
        text.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&text).is_ok();
    if is_object { Ok(text) } else { Err(fault()) }
}
