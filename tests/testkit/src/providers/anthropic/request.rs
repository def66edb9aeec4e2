//! Reads a request as strictly as the API does.

use serde_json::Value;

use super::{invalid, messages};
use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{
    Refusal, given, is_tool_name, is_true, items, outside, text, unknown,
};

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "metadata",
    "service_tier",
    "thinking",
    "output_config",
    "inference_geo",
    "container",
    "cache_control",
    "diagnostics",
    "speed",
];

/// The least budget for thinking.
const LEAST_BUDGET: u64 = 1024;

/// What a body asks for, or why it is refused. Counting tokens needs no `max_tokens`.
pub(super) fn read(body: &Value, generates: bool) -> Result<Ask, Refusal> {
    if let Some(name) = unknown(body, FIELDS) {
        return Err(invalid(format!("{name}: Extra inputs are not permitted")));
    }
    let required = ["model", "messages", "max_tokens"];
    let missing = required.iter().find(|name| given(body, name).is_none());
    if let Some(name) = missing
        && (generates || *name != "max_tokens")
    {
        return Err(invalid(format!("{name}: Field required")));
    }
    let cap = body["max_tokens"].as_u64();
    if generates && cap.is_none() {
        return Err(invalid("max_tokens: Input should be a valid integer"));
    }
    let mut ask = Ask { model: text(body, "model").to_owned(), cap, ..Ask::default() };
    ask.stream = is_true(body, "stream");
    numbers(body)?;
    ask.thinks = thinking(body, cap.unwrap_or(u64::MAX))?;
    tools(body, &mut ask)?;
    ask.json = output(body)?;
    system(body, &mut ask)?;
    messages::read(body, &mut ask)?;
    Ok(ask)
}

fn numbers(body: &Value) -> Result<(), Refusal> {
    for name in ["temperature", "top_p"] {
        if outside(body, name, 0.0, 1.0) {
            return Err(invalid(format!("{name}: range: 0..1")));
        }
    }
    let stops = items(&body["stop_sequences"]);
    if stops.iter().any(|stop| stop.as_str().is_none_or(|stop| stop.trim().is_empty())) {
        return Err(invalid("stop_sequences: each stop sequence must contain non-whitespace"));
    }
    if !matches!(text(body, "service_tier"), "" | "auto" | "standard_only") {
        return Err(invalid("service_tier: Input should be 'auto' or 'standard_only'"));
    }
    Ok(())
}

/// Whether thinking is on, if what is said about it fits the rest.
fn thinking(body: &Value, cap: u64) -> Result<bool, Refusal> {
    let thinking = &body["thinking"];
    let on = match text(thinking, "type") {
        "enabled" => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            if budget < LEAST_BUDGET {
                let text =
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024";
                return Err(invalid(text));
            }
            if budget >= cap {
                let text = "`max_tokens` must be greater than `thinking.budget_tokens`.";
                return Err(invalid(text));
            }
            true
        }
        "adaptive" => true,
        "" | "disabled" => false,
        other => return Err(invalid(format!("thinking: Input tag '{other}' found"))),
    };
    if on && given(body, "temperature").is_some_and(|heat| heat.as_f64() != Some(1.0)) {
        return Err(invalid("`temperature` may only be set to 1 when thinking is enabled."));
    }
    if on && matches!(text(&body["tool_choice"], "type"), "any" | "tool") {
        return Err(invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    Ok(on)
}

fn tools(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    for (n, tool) in items(&body["tools"]).iter().enumerate() {
        let known = ["name", "description", "input_schema", "type", "cache_control", "strict"];
        if let Some(name) = unknown(tool, &known) {
            return Err(invalid(format!(
                "tools.{n}.custom.{name}: Extra inputs are not permitted"
            )));
        }
        let name = text(tool, "name");
        if !is_tool_name(name) {
            let text = format!(
                "tools.{n}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            );
            return Err(invalid(text));
        }
        let schema = &tool["input_schema"];
        if text(schema, "type") != "object" {
            return Err(invalid(format!("tools.{n}.custom.input_schema.type: Field required")));
        }
        ask.count(text(tool, "description"));
        ask.tools.push(Tool { name: name.to_owned(), schema: schema.clone() });
    }
    let choice = &body["tool_choice"];
    let Some(choice) = Some(choice).filter(|choice| !choice.is_null()) else { return Ok(()) };
    ask.choice = match text(choice, "type") {
        "auto" => Choice::Auto,
        "none" => Choice::Never,
        "any" => Choice::Any,
        "tool" => Choice::Named(text(choice, "name").to_owned()),
        other => return Err(invalid(format!("tool_choice: Input tag '{other}' found"))),
    };
    if ask.tools.is_empty() {
        return Err(invalid("tool_choice may only be specified while providing tools."));
    }
    if let Choice::Named(name) = &ask.choice
        && !ask.tools.iter().any(|tool| tool.name == *name)
    {
        return Err(invalid(format!("tool_choice: Tool '{name}' not found in provided tools")));
    }
    ask.one_call = is_true(choice, "disable_parallel_tool_use");
    Ok(())
}

fn output(body: &Value) -> Result<Option<Json>, Refusal> {
    let config = &body["output_config"];
    if let Some(name) = unknown(config, &["effort", "format", "task_budget"]) {
        return Err(invalid(format!("output_config.{name}: Extra inputs are not permitted")));
    }
    if !matches!(text(config, "effort"), "" | "low" | "medium" | "high" | "xhigh" | "max") {
        return Err(invalid("output_config.effort: Input should be 'low' to 'max'"));
    }
    let format = &config["format"];
    match text(format, "type") {
        "" => Ok(None),
        "json_schema" if format["schema"].is_object() => {
            Ok(Some(Json::Schema(format["schema"].clone())))
        }
        _ => Err(invalid("output_config.format.type: Input should be 'json_schema'")),
    }
}

fn system(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    match &body["system"] {
        Value::Null => {}
        Value::String(whole) => ask.told(whole),
        blocks => {
            for (n, block) in items(blocks).iter().enumerate() {
                if text(block, "type") != "text" || text(block, "text").is_empty() {
                    return Err(invalid(format!(
                        "system.{n}: text content blocks must be non-empty"
                    )));
                }
                ask.told(text(block, "text"));
            }
        }
    }
    Ok(())
}
