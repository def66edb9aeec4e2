//! Reads the conversation: roles take turns, results come right after their calls.

use serde_json::Value;

use super::invalid;
use crate::providers::ask::{Ask, Media};
use crate::providers::read::{Refusal, given, inline, items, text};
use crate::providers::signature::sign;

/// Takes the messages into `ask`, or says why the first that is wrong is refused.
pub(super) fn read(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let messages = items(&body["messages"]);
    if messages.is_empty() {
        return Err(invalid("The model needs at least one message."));
    }
    if text(&messages[0], "role") != "user" {
        return Err(invalid(
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        ));
    }
    let last = messages.len() - 1;
    let mut open: Vec<&str> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let expected = if n % 2 == 0 { "user" } else { "assistant" };
        if text(message, "role") != expected {
            return Err(invalid(
                "A conversation must alternate between user and assistant roles. Make sure the \
                 conversation alternates between user and assistant roles and try again.",
            ));
        }
        let blocks = items(&message["content"]);
        if blocks.is_empty() {
            return Err(invalid(format!(
                "The content field in the Message object at messages.{n} is empty. Add a ContentBlock \
                 object to the content field and try again."
            )));
        }
        let uses_tools = |block: &Value| block.get("toolUse").or(block.get("toolResult")).is_some();
        if blocks.iter().any(uses_tools) && given(body, "toolConfig").is_none() {
            return Err(invalid(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
            ));
        }
        if expected == "user" {
            ask.user_turn_after_model();
            results(n, blocks, &open)?;
            open.clear();
        } else {
            ask.model_turn();
            open = blocks
                .iter()
                .filter_map(|b| given(b, "toolUse"))
                .map(|u| text(u, "toolUseId"))
                .collect();
            let first_is_reasoning = given(&blocks[0], "reasoningContent").is_some();
            if ask.thinks && n + 1 == last && !open.is_empty() && !first_is_reasoning {
                return Err(invalid(format!(
                    "The model returned the following errors: messages.{n}.content.0.type: Expected \
                     `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, \
                     a final `assistant` message must start with a thinking block."
                )));
            }
        }
        for (i, block) in blocks.iter().enumerate() {
            take(block, expected == "user", &format!("messages.{n}.content.{i}"), ask)?;
        }
    }
    if open.is_empty() { Ok(()) } else { Err(expected_results(last + 1, &open)) }
}

/// Every call before has its result here, and there is no result of anything else.
fn results(n: usize, blocks: &[Value], open: &[&str]) -> Result<(), Refusal> {
    let given: Vec<&str> = blocks
        .iter()
        .filter_map(|b| given(b, "toolResult"))
        .map(|r| text(r, "toolUseId"))
        .collect();
    let missing: Vec<&str> = open.iter().filter(|id| !given.contains(id)).copied().collect();
    if !missing.is_empty() {
        return Err(expected_results(n, &missing));
    }
    if given.len() != open.len() {
        return Err(invalid(format!(
            "The number of toolResult blocks at messages.{n}.content exceeds the number of toolUse \
             blocks of previous turn."
        )));
    }
    Ok(())
}

fn expected_results(n: usize, ids: &[&str]) -> Refusal {
    invalid(format!(
        "Expected toolResult blocks at messages.{n}.content for the following Ids: {}",
        ids.join(", ")
    ))
}

fn take(block: &Value, by_user: bool, at: &str, ask: &mut Ask) -> Result<(), Refusal> {
    let members: Vec<(&String, &Value)> = block.as_object().into_iter().flatten().collect();
    let [(kind, value)] = members.as_slice() else {
        return Err(invalid(format!("The ContentBlock at {at} must have exactly one member.")));
    };
    match (kind.as_str(), by_user) {
        ("text", _) => {
            let text = value.as_str().unwrap_or_default();
            if text.trim().is_empty() {
                return Err(invalid(format!(
                    "The text field in the ContentBlock object at {at} is blank. Add text to the text \
                     field, and try again."
                )));
            }
            match by_user {
                true => ask.user_text(text),
                false => ask.count(text),
            }
        }
        ("image" | "document" | "video" | "audio", true) => {
            ask.media.push(media(kind, value).ok_or_else(|| {
                invalid(format!("The {kind} at {at} has no known format or source."))
            })?);
        }
        ("toolUse", false) if value["input"].is_object() => ask.count(&value["input"].to_string()),
        ("toolResult", true) => {
            if !matches!(text(value, "status"), "" | "success" | "error") {
                return Err(invalid(format!("The status of the result at {at} is not known.")));
            }
            let whole = result(value, at, ask)?;
            ask.result(&whole);
        }
        ("reasoningContent", false) => {
            let said = &value["reasoningText"];
            if !said.is_null() && text(said, "signature") != sign(text(said, "text")) {
                return Err(invalid(format!(
                    "The model returned the following errors: {at}: Invalid `signature` in `thinking` block"
                )));
            }
        }
        ("cachePoint" | "guardContent", _) => {}
        _ => return Err(invalid(format!("The ContentBlock {kind} at {at} is not allowed here."))),
    }
    Ok(())
}

/// The text of a result; its images join what the turn shows.
fn result(value: &Value, at: &str, ask: &mut Ask) -> Result<String, Refusal> {
    let mut whole = String::new();
    for part in items(&value["content"]) {
        if let Some(text) = part["text"].as_str() {
            whole.push_str(text);
        } else if let Some(json) = given(part, "json") {
            whole.push_str(&json.to_string());
        } else if let Some(shown) = given(part, "image").and_then(|image| media("image", image)) {
            ask.media.push(shown);
        } else {
            return Err(invalid(format!("The result at {at} has a part that is not known.")));
        }
    }
    Ok(whole)
}

fn media(kind: &str, value: &Value) -> Option<Media> {
    let format = text(value, "format");
    let known = match kind {
        "image" => matches!(format, "png" | "jpeg" | "gif" | "webp"),
        _ => !format.is_empty(),
    };
    let source = &value["source"];
    match source["bytes"].as_str() {
        Some(data) if known => inline(&format!("{kind}/{format}"), data),
        None if known => Some(Media::Link(text(&source["s3Location"], "uri").to_owned()))
            .filter(|_| given(source, "s3Location").is_some()),
        _ => None,
    }
}
