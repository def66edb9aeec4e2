//! Reads a request as strictly as the API does.

use serde_json::Value;

use super::{Service, asks_for_events, invalid, messages};
use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{
    Refusal, given, is_tool_name, is_true, items, outside, text, unknown,
};
use crate::upstream::Call;

/// What a request asks for.
pub(super) struct Wish {
    pub(super) ask: Ask,
    pub(super) service: Service,
    /// Whether an event has only what is new, instead of all so far.
    pub(super) incremental: bool,
    /// Whether the answer is a message, instead of a text.
    pub(super) message: bool,
}

/// What a body asks for, or why it is refused.
pub(super) fn read(call: &Call, service: Service, body: &Value) -> Result<Wish, Refusal> {
    if let Some(name) =
        unknown(body, &["model", "input", "parameters", "task_group", "task", "function"])
    {
        return Err(parameter(format!("Unknown field '{name}' in the request body.")));
    }
    if text(body, "model").is_empty() {
        return Err(invalid(
            "BadRequest.EmptyModel",
            "Required parameter \"model\" missing or invalid.",
        ));
    }
    if given(body, "input").is_none() {
        return Err(invalid(
            "BadRequest.EmptyInput",
            "Required input parameter missing from request.",
        ));
    }
    let stream = asks_for_events(call);
    let accepts = call.header("accept").is_some_and(|kinds| kinds.contains("text/event-stream"));
    if stream != accepts {
        return Err(parameter(
            "To stream, set both `X-DashScope-SSE: enable` and `Accept: text/event-stream`.",
        ));
    }
    let parameters = &body["parameters"];
    let incremental = is_true(parameters, "incremental_output");
    if incremental && !stream {
        return Err(parameter("incremental_output only supports stream call"));
    }
    let mut ask = Ask { model: text(body, "model").to_owned(), stream, ..Ask::default() };
    numbers(parameters)?;
    ask.cap = parameters["max_tokens"].as_u64();
    ask.thinks = is_true(parameters, "enable_thinking");
    let streams_only = ["qwq", "qvq"].iter().any(|prefix| ask.model.starts_with(prefix));
    if streams_only && !stream {
        return Err(parameter("This model does only support streaming calls."));
    }
    let message = service == Service::Multimodal || text(parameters, "result_format") == "message";
    tools(parameters, message, &mut ask)?;
    ask.json = json(parameters, &body["input"])?;
    messages::read(&body["input"], service, &mut ask)?;
    Ok(Wish { ask, service, incremental, message })
}

/// A refusal of a parameter, with the inner code in front of its text.
fn parameter(message: impl AsRef<str>) -> Refusal {
    let text = format!("<400> InternalError.Algo.InvalidParameter: {}", message.as_ref());
    invalid("InvalidParameter", text)
}

fn numbers(parameters: &Value) -> Result<(), Refusal> {
    let heat = parameters["temperature"].as_f64();
    if outside(parameters, "temperature", 0.0, 2.0) || heat.is_some_and(|heat| heat >= 2.0) {
        return Err(parameter("Temperature should be in [0.0, 2.0)"));
    }
    let top_p = parameters["top_p"].as_f64();
    if outside(parameters, "top_p", 0.0, 1.0) || top_p.is_some_and(|p| p <= 0.0 || p >= 1.0) {
        return Err(parameter("Range of top_p should be (0.0, 1.0)"));
    }
    for (name, least, most) in
        [("n", 1.0, 4.0), ("max_tokens", 1.0, 1e6), ("presence_penalty", -2.0, 2.0)]
    {
        if outside(parameters, name, least, most) {
            return Err(parameter(format!("Range of {name} should be [{least}, {most}]")));
        }
    }
    Ok(())
}

fn tools(parameters: &Value, message: bool, ask: &mut Ask) -> Result<(), Refusal> {
    for tool in items(&parameters["tools"]) {
        let function = &tool["function"];
        if text(tool, "type") != "function" || !is_tool_name(text(function, "name")) {
            return Err(parameter("tools must be functions with a name"));
        }
        ask.count(text(function, "description"));
        ask.tools.push(Tool {
            name: text(function, "name").to_owned(),
            schema: function["parameters"].clone(),
        });
    }
    if !ask.tools.is_empty() && !message {
        return Err(parameter("When using tools, `result_format` must be `message`."));
    }
    let choice = &parameters["tool_choice"];
    ask.choice = match (choice.as_str(), text(&choice["function"], "name")) {
        (Some("auto"), _) | (None, "") => Choice::Auto,
        (Some("none"), _) => Choice::Never,
        (Some(_), _) => {
            return Err(parameter(
                "tool_choice is one of the strings that should be [\"none\", \"auto\"]",
            ));
        }
        (None, _) if ask.thinks => {
            return Err(parameter(
                "The tool_choice parameter does not support being set to object in thinking mode",
            ));
        }
        (None, name) => Choice::Named(name.to_owned()),
    };
    ask.one_call = parameters["parallel_tool_calls"] == false;
    Ok(())
}

fn json(parameters: &Value, input: &Value) -> Result<Option<Json>, Refusal> {
    let format = &parameters["response_format"];
    match text(format, "type") {
        "" | "text" => Ok(None),
        "json_object" if !input.to_string().to_lowercase().contains("json") => Err(parameter(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
        )),
        "json_object" => Ok(Some(Json::Any)),
        "json_schema" => Ok(Some(Json::Schema(format["json_schema"]["schema"].clone()))),
        other => Err(parameter(format!("Unknown response_format.type '{other}'"))),
    }
}
