//! A chat on its way up.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    models,
    schema::{Body, Choose, Function, Named},
    turns,
};
use crate::{
    call::Call,
    chat::{
        self, Chat, Number, Support,
        reply::json,
        support::Treat::{Drop, Refuse, RefuseUnless},
        tools::{Format, ToolChoice},
    },
    dialect::{Destination, Unfit, UpstreamCall},
};

/// Members of its own, which pass under their own names.
const OWN: [&str; 3] = ["disable_search", "enable_citation", "enable_system_memory"];

static SUPPORT: Support = Support(&[
    ("n", RefuseUnless("1", "it gives one answer")),
    ("logprobs", RefuseUnless("false", "it gives no log-probabilities")),
    ("top_logprobs", RefuseUnless("0", "it gives no log-probabilities")),
    ("functions", Refuse("it takes tools in their place")),
    ("function_call", Refuse("it takes tool_choice in its place")),
    ("audio", Refuse("it answers with text only")),
    ("modalities", RefuseUnless("[\"text\"]", "it answers with text only")),
    ("web_search_options", Refuse("it searches by itself")),
    ("seed", Drop),
    ("logit_bias", Drop),
    ("frequency_penalty", Drop),
    ("reasoning_effort", Drop),
    ("metadata", Drop),
    ("store", Drop),
    ("service_tier", Drop),
]);

/// Smallest temperature and share that are taken: both must be more than 0.
const LEAST: f64 = 0.0001;
/// Fewest tokens that an answer may be bounded to.
const LEAST_CAP: u64 = 2;

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let mut chat = Chat::read(call)?;
    let response_format = match chat.format.take() {
        None => None,
        Some(Format::JsonObject) => Some("json_object"),
        Some(Format::JsonSchema { .. }) => {
            return Err(Unfit::unsupported("response_format", "it knows json_object"));
        }
    };
    let user = chat.take_text("user")?;
    let temperature = chat.take_number("temperature")?.map(|it| (it / 2.0).clamp(LEAST, 1.0));
    let top_p = chat.take_clamped("top_p", LEAST, 1.0)?;
    let penalty = chat.take_number("presence_penalty")?;
    let penalty = penalty.map(|it| Number::Clamped(it.clamp(-2.0, 2.0) / 4.0 + 1.5));
    let own = OWN.into_iter().filter_map(|name| Some((name, chat.take_raw(name)?))).collect();
    let penalty_score = chat.take_clamped("penalty_score", 1.0, 2.0)?.or(penalty);
    let user_id = chat.take_text("user_id")?.or(user);
    let max_output_tokens = chat.take_cap(call).map(|cap| cap.max(LEAST_CAP));
    let stop = std::mem::take(&mut chat.stop);
    let mut dropped = SUPPORT.settle(&chat)?;
    dropped.extend(lost(&chat));
    let tool_choice = choose(&chat)?;
    let (system, messages) = turns::of(&chat.messages)?;
    // Where none may be called, none is told of.
    let tools = chat.tools.iter().filter(|_| chat.tool_choice != Some(ToolChoice::None));
    let body = Body {
        messages,
        system,
        functions: tools.map(function).collect(),
        tool_choice,
        temperature,
        top_p,
        penalty_score,
        max_output_tokens,
        stop,
        response_format,
        user_id,
        own,
        stream: call.stream,
    };
    let path = Some(models::chat(to.model));
    Ok(UpstreamCall { path, dropped, ..UpstreamCall::new(json(&body)) })
}

fn function<'a>(tool: &'a chat::tools::Tool<'_>) -> Function<'a> {
    Function {
        name: &tool.name,
        // Both are required there.
        description: tool.description.as_deref().unwrap_or(&tool.name),
        parameters: tool.parameters.unwrap_or_else(|| nothing()),
    }
}

/// The schema of a function without parameters.
fn nothing() -> &'static RawValue {
    serde_json::from_str(r#"{"type":"object","properties":{}}"#).unwrap_or(RawValue::NULL)
}

/// The one thing that can be said of the choice is which function it must be.
fn choose<'a>(chat: &'a Chat<'_>) -> Result<Option<Choose<'a>>, Unfit> {
    let name = match (&chat.tool_choice, chat.tools.as_slice()) {
        (None | Some(ToolChoice::Auto | ToolChoice::None), _) => return Ok(None),
        (Some(ToolChoice::Named(name)), _) => name,
        // Any of one is that one.
        (Some(ToolChoice::Required), [only]) => &only.name,
        (Some(ToolChoice::Required), _) => {
            return Err(Unfit::unsupported("tool_choice", "it knows none, auto or a function"));
        }
    };
    Ok(Some(Choose { kind: "function", function: Named { name } }))
}

/// What is left out of messages and tools.
fn lost(chat: &Chat<'_>) -> Vec<Cow<'static, str>> {
    let mut lost = Vec::new();
    let thinks = |message: &chat::Message<'_>| match message {
        chat::Message::Assistant(turn) => !turn.reasoning.is_empty(),
        chat::Message::System(_) | chat::Message::User(_) | chat::Message::Tool { .. } => false,
    };
    if chat.messages.iter().any(thinks) {
        lost.push("messages.reasoning_content".into());
    }
    if chat.tools.iter().any(|tool| tool.strict == Some(true)) {
        lost.push("tools.function.strict".into());
    }
    if chat.parallel_tool_calls == Some(true) {
        lost.push("parallel_tool_calls".into());
    }
    lost
}
