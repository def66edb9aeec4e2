//! Reads a chat request as strictly as the provider does.

use serde_json::Value;

use super::messages;
use super::variant::{Unknown, Variant};
use crate::providers::Dialect;
use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{
    Refusal, given, is_tool_name, is_true, items, outside, text, unknown,
};

/// The fields of OpenAI's own reference.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "n",
    "seed",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "reasoning_effort",
    "verbosity",
    "service_tier",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "store",
    "prediction",
    "modalities",
    "audio",
    "web_search_options",
    "moderation",
];

/// What a body asks for, or why it is refused.
pub(super) fn read(variant: &Variant, body: &Value) -> Result<Ask, Refusal> {
    fields(variant, body)?;
    numbers(variant, body)?;
    let mut ask = Ask { model: text(body, "model").to_owned(), ..Ask::default() };
    let named_by_path = variant.dialect == Dialect::Azure;
    if ask.model.is_empty() && !named_by_path {
        return Err(
            invalid("missing_required_parameter", "you must provide a model parameter").of("model")
        );
    }
    ask.stream = is_true(body, "stream");
    if given(body, "stream_options").is_some() && !ask.stream {
        let text = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(invalid("invalid_value", text).of("stream_options"));
    }
    ask.thinks = thinks(body);
    tools(variant, body, &mut ask)?;
    messages::read(variant, body, &mut ask)?;
    if variant.dialect != Dialect::QwenDemo {
        ask.json = json(variant, body)?;
    }
    let cap = given(body, "max_completion_tokens").or(given(body, "max_tokens"));
    ask.cap = cap.and_then(Value::as_u64);
    if variant.dialect == Dialect::QwenDemo {
        // It ignores them all.
        (ask.cap, ask.thinks) = (None, false);
    }
    Ok(ask)
}

/// A refusal with status 400.
pub(super) fn invalid(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(400, code, message)
}

fn fields(variant: &Variant, body: &Value) -> Result<(), Refusal> {
    if variant.rules.unknown == Unknown::Ignored {
        return Ok(());
    }
    let refuses = |name: &str| variant.rules.less.contains(&name);
    let known: Vec<&str> =
        FIELDS.iter().chain(variant.rules.more).copied().filter(|name| !refuses(name)).collect();
    match unknown(body, &known) {
        Some(name) => {
            Err(invalid("unknown_parameter", format!("Unknown parameter: '{name}'.")).of(name))
        }
        None => Ok(()),
    }
}

fn numbers(variant: &Variant, body: &Value) -> Result<(), Refusal> {
    let (least, most) = variant.rules.temperature;
    let (with_least, with_most) = variant.rules.bounds;
    let heat = body["temperature"].as_f64();
    let on_bound = |bound: f64| heat.is_some_and(|heat| (heat - bound).abs() < f64::EPSILON);
    if outside(body, "temperature", least, most)
        || (!with_least && on_bound(least))
        || (!with_most && on_bound(most))
    {
        return Err(out_of_range("temperature"));
    }
    let ranges = [
        ("top_p", 0.0, 1.0),
        ("presence_penalty", -2.0, 2.0),
        ("frequency_penalty", -2.0, 2.0),
        ("top_logprobs", 0.0, 20.0),
        ("n", 1.0, 128.0),
        ("max_tokens", 1.0, 1e9),
        ("max_completion_tokens", 1.0, 1e9),
    ];
    if let Some((name, ..)) = ranges.iter().find(|(n, least, most)| outside(body, n, *least, *most))
    {
        return Err(out_of_range(name));
    }
    if items(&body["stop"]).len() > 4 {
        return Err(
            invalid("array_above_max_length", "Expected at most 4 stop strings.").of("stop")
        );
    }
    if given(body, "max_tokens").is_some() && refuses_max_tokens(variant, text(body, "model")) {
        let text = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                    Use 'max_completion_tokens' instead.";
        return Err(invalid("unsupported_parameter", text).of("max_tokens"));
    }
    Ok(())
}

/// Reasoning models of OpenAI take only the newer name.
fn refuses_max_tokens(variant: &Variant, model: &str) -> bool {
    let reasons = ["o1", "o3", "o4", "gpt-5"].iter().any(|prefix| model.starts_with(prefix));
    reasons && matches!(variant.dialect, Dialect::OpenAi | Dialect::Azure)
}

fn out_of_range(name: &str) -> Refusal {
    invalid("invalid_value", format!("Invalid '{name}': it is not within its range.")).of(name)
}

/// Whether any of the ways to ask for reasoning is used.
fn thinks(body: &Value) -> bool {
    let effort = text(body, "reasoning_effort");
    let kind = text(&body["thinking"], "type");
    (!effort.is_empty() && effort != "none")
        || matches!(kind, "enabled" | "auto")
        || is_true(body, "enable_thinking")
        || is_true(&body["chat_template_kwargs"], "enable_thinking")
        || text(body, "prompt_mode") == "reasoning"
}

fn tools(variant: &Variant, body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    if variant.dialect == Dialect::QwenDemo {
        // It knows only the older functions, and none of them in a stream.
        if ask.stream && given(body, "functions").is_some() {
            let text = "Invalid request: Function calling is not yet implemented for stream mode.";
            return Err(invalid("invalid_value", text));
        }
        return Ok(());
    }
    for (n, tool) in items(&body["tools"]).iter().enumerate() {
        let function = &tool["function"];
        let name = text(function, "name");
        if text(tool, "type") != "function" {
            let param = format!("tools[{n}].type");
            return Err(invalid("invalid_value", format!("Invalid value for '{param}'.")).of(param));
        }
        if !is_tool_name(name) {
            let param = format!("tools[{n}].function.name");
            let text = format!("Invalid '{param}': string does not match the expected pattern.");
            return Err(invalid("invalid_value", text).of(param));
        }
        ask.count(text(function, "description"));
        ask.tools.push(Tool { name: name.to_owned(), schema: function["parameters"].clone() });
    }
    let choice = &body["tool_choice"];
    if ask.tools.is_empty() && !choice.is_null() && choice != "none" {
        let text = "'tool_choice' is only allowed when 'tools' are specified.";
        return Err(invalid("invalid_value", text).of("tool_choice"));
    }
    ask.choice = match (choice.as_str(), text(&choice["function"], "name")) {
        (Some("auto"), _) | (None, "") => Choice::Auto,
        (Some("none"), _) => Choice::Never,
        (Some("required" | "any"), _) => Choice::Any,
        (Some(_), _) => return Err(out_of_range("tool_choice")),
        (None, name) => Choice::Named(name.to_owned()),
    };
    if matches!(ask.choice, Choice::Any | Choice::Named(_)) && !variant.rules.choice {
        return Err(out_of_range("tool_choice"));
    }
    if let Choice::Named(name) = &ask.choice
        && !ask.tools.iter().any(|tool| tool.name == *name)
    {
        return Err(
            invalid("invalid_value", format!("There is no tool '{name}'.")).of("tool_choice")
        );
    }
    ask.one_call = body["parallel_tool_calls"] == false;
    Ok(())
}

fn json(variant: &Variant, body: &Value) -> Result<Option<Json>, Refusal> {
    let format = &body["response_format"];
    match text(format, "type") {
        "json_object" => {
            if !body["messages"].to_string().to_lowercase().contains("json") {
                let text = "'messages' must contain the word 'json' in some form, to use \
                            'response_format' of type 'json_object'.";
                return Err(invalid("invalid_value", text).of("messages"));
            }
            Ok(Some(Json::Any))
        }
        "json_schema" if !variant.rules.schema => Err(out_of_range("response_format")),
        "json_schema" => {
            let schema = &format["json_schema"];
            if text(schema, "name").is_empty() {
                let param = "response_format.json_schema.name";
                let text = format!("Missing required parameter: '{param}'.");
                return Err(invalid("missing_required_parameter", text).of(param));
            }
            Ok(Some(Json::Schema(schema["schema"].clone())))
        }
        "" | "text" => Ok(None),
        _ => Err(out_of_range("response_format")),
    }
}
