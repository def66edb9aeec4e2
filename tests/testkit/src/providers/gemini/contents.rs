//! Reads the conversation.

use serde_json::Value;

use super::request::known;
use super::{invalid, signs};
use crate::providers::ask::{Ask, Media};
use crate::providers::read::{Refusal, given, inline, items, text};
use crate::providers::signature::sign;

/// Signatures that stand for one that the caller does not have.
const DUMMIES: &[&str] =
    &["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

const PARTS: &[&str] = &[
    "text",
    "thought",
    "thoughtSignature",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "videoMetadata",
    "mediaResolution",
    "partMetadata",
];

/// Takes the contents into `ask`, or says why the first that is wrong is refused.
pub(super) fn read(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let contents = items(&body["contents"]);
    if contents.is_empty() {
        return Err(invalid("* GenerateContentRequest.contents: contents is not specified"));
    }
    for (n, content) in contents.iter().enumerate() {
        known(content, &["role", "parts"], &format!("contents[{n}]"))?;
        if items(&content["parts"]).is_empty() {
            let text = format!(
                "* GenerateContentRequest.contents[{n}].parts: contents.parts must not be empty."
            );
            return Err(invalid(text));
        }
    }
    order(contents)?;
    if signs(&ask.model) {
        signed(contents)?;
    }
    for (n, content) in contents.iter().enumerate() {
        match text(content, "role") {
            "" | "user" | "function" => ask.user_turn_after_model(),
            "model" => ask.model_turn(),
            _ => return Err(invalid("Please use a valid role: user, model.")),
        }
        for (i, part) in items(&content["parts"]).iter().enumerate() {
            let at = format!("contents[{n}].parts[{i}]");
            known(part, PARTS, &at)?;
            take(part, text(content, "role") == "model", &at, ask)?;
        }
    }
    Ok(())
}

fn take(part: &Value, by_model: bool, at: &str, ask: &mut Ask) -> Result<(), Refusal> {
    if let Some(text) = part["text"].as_str() {
        match by_model {
            true => ask.count(text),
            false => ask.user_text(text),
        }
    } else if let Some(data) = given(part, "inlineData") {
        let media = inline(text(data, "mimeType"), &standard(text(data, "data")));
        let media = media.filter(|_| !text(data, "mimeType").is_empty());
        ask.media.push(media.ok_or_else(|| {
            invalid(format!(
                "Invalid value at '{at}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"
            ))
        })?);
    } else if let Some(file) = given(part, "fileData") {
        ask.media.push(Media::Link(text(file, "fileUri").to_owned()));
    } else if let Some(made) = given(part, "functionCall") {
        known(made, &["name", "args", "id"], &format!("{at}.function_call"))?;
        ask.count(&made["args"].to_string());
    } else if let Some(response) = given(part, "functionResponse") {
        let members = ["name", "response", "id", "parts", "willContinue", "scheduling"];
        known(response, &members, &format!("{at}.function_response"))?;
        if !response["response"].is_object() {
            return Err(invalid(format!("Invalid value at '{at}.function_response.response'")));
        }
        ask.result(&result(&response["response"]));
    } else {
        return Err(invalid(format!(
            "{at}.data: required oneof field 'data' must have one initialized field"
        )));
    }
    Ok(())
}

/// Base64 in the usual alphabet: the API takes the one for URLs too.
fn standard(base64: &str) -> String {
    base64.replace('-', "+").replace('_', "/")
}

/// What a function answered: the text, where the answer is wrapped in the usual way.
fn result(response: &Value) -> String {
    let wrapped = ["output", "result", "content"].iter().find_map(|name| given(response, name));
    match wrapped.unwrap_or(response) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Names of the calls (or responses) in a content.
fn names<'a>(content: &'a Value, member: &str) -> Vec<&'a str> {
    let parts = items(&content["parts"]).iter().filter_map(|part| given(part, member));
    parts.map(|part| text(part, "name")).collect()
}

/// Responses come right after their calls, one for each, and only there.
fn order(contents: &[Value]) -> Result<(), Refusal> {
    let mut called: Vec<&str> = Vec::new();
    for content in contents {
        let responses = names(content, "functionResponse");
        if !called.is_empty() && responses.len() != called.len() {
            return Err(invalid(
                "Please ensure that the number of function response parts is equal to the number of \
                 function call parts of the function call turn.",
            ));
        }
        if called.is_empty() && !responses.is_empty() {
            return Err(invalid(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        if let Some(name) = responses.iter().find(|name| !called.contains(name)) {
            return Err(invalid(format!("There is a response of '{name}', which was not called.")));
        }
        called = match text(content, "role") {
            "model" => names(content, "functionCall"),
            _ => Vec::new(),
        };
    }
    match called.is_empty() {
        true => Ok(()),
        false => Err(invalid(
            "Please ensure that function call turn comes immediately after a user turn or after a \
             function response turn.",
        )),
    }
}

/// The first call of each step since the user last said something has its signature.
fn signed(contents: &[Value]) -> Result<(), Refusal> {
    let said = |content: &Value| {
        text(content, "role") != "model" && names(content, "functionResponse").is_empty()
    };
    let since = contents.iter().rposition(said).unwrap_or(0);
    for (n, content) in contents.iter().enumerate().skip(since) {
        let calls =
            items(&content["parts"]).iter().filter(|part| given(part, "functionCall").is_some());
        let Some(part) = calls.into_iter().next() else { continue };
        let call = &part["functionCall"];
        let name = text(call, "name");
        let signature = standard(text(part, "thoughtSignature"));
        if signature.is_empty() {
            return Err(invalid(format!(
                "Function call is missing a thought_signature in functionCall parts. This is required \
                 for tools to work correctly, and missing thought_signature may lead to degraded model \
                 performance. Additional data, function call `{name}` , position {}. Please refer to \
                 https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                n + 1
            )));
        }
        if signature != sign(name) && !DUMMIES.contains(&text(part, "thoughtSignature")) {
            return Err(invalid("Thought signature is not valid"));
        }
    }
    Ok(())
}
