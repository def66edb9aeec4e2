//! The caller's request in Converse's words.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

use super::{
    messages::{Conversation, conversation},
    schema::{
        Body, Choice, Field, Inference, InputSchema, Number, Schema, Tool as ToolItem, ToolConfig,
        ToolSpec,
    },
};
use crate::{
    anthropic_messages::thinking::{Plan, plan},
    call::Call,
    chat::{
        Chat, Support,
        reply::json,
        support::{Treat, clamped},
        tools::{Format, ToolChoice},
    },
    dialect::{Destination, Unfit, UpstreamCall},
    path,
};

/// What becomes of members that Converse has no words for.
const SUPPORT: Support = Support(&[
    ("n", Treat::RefuseUnless("1", "it gives one answer")),
    ("logprobs", Treat::Refuse("it gives no log-probabilities")),
    ("top_logprobs", Treat::Refuse("it gives no log-probabilities")),
    ("modalities", Treat::RefuseUnless("[\"text\"]", "it answers in text")),
    ("audio", Treat::Refuse("it answers in text")),
    ("functions", Treat::Refuse("use 'tools'")),
    ("function_call", Treat::Refuse("use 'tool_choice'")),
    ("web_search_options", Treat::Refuse("it does not search")),
]);

/// Members of Converse's own that callers may write, as they are.
const GUARDRAIL: &str = "guardrailConfig";
const METADATA: &str = "requestMetadata";
const ADDITIONAL: &str = "additionalModelRequestFields";
/// Fields of single models that callers may write without the member around them.
const FIELDS: [&str; 2] = ["top_k", "thinking"];

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let mut chat = Chat::read(call)?;
    refuse_format(&chat)?;
    let cap = chat.take_cap(call);
    let mut dropped = Vec::new();
    let plan = thinking(&mut chat, to.model, cap, &mut dropped)?;
    let thinks = plan.as_ref().is_some_and(Plan::thinks);
    let mut inference_config = Inference {
        // What thinks must be told where to end.
        max_tokens: cap.or(thinks.then_some(CAP)),
        temperature: number(&mut chat, "temperature")?,
        top_p: number(&mut chat, "top_p")?,
        stop_sequences: chat.stop.iter().filter(|stop| !stop.is_empty()).cloned().collect(),
    };
    if thinks && inference_config.temperature.take().is_some() {
        dropped.push(Cow::Borrowed("temperature"));
    }
    let additional_model_request_fields = additional(&mut chat, plan)?;
    let guardrail_config = chat.take_raw(GUARDRAIL);
    let request_metadata = chat.take_raw(METADATA);
    dropped.extend(SUPPORT.settle(&chat)?);
    let tool_config = tool_config(&chat, &mut dropped);
    let Conversation { system, turns } = conversation(&chat, tool_config.is_some(), &mut dropped)?;
    let body = Body {
        messages: turns,
        system,
        inference_config,
        tool_config,
        additional_model_request_fields,
        guardrail_config,
        request_metadata,
    };
    let operation = if call.stream { "converse-stream" } else { "converse" };
    Ok(UpstreamCall {
        path: Some(format!("/model/{}/{operation}", path::segment(to.model))),
        dropped,
        ..UpstreamCall::new(json(&body))
    })
}

fn refuse_format(chat: &Chat<'_>) -> Result<(), Unfit> {
    match chat.format {
        None => Ok(()),
        Some(Format::JsonObject | Format::JsonSchema { .. }) => Err(Unfit::unsupported(
            "response_format",
            "it cannot bind an answer to JSON; use a tool with 'tool_choice'",
        )),
    }
}

/// A number from 0 to 1, as it is spelt unless it is outside.
fn number<'a>(chat: &mut Chat<'a>, name: &'static str) -> Result<Option<Number<'a>>, Unfit> {
    let spelt = chat.others.get(name).copied();
    let (Some(number), Some(spelt)) = (chat.take_number(name)?, spelt) else { return Ok(None) };
    let within = clamped(number, 0.0, 1.0);
    let outside = within.total_cmp(&number).is_ne();
    Ok(Some(if outside { Number::Clamped(within) } else { Number::AsSpelt(spelt) }))
}

/// The fields of single models: the caller's object, and what it wrote beside it.
fn additional<'a>(
    chat: &mut Chat<'a>,
    plan: Option<Plan<'a>>,
) -> Result<BTreeMap<Cow<'a, str>, Field<'a>>, Unfit> {
    let mut fields = BTreeMap::new();
    if let Some(raw) = chat.take_raw(ADDITIONAL) {
        let given: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(raw.get())
            .map_err(|_| Unfit::invalid(ADDITIONAL, "must be an object"))?;
        fields.extend(given.into_iter().map(|(name, value)| (name, Field::AsSpelt(value))));
    }
    for name in FIELDS {
        if let Some(value) = chat.take_raw(name) {
            fields.insert(Cow::Borrowed(name), Field::AsSpelt(value));
        }
    }
    if let Some(thinking) = plan.and_then(|plan| plan.thinking) {
        fields.insert(Cow::Borrowed("thinking"), Field::Thinking(thinking));
    }
    Ok(fields)
}

/// Bound on the answer of a model that thinks, where the caller sets none, in tokens.
const CAP: u64 = 4096;

/// How a model of Anthropic's is to think; `None` for other makers', which are not told by effort.
fn thinking<'a>(
    chat: &mut Chat<'a>,
    model: &str,
    cap: Option<u64>,
    dropped: &mut Vec<Cow<'static, str>>,
) -> Result<Option<Plan<'a>>, Unfit> {
    // Ids are such as `eu.anthropic.claude-…`, or ARNs that end so.
    let Some((_, claude)) = model.rsplit_once("anthropic.") else { return Ok(None) };
    let plan = plan(chat, claude, cap.unwrap_or(CAP))?;
    if plan.gave_up {
        dropped.push(Cow::Borrowed("reasoning_effort"));
    }
    Ok(Some(plan))
}

/// The tools and how they are chosen; `None` where there are none or none may be called, for which
/// Converse has no other word.
fn tool_config<'a>(
    chat: &Chat<'a>,
    dropped: &mut Vec<Cow<'static, str>>,
) -> Option<ToolConfig<'a>> {
    if chat.parallel_tool_calls == Some(false) {
        dropped.push(Cow::Borrowed("parallel_tool_calls"));
    }
    if chat.tools.is_empty() || chat.tool_choice == Some(ToolChoice::None) {
        return None;
    }
    if chat.tools.iter().any(|tool| tool.strict == Some(true)) {
        dropped.push(Cow::Borrowed("tools[].function.strict"));
    }
    let tool_choice = match &chat.tool_choice {
        None | Some(ToolChoice::None) => None,
        Some(ToolChoice::Auto) => Some(Choice::Auto {}),
        Some(ToolChoice::Required) => Some(Choice::Any {}),
        Some(ToolChoice::Named(name)) => Some(Choice::Tool { name: name.clone() }),
    };
    let tools = chat.tools.iter().map(|tool| ToolItem {
        tool_spec: ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone().filter(|text| !text.is_empty()),
            input_schema: InputSchema {
                json: tool.parameters.map_or_else(
                    || Schema::Nothing { kind: "object", properties: BTreeMap::new() },
                    Schema::AsSpelt,
                ),
            },
        },
    });
    Some(ToolConfig { tools: tools.collect(), tool_choice })
}
