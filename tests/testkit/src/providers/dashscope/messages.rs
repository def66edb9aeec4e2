//! Reads the conversation. Parts say what they are by their only member, not by a type.

use serde_json::Value;

use super::{Service, invalid};
use crate::providers::ask::{Ask, Media};
use crate::providers::read::{Refusal, items, media, text, unknown};

/// Takes the input into `ask`, or says why it is refused.
pub(super) fn read(input: &Value, service: Service, ask: &mut Ask) -> Result<(), Refusal> {
    if let (Some(prompt), Service::Text) = (input["prompt"].as_str(), service) {
        ask.user_text(prompt);
        return Ok(());
    }
    let messages = items(&input["messages"]);
    if messages.is_empty() {
        return Err(wrong("Input should contain messages or a prompt."));
    }
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let role = text(message, "role");
        if role != "tool" && !open.is_empty() {
            return Err(unanswered());
        }
        let texts = texts(message, service, role, ask)?;
        match role {
            "system" => texts.iter().for_each(|text| ask.told(text)),
            "user" => texts.iter().for_each(|text| ask.user_text(text)),
            "assistant" => {
                ask.model_turn();
                texts.iter().for_each(|text| ask.count(text));
                open = items(&message["tool_calls"]).iter().map(|call| text(call, "id")).collect();
            }
            "tool" => {
                let id = text(message, "tool_call_id");
                let place = open.iter().position(|waiting| *waiting == id);
                let place = place.ok_or_else(|| {
                    wrong("messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".")
                })?;
                open.remove(place);
                ask.result(&texts.concat());
            }
            other => return Err(wrong(format!("Role {other} is not allowed."))),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered()) }
}

fn texts<'a>(
    message: &'a Value,
    service: Service,
    role: &str,
    ask: &mut Ask,
) -> Result<Vec<&'a str>, Refusal> {
    if role == "user" {
        ask.user_turn();
    }
    let content = &message["content"];
    match (content, service) {
        (Value::String(whole), Service::Text) => return Ok(vec![whole]),
        (Value::String(whole), Service::Multimodal) if role != "user" => return Ok(vec![whole]),
        (Value::Null, _) if role == "assistant" => return Ok(Vec::new()),
        (Value::Array(_), Service::Multimodal) => {}
        _ => return Err(wrong(format!("The content of {role} is not what this service takes."))),
    }
    let mut texts = Vec::new();
    for part in items(content) {
        if let Some(name) = unknown(part, &["text", "image", "audio", "video"]) {
            return Err(wrong(format!(
                "Input should be one of text, image, audio, video, not {name}."
            )));
        }
        if let Some(text) = part["text"].as_str() {
            texts.push(text);
        } else {
            let url =
                part.as_object().into_iter().flat_map(|part| part.values()).find_map(Value::as_str);
            let url = url.unwrap_or_default();
            let found = match url.starts_with("oss://") {
                true => Some(Media::Link(url.to_owned())),
                false => media(url),
            };
            ask.media
                .push(found.ok_or_else(|| wrong("The provided URL does not appear to be valid."))?);
        }
    }
    Ok(texts)
}

fn unanswered() -> Refusal {
    wrong(
        "An assistant message with \"tool_calls\" must be followed by tool messages responding to each \
         \"tool_call_id\".",
    )
}

fn wrong(message: impl AsRef<str>) -> Refusal {
    let text = format!("<400> InternalError.Algo.InvalidParameter: {}", message.as_ref());
    invalid("InvalidParameter", text)
}
