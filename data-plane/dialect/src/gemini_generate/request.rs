//! The caller's request in Google's words.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    contents::{self, Turn},
    generation::{Generation, ThinkingConfig},
    path, resource, schema,
};
use crate::{
    call::Call,
    chat::{
        Chat, Number, Support,
        reply::json,
        support::Treat::{Refuse, RefuseUnless},
        tools::{Format, Tool, ToolChoice},
    },
    dialect::{Destination, Unfit, UpstreamCall},
};

/// Members that the format has no words for. Unknown ones are an error there, so that none is sent on.
const SUPPORT: Support = Support(&[
    ("modalities", RefuseUnless("[\"text\"]", "it answers in text")),
    ("audio", Refuse("it answers in text")),
    ("functions", Refuse("it takes 'tools'")),
    ("web_search_options", Refuse("it does not search by itself")),
]);

/// Most answers, and most stop sequences, that one request may ask for.
const MOST_CHOICES: u64 = 8;
const MOST_STOPS: usize = 5;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    generation_config: GenerationConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_settings: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declared<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declared<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: FunctionCallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate_count: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<Number<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_schema: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Thinking<'a> {
    /// The caller's own words.
    Native(&'a RawValue),
    Made(ThinkingConfig),
}

pub(super) fn translate(call: &Call, to: &Destination<'_>) -> Result<UpstreamCall, Unfit> {
    let generation = Generation::of(resource(to.model).1);
    let mut chat = Chat::read(call)?;
    let mut dropped: Vec<Cow<'static, str>> = Vec::new();
    let mut config = sampling(&mut chat, call, &mut dropped)?;
    config.thinking_config = thinking(&mut chat, generation, &config, &mut dropped)?;
    let safety_settings = native(&mut chat, "safety_settings", "safetySettings");
    let cached_content = native(&mut chat, "cached_content", "cachedContent");
    if chat.parallel_tool_calls == Some(false) {
        dropped.push("parallel_tool_calls".into());
    }
    if chat.tools.iter().any(|tool| tool.strict == Some(true)) {
        dropped.push("tools[].function.strict".into());
    }
    if chat.stop.len() > MOST_STOPS {
        return Err(Unfit::unsupported("stop", "it takes five sequences at most"));
    }
    config.stop_sequences = &chat.stop;
    format(&chat, generation, &mut config)?;
    dropped.extend(SUPPORT.settle(&chat)?);

    let (system_instruction, contents) = contents::turns(&chat, generation)?;
    let declared = chat.tools.iter().enumerate();
    let declared = declared.map(|(index, tool)| declare(index, tool, generation));
    let function_declarations = declared.collect::<Result<Vec<_>, _>>()?;
    let tools = (!chat.tools.is_empty()).then_some([Tools { function_declarations }]);
    let tool_config = chat.tool_choice.as_ref().map(tool_config);
    let body = Body {
        contents,
        system_instruction,
        tools,
        tool_config,
        generation_config: config,
        safety_settings,
        cached_content,
    };
    let method = if call.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let path = Some(path(to.model, method));
    Ok(UpstreamCall { path, dropped, ..UpstreamCall::new(json(&body)) })
}

/// A member of this format's own, under either spelling of its name.
fn native<'a>(chat: &mut Chat<'a>, snake: &str, camel: &str) -> Option<&'a RawValue> {
    let first = chat.take_raw(snake);
    first.or(chat.take_raw(camel))
}

/// How the answer is drawn, and how much of it.
fn sampling<'a>(
    chat: &mut Chat<'a>,
    call: &Call,
    dropped: &mut Vec<Cow<'static, str>>,
) -> Result<GenerationConfig<'a>, Unfit> {
    let choices = chat.take_count("n")?.filter(|choices| *choices > 1);
    if choices.is_some_and(|choices| choices > MOST_CHOICES) {
        return Err(Unfit::unsupported("n", "it gives eight answers at most"));
    }
    // Theirs is a number of 32 bits.
    let seed = chat.take_raw("seed");
    let fits = seed.filter(|seed| seed.get().parse::<i32>().is_ok());
    if seed.is_some() && fits.is_none() {
        dropped.push("seed".into());
    }
    let wants_logprobs = chat.take_raw("logprobs").is_some_and(|raw| raw.get() == "true");
    let top = chat.take_count("top_logprobs")?.filter(|top| wants_logprobs && *top > 0);
    Ok(GenerationConfig {
        max_output_tokens: chat.take_cap(call),
        temperature: chat.take_clamped("temperature", 0.0, 2.0)?,
        top_p: chat.take_clamped("top_p", 0.0, 1.0)?,
        top_k: native(chat, "top_k", "topK"),
        candidate_count: choices,
        seed: fits,
        presence_penalty: chat.take_clamped("presence_penalty", -2.0, 2.0)?,
        frequency_penalty: chat.take_clamped("frequency_penalty", -2.0, 2.0)?,
        response_logprobs: wants_logprobs.then_some(true),
        logprobs: top,
        ..GenerationConfig::default()
    })
}

/// `thinking_config` as the caller wrote it, else `reasoning_effort` as the generation knows it.
fn thinking<'a>(
    chat: &mut Chat<'a>,
    generation: Generation,
    config: &GenerationConfig<'_>,
    dropped: &mut Vec<Cow<'static, str>>,
) -> Result<Option<Thinking<'a>>, Unfit> {
    let effort = chat.take_text("reasoning_effort")?;
    let native = native(chat, "thinking_config", "thinkingConfig").map(Thinking::Native);
    let made = match (&native, &effort) {
        (None, Some(effort)) => generation.thinking(effort, config.max_output_tokens)?,
        _ => None,
    };
    let silent = effort.as_deref().is_none_or(|effort| effort == "none");
    if !silent && made.is_none() {
        dropped.push("reasoning_effort".into());
    }
    Ok(native.or(made.map(Thinking::Made)))
}

/// The form that the answer must have.
fn format<'a>(
    chat: &'a Chat<'_>,
    generation: Generation,
    config: &mut GenerationConfig<'a>,
) -> Result<(), Unfit> {
    let Some(format) = &chat.format else { return Ok(()) };
    // Generations that do not sign their calls either call or fill a form.
    if !chat.tools.is_empty() && !generation.signs {
        let why = "it cannot give JSON where there are tools";
        return Err(Unfit::unsupported("response_format", why));
    }
    config.response_mime_type = Some("application/json");
    match format {
        Format::JsonObject => {}
        Format::JsonSchema { schema, .. } if generation.json_schema => {
            config.response_json_schema = Some(schema);
        }
        Format::JsonSchema { schema, .. } => {
            let fault = || {
                let what = "must be a JSON Schema object";
                Unfit::invalid("response_format.json_schema.schema", what)
            };
            config.response_schema = Some(schema::subset(schema).ok_or_else(fault)?);
        }
    }
    Ok(())
}

fn declare<'a>(
    index: usize,
    tool: &'a Tool<'_>,
    generation: Generation,
) -> Result<Declared<'a>, Unfit> {
    let mut declared = Declared {
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters: None,
        parameters_json_schema: None,
    };
    let Some(spelt) = tool.parameters else { return Ok(declared) };
    let fault = || {
        let param = format!("tools[{index}].function.parameters");
        Unfit::invalid(param, "must be the JSON Schema of an object")
    };
    if !spelt.get().starts_with('{') {
        return Err(fault());
    }
    if generation.json_schema {
        declared.parameters_json_schema = Some(spelt);
    } else if !schema::is_bare(spelt) {
        declared.parameters = Some(schema::subset(spelt).ok_or_else(fault)?);
    }
    Ok(declared)
}

fn tool_config<'a>(choice: &'a ToolChoice<'_>) -> ToolConfig<'a> {
    let (mode, allowed_function_names) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some([name.as_ref()])),
    };
    ToolConfig { function_calling_config: FunctionCallingConfig { mode, allowed_function_names } }
}
