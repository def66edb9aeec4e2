//! Reads a request as strictly as the API does.

use serde_json::Value;

use super::{contents, invalid, schema, signs};
use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{Refusal, given, is_tool_name, items, outside, text, unknown};

const FIELDS: &[&str] = &[
    "model",
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "generationConfig",
    "cachedContent",
    "serviceTier",
    "store",
];

const CONFIG: &[&str] = &[
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "candidateCount",
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "enableEnhancedCivicAnswers",
    "speechConfig",
    "thinkingConfig",
    "imageConfig",
    "mediaResolution",
];

const TOOLS: &[&str] = &[
    "functionDeclarations",
    "googleSearch",
    "googleSearchRetrieval",
    "codeExecution",
    "urlContext",
    "computerUse",
    "fileSearch",
    "googleMaps",
];

/// What a request asks for.
pub(super) struct Wish {
    pub(super) ask: Ask,
    /// Whether reasoning is told, and not only counted.
    pub(super) shows: bool,
}

/// What a body asks for, or why it is refused.
pub(super) fn read(model: &str, body: &Value) -> Result<Wish, Refusal> {
    known(body, FIELDS, "")?;
    let config = &body["generationConfig"];
    known(config, CONFIG, "generation_config")?;
    let mut ask = Ask { model: model.to_owned(), ..Ask::default() };
    ask.cap = config["maxOutputTokens"].as_u64();
    numbers(config)?;
    let thinking = &config["thinkingConfig"];
    known(thinking, &["includeThoughts", "thinkingBudget", "thinkingLevel"], "thinking_config")?;
    let level = text(thinking, "thinkingLevel");
    let budget = thinking["thinkingBudget"].as_i64();
    if budget.is_some() && !level.is_empty() {
        return Err(invalid("You can only set one of thinking budget and thinking level."));
    }
    let shows = thinking["includeThoughts"] == true;
    ask.thinks = budget.map_or(shows || !level.is_empty(), |budget| budget != 0);
    tools(body, &mut ask)?;
    ask.json = output(config)?;
    if ask.json.is_some() && !ask.tools.is_empty() && !signs(model) {
        let text = "Function calling with a response mime type: 'application/json' is unsupported";
        return Err(invalid(text));
    }
    system(body, &mut ask)?;
    contents::read(body, &mut ask)?;
    Ok(Wish { ask, shows })
}

/// Refuses a member that is not among `names`.
pub(super) fn known(value: &Value, names: &[&str], at: &str) -> Result<(), Refusal> {
    match unknown(value, names) {
        Some(name) => Err(unknown_name(name, at)),
        None => Ok(()),
    }
}

pub(super) fn unknown_name(name: &str, at: &str) -> Refusal {
    let at = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
    invalid(format!(
        "Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field."
    ))
}

fn numbers(config: &Value) -> Result<(), Refusal> {
    let ranges = [
        ("temperature", 0.0, 2.0),
        ("topP", 0.0, 1.0),
        ("topK", 1.0, 1e3),
        ("candidateCount", 1.0, 8.0),
        ("maxOutputTokens", 1.0, 1e9),
        ("presencePenalty", -2.0, 2.0),
        ("frequencyPenalty", -2.0, 2.0),
    ];
    if let Some((name, least, most)) = ranges.iter().find(|(n, a, b)| outside(config, n, *a, *b)) {
        let text = format!(
            "* GenerateContentRequest.generation_config.{name}: {name} must be in the range [{least}, {most}]."
        );
        return Err(invalid(text));
    }
    if items(&config["stopSequences"]).len() > 5 {
        return Err(invalid(
            "* GenerateContentRequest.generation_config.stop_sequences: at most 5",
        ));
    }
    Ok(())
}

fn tools(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    for (n, tool) in items(&body["tools"]).iter().enumerate() {
        known(tool, TOOLS, &format!("tools[{n}]"))?;
        for (i, function) in items(&tool["functionDeclarations"]).iter().enumerate() {
            let at = format!("tools[{n}].function_declarations[{i}]");
            let members = [
                "name",
                "description",
                "parameters",
                "parametersJsonSchema",
                "response",
                "responseJsonSchema",
                "behavior",
            ];
            known(function, &members, &at)?;
            let name = text(function, "name");
            if !is_tool_name(&name.replace(['.', ':'], "_")) {
                return Err(invalid(format!(
                    "* GenerateContentRequest.{at}.name: Invalid function name."
                )));
            }
            let schema =
                match (given(function, "parameters"), given(function, "parametersJsonSchema")) {
                    (Some(_), Some(_)) => {
                        return Err(invalid(format!(
                            "{at}: both parameters and parameters_json_schema"
                        )));
                    }
                    (Some(parameters), None) => {
                        schema::check(parameters, &format!("{at}.parameters"))?;
                        parameters.clone()
                    }
                    (None, schema) => schema.cloned().unwrap_or_default(),
                };
            ask.count(text(function, "description"));
            ask.tools.push(Tool { name: name.to_owned(), schema });
        }
    }
    choice(&body["toolConfig"], ask)
}

fn choice(config: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    known(config, &["functionCallingConfig", "retrievalConfig"], "tool_config")?;
    let calling = &config["functionCallingConfig"];
    let at = "tool_config.function_calling_config";
    known(calling, &["mode", "allowedFunctionNames", "streamFunctionCallArguments"], at)?;
    let names = items(&calling["allowedFunctionNames"]);
    let mode = text(calling, "mode");
    if !names.is_empty() && !matches!(mode, "ANY" | "VALIDATED") {
        return Err(invalid(
            "allowed_function_names should only be set when function calling mode is ANY.",
        ));
    }
    ask.choice = match (mode, names) {
        ("" | "AUTO" | "VALIDATED", _) => Choice::Auto,
        ("NONE", _) => Choice::Never,
        ("ANY", [Value::String(name)]) => Choice::Named(name.clone()),
        ("ANY", _) => Choice::Any,
        (other, _) => {
            let text = format!("Invalid value at '{at}.mode': \"{other}\"");
            return Err(invalid(text));
        }
    };
    let missing = names.iter().find(|name| !ask.tools.iter().any(|tool| **name == tool.name));
    if let Some(name) = missing {
        return Err(invalid(format!("allowed_function_names has {name}, which is not declared.")));
    }
    Ok(())
}

fn output(config: &Value) -> Result<Option<Json>, Refusal> {
    let schema = match (given(config, "responseSchema"), given(config, "responseJsonSchema")) {
        (Some(schema), None) => {
            schema::check(schema, "generation_config.response_schema")?;
            Some(schema)
        }
        (None, schema) => schema,
        (Some(_), Some(_)) => {
            return Err(invalid("Only one of the two response schemas may be set."));
        }
    };
    match (text(config, "responseMimeType"), schema) {
        ("application/json", Some(schema)) => Ok(Some(Json::Schema(schema.clone()))),
        ("application/json", None) => Ok(Some(Json::Any)),
        ("" | "text/plain", None) => Ok(None),
        ("" | "text/plain", Some(_)) => Err(invalid(
            "Enum schema and JSON schema need response_mime_type to be application/json.",
        )),
        (other, _) => Err(invalid(format!(
            "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are \
             `text/plain`, `application/json`, not {other}."
        ))),
    }
}

fn system(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let system = &body["systemInstruction"];
    known(system, &["parts", "role"], "system_instruction")?;
    for part in items(&system["parts"]) {
        match part["text"].as_str() {
            Some(text) => ask.told(text),
            None => return Err(invalid("Developer instruction must be text only.")),
        }
    }
    Ok(())
}
