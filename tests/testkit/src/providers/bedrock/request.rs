//! Reads a request as strictly as the API does.

use serde_json::Value;

use super::{conversation, invalid};
use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{Refusal, given, is_tool_name, items, outside, text};

/// What a body asks for, or why it is refused.
pub(super) fn read(model: &str, body: &Value) -> Result<Ask, Refusal> {
    let mut ask = Ask { model: model.to_owned(), ..Ask::default() };
    let config = &body["inferenceConfig"];
    for (name, least, most) in
        [("temperature", 0.0, 1.0), ("topP", 0.0, 1.0), ("maxTokens", 1.0, 1e6)]
    {
        if outside(config, name, least, most) {
            return Err(invalid(format!(
                "1 validation error detected: Value at 'inferenceConfig.{name}' failed to satisfy \
                 constraint: Member must be between {least} and {most}"
            )));
        }
    }
    if items(&config["stopSequences"]).iter().any(|stop| stop == "") {
        return Err(invalid("stopSequences must not be empty texts"));
    }
    ask.cap = config["maxTokens"].as_u64();
    let thinking = &body["additionalModelRequestFields"]["thinking"];
    ask.thinks = matches!(text(thinking, "type"), "enabled" | "adaptive");
    tools(body, &mut ask)?;
    if ask.thinks && matches!(ask.choice, Choice::Any | Choice::Named(_)) {
        return Err(invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    ask.json = output(body)?;
    for block in items(&body["system"]) {
        if given(block, "cachePoint").is_some() || given(block, "guardContent").is_some() {
            continue;
        }
        if text(block, "text").is_empty() {
            return Err(invalid("The text field in the SystemContentBlock object is blank."));
        }
        ask.told(text(block, "text"));
    }
    conversation::read(body, &mut ask)?;
    Ok(ask)
}

fn tools(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let Some(config) = given(body, "toolConfig") else { return Ok(()) };
    if items(&config["tools"]).is_empty() {
        return Err(invalid(
            "1 validation error detected: Value at 'toolConfig.tools' failed to satisfy constraint: \
             Member must have length greater than or equal to 1",
        ));
    }
    for (n, tool) in items(&config["tools"]).iter().enumerate() {
        if given(tool, "cachePoint").is_some() {
            continue;
        }
        let spec = &tool["toolSpec"];
        let name = text(spec, "name");
        if !is_tool_name(name) {
            return Err(invalid(format!(
                "1 validation error detected: Value '{name}' at 'toolConfig.tools.{n}.member.toolSpec.name' \
                 failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
            )));
        }
        let schema = &spec["inputSchema"]["json"];
        if text(schema, "type") != "object" {
            return Err(invalid(format!(
                "The value at toolConfig.tools.{n}.toolSpec.inputSchema.json.type must be one of the \
                 following: object."
            )));
        }
        ask.count(text(spec, "description"));
        ask.tools.push(Tool { name: name.to_owned(), schema: schema.clone() });
    }
    let Some(choice) = given(config, "toolChoice") else { return Ok(()) };
    let named = text(&choice["tool"], "name");
    let members: Vec<&String> =
        choice.as_object().into_iter().flat_map(|choice| choice.keys()).collect();
    ask.choice = match members.as_slice() {
        [one] if *one == "auto" => Choice::Auto,
        [one] if *one == "any" => Choice::Any,
        [one] if *one == "tool" && ask.tools.iter().any(|tool| tool.name == named) => {
            Choice::Named(named.to_owned())
        }
        _ => return Err(invalid("toolChoice must be one of auto, any, or tool with a known name")),
    };
    Ok(())
}

/// A schema comes as text.
fn output(body: &Value) -> Result<Option<Json>, Refusal> {
    let Some(format) = given(&body["outputConfig"], "textFormat") else { return Ok(None) };
    let schema = text(&format["structure"]["jsonSchema"], "schema");
    match serde_json::from_str(schema) {
        Ok(schema) if text(format, "type") == "json_schema" => Ok(Some(Json::Schema(schema))),
        _ => Err(invalid("outputConfig.textFormat must be a json_schema with its schema as text")),
    }
}
