//! Reads the conversation of a chat request.

use serde_json::Value;

use super::request::invalid;
use super::variant::Variant;
use crate::providers::ask::{Ask, Media};
use crate::providers::read::{Refusal, given, inline, items, media, text};

/// Takes the messages into `ask`, or says why the first that is wrong is refused.
pub(super) fn read(variant: &Variant, body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let messages = items(&body["messages"]);
    if messages.is_empty() {
        let text = "Invalid 'messages': empty array. Expected an array with minimum length 1.";
        return Err(invalid("empty_array", text).of("messages"));
    }
    // Ids of calls that wait for their result.
    let mut open: Vec<&str> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        let at = format!("messages[{n}]");
        if !variant.rules.roles.contains(&role) {
            let text = format!("Invalid value: '{role}' for '{at}.role'.");
            return Err(invalid("invalid_value", text).of(format!("{at}.role")));
        }
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(&open));
        }
        match role {
            "user" => {
                ask.user_turn();
                content(variant, message, &at, ask, Side::User)?;
            }
            "assistant" => {
                ask.model_turn();
                open = assistant(variant, message, &at, ask)?;
            }
            "tool" => {
                let id = text(message, "tool_call_id");
                let Some(place) = open.iter().position(|waiting| *waiting == id) else {
                    let text = "Invalid parameter: messages with role 'tool' must be a response \
                                to a preceeding message with 'tool_calls'.";
                    return Err(invalid("invalid_value", text).of(format!("{at}.role")));
                };
                open.remove(place);
                content(variant, message, &at, ask, Side::Tool)?;
            }
            _ => content(variant, message, &at, ask, Side::System)?,
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(&open)) }
}

/// Whose text it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    System,
    User,
    Assistant,
    Tool,
}

fn unanswered(open: &[&str]) -> Refusal {
    let text = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    invalid("invalid_value", text).of("messages")
}

/// Takes a turn of the model, and gives the ids of its calls.
fn assistant<'a>(
    variant: &Variant,
    message: &'a Value,
    at: &str,
    ask: &mut Ask,
) -> Result<Vec<&'a str>, Refusal> {
    let calls = items(&message["tool_calls"]);
    if given(message, "content").is_some() {
        content(variant, message, at, ask, Side::Assistant)?;
    } else if calls.is_empty() && given(message, "function_call").is_none() {
        let text = format!("Invalid value for '{at}.content': expected a string, got null.");
        return Err(invalid("invalid_type", text).of(format!("{at}.content")));
    }
    let mut ids = Vec::new();
    for (n, call) in calls.iter().enumerate() {
        let (id, arguments) = (text(call, "id"), text(&call["function"], "arguments"));
        let at = format!("{at}.tool_calls[{n}]");
        if id.is_empty() || text(&call["function"], "name").is_empty() {
            let text = format!("Missing required parameter: '{at}.id'.");
            return Err(invalid("missing_required_parameter", text).of(at));
        }
        if variant.rules.short_ids
            && !(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()))
        {
            let text =
                format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
            return Err(invalid("invalid_value", text).of(format!("{at}.id")));
        }
        if call["function"]["arguments"].as_str().is_none() {
            let text = format!("Invalid type for '{at}.function.arguments': expected a string.");
            return Err(invalid("invalid_type", text).of(at));
        }
        ask.count(arguments);
        ids.push(id);
    }
    let has_reasoning = !text(message, "reasoning_content").is_empty();
    if variant.rules.keeps_reasoning && ask.thinks && !ids.is_empty() && !has_reasoning {
        let text = "The `reasoning_content` in the thinking mode must be passed back to the API.";
        return Err(invalid("invalid_value", text).of(at));
    }
    Ok(ids)
}

fn content(
    variant: &Variant,
    message: &Value,
    at: &str,
    ask: &mut Ask,
    side: Side,
) -> Result<(), Refusal> {
    let content = &message["content"];
    let wrong = || {
        let text = format!("Invalid value for '{at}.content'.");
        invalid("invalid_type", text).of(format!("{at}.content"))
    };
    if let Some(whole) = content.as_str() {
        take(whole, ask, side);
        return Ok(());
    }
    let parts = items(content);
    if parts.is_empty() || !variant.rules.parts {
        return Err(wrong());
    }
    let mut texts = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let kind = text(part, "type");
        match (kind, side) {
            ("text", _) => texts.push(text(part, "text")),
            ("refusal" | "thinking", Side::Assistant) => {}
            ("image_url", Side::User) => {
                ask.media.push(image(variant, part).ok_or_else(wrong)?);
            }
            ("input_audio", Side::User) => {
                let audio = &part["input_audio"];
                let media_type = format!("audio/{}", text(audio, "format"));
                ask.media.push(inline(&media_type, text(audio, "data")).ok_or_else(wrong)?);
            }
            ("file", Side::User) => {
                let file = media(text(&part["file"], "file_data"));
                ask.media.push(file.ok_or_else(wrong)?);
            }
            _ => {
                let text = format!("Invalid value: '{kind}' for '{at}.content[{n}].type'.");
                return Err(invalid("invalid_value", text).of(format!("{at}.content[{n}]")));
            }
        }
    }
    match side {
        // The parts of one result are one text.
        Side::Tool => take(&texts.concat(), ask, side),
        _ => texts.iter().for_each(|text| take(text, ask, side)),
    }
    Ok(())
}

fn image(variant: &Variant, part: &Value) -> Option<Media> {
    let url = text(&part["image_url"], "url");
    media(url).filter(|media| variant.rules.links || !matches!(media, Media::Link(_)))
}

fn take(text: &str, ask: &mut Ask, side: Side) {
    match side {
        Side::System => ask.told(text),
        Side::User => ask.user_text(text),
        Side::Assistant => ask.count(text),
        Side::Tool => ask.result(text),
    }
}
