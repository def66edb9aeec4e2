//! Reads a request as strictly as the API does.

use serde_json::Value;

use crate::providers::ask::{Ask, Choice, Json, Tool};
use crate::providers::read::{Refusal, given, is_tool_name, is_true, items, outside, text};

/// What a body asks for, or why it is refused. The path names the model.
pub(super) fn read(model: &str, body: &Value) -> Result<Ask, Refusal> {
    let mut ask = Ask { model: model.to_owned(), one_call: true, ..Ask::default() };
    ask.stream = is_true(body, "stream");
    numbers(body)?;
    ask.cap = body["max_output_tokens"].as_u64();
    ask.json = match body["response_format"].as_str() {
        Some("json_object") => Some(Json::Any),
        Some("text") => None,
        None if given(body, "response_format").is_none() => None,
        _ => return Err(argument("response_format must be text or json_object")),
    };
    if given(body, "system").is_some() {
        let system = body["system"].as_str().ok_or_else(|| argument("system must be a string"))?;
        ask.told(system);
    }
    functions(body, &mut ask)?;
    messages(body, &mut ask)?;
    Ok(ask)
}

fn argument(message: impl Into<String>) -> Refusal {
    Refusal::new(200, "336001", format!("Invalid Argument, {}", message.into()))
}

fn rule(message: impl Into<String>) -> Refusal {
    Refusal::new(200, "336003", message)
}

fn numbers(body: &Value) -> Result<(), Refusal> {
    let is_zero = |name: &str| body[name].as_f64().is_some_and(|number| number <= 0.0);
    for name in ["temperature", "top_p"] {
        if outside(body, name, 0.0, 1.0) || is_zero(name) {
            return Err(argument(format!("{name} must be in (0, 1.0]")));
        }
    }
    if outside(body, "penalty_score", 1.0, 2.0) {
        return Err(argument("penalty_score must be in [1.0, 2.0]"));
    }
    if outside(body, "max_output_tokens", 2.0, 1e6) {
        return Err(argument("max_output_tokens must be at least 2"));
    }
    let stops = items(&body["stop"]);
    let is_long = |stop: &Value| stop.as_str().is_none_or(|stop| stop.chars().count() > 20);
    if given(body, "stop").is_some() && !body["stop"].is_array()
        || stops.len() > 4
        || stops.iter().any(is_long)
    {
        return Err(argument("stop must be a list of at most 4 texts of at most 20 characters"));
    }
    Ok(())
}

fn functions(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    for function in items(&body["functions"]) {
        let name = text(function, "name");
        if !is_tool_name(name) || text(function, "description").is_empty() {
            return Err(argument("functions need a name and a description"));
        }
        if !function["parameters"].is_object() {
            return Err(argument("functions need parameters"));
        }
        ask.count(text(function, "description"));
        ask.tools.push(Tool { name: name.to_owned(), schema: function["parameters"].clone() });
    }
    if let Some(choice) = given(body, "tool_choice") {
        let name = text(&choice["function"], "name");
        if text(choice, "type") != "function" || !ask.tools.iter().any(|tool| tool.name == name) {
            return Err(argument("tool_choice must name one of the functions"));
        }
        ask.choice = Choice::Named(name.to_owned());
    }
    Ok(())
}

/// An odd number of messages: the user's and the model's in turn, the user's first and last.
fn messages(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let messages = items(&body["messages"]);
    if messages.len().is_multiple_of(2) {
        return Err(rule("the length of messages must be an odd number"));
    }
    let mut called = "";
    for (n, message) in messages.iter().enumerate() {
        let (role, content) = (text(message, "role"), text(message, "content"));
        let call = &message["function_call"];
        if content.is_empty() && !call.is_object() {
            return Err(rule(format!("messages[{n}]: content can not be empty")));
        }
        match (role, n % 2) {
            ("user", 0) if called.is_empty() => {
                ask.user_turn();
                ask.user_text(content);
            }
            ("function", 0) if !called.is_empty() && text(message, "name") == called => {
                if serde_json::from_str::<Value>(content).is_err() {
                    return Err(rule(format!("messages[{n}]: content of a function must be JSON")));
                }
                ask.result(&result(content));
                called = "";
            }
            ("assistant", 1) => {
                ask.model_turn();
                ask.count(content);
                called = text(call, "name");
                if call.is_object() && call["arguments"].as_str().is_none() {
                    return Err(rule(format!("messages[{n}]: arguments must be a string")));
                }
            }
            _ => {
                return Err(rule(format!(
                    "messages[{n}]: role {role} is not allowed here; user (or function after its \
                     function_call) and assistant take turns"
                )));
            }
        }
    }
    Ok(())
}

/// What a function answered: the text, where the answer is wrapped in the usual way.
fn result(content: &str) -> String {
    let value: Value = serde_json::from_str(content).unwrap_or_default();
    let wrapped = ["output", "result", "content"].iter().find_map(|name| given(&value, name));
    match wrapped.unwrap_or(&value) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
