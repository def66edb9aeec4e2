//! Reads the conversation: turns of one role that follow each other are one turn.

use serde_json::{Value, json};

use super::invalid;
use crate::providers::ask::Ask;
use crate::providers::read::{Refusal, inline, items, media, text, unknown};
use crate::providers::signature::sign;

const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Takes the messages into `ask`, or says why the first that is wrong is refused.
pub(super) fn read(body: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let turns = turns(body)?;
    // Ids of calls that wait for their result.
    let mut open: Vec<String> = Vec::new();
    let last = turns.len() - 1;
    for (n, (role, blocks)) in turns.iter().enumerate() {
        if *role == "assistant" {
            ask.model_turn();
            // Only the turn whose results come next must still have its reasoning.
            let is_needed = n + 1 == last && ask.thinks;
            open = model_turn(n, blocks, is_needed, ask)?;
        } else {
            ask.user_turn_after_model();
            user_turn(n, blocks, std::mem::take(&mut open), ask)?;
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(last, &open)) }
}

/// The turns with their blocks.
fn turns(body: &Value) -> Result<Vec<(&str, Vec<Value>)>, Refusal> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (n, message) in items(&body["messages"]).iter().enumerate() {
        if let Some(name) = unknown(message, &["role", "content"]) {
            return Err(invalid(format!("messages.{n}.{name}: Extra inputs are not permitted")));
        }
        let role = text(message, "role");
        if !matches!(role, "user" | "assistant") {
            let text = format!(
                "messages: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\"."
            );
            return Err(invalid(text));
        }
        let blocks = match &message["content"] {
            Value::String(whole) => vec![json!({"type": "text", "text": whole})],
            list => items(list).to_vec(),
        };
        if blocks.is_empty() {
            return Err(invalid(format!("messages.{n}: all messages must have non-empty content")));
        }
        match turns.last_mut() {
            Some((before, all)) if *before == role => all.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    Ok(turns)
}

fn model_turn(
    n: usize,
    blocks: &[Value],
    needs_reasoning: bool,
    ask: &mut Ask,
) -> Result<Vec<String>, Refusal> {
    let mut ids = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let at = format!("messages.{n}.content.{i}");
        match text(block, "type") {
            "text" => ask.count(non_empty(block)?),
            "thinking" => {
                if text(block, "signature") != sign(text(block, "thinking")) {
                    return Err(invalid(format!("{at}: Invalid `signature` in `thinking` block")));
                }
            }
            "redacted_thinking" => {}
            "tool_use" => {
                if !block["input"].is_object() {
                    let text = format!("{at}.tool_use.input: Input should be a valid dictionary");
                    return Err(invalid(text));
                }
                ask.count(&block["input"].to_string());
                ids.push(text(block, "id").to_owned());
            }
            other => return Err(unexpected(&at, other)),
        }
    }
    let first = text(&blocks[0], "type");
    if needs_reasoning && !ids.is_empty() && !first.ends_with("thinking") {
        return Err(invalid(format!(
            "messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{first}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)."
        )));
    }
    Ok(ids)
}

fn user_turn(
    n: usize,
    blocks: &[Value],
    mut open: Vec<String>,
    ask: &mut Ask,
) -> Result<(), Refusal> {
    let mut results_may_come = true;
    for (i, block) in blocks.iter().enumerate() {
        let at = format!("messages.{n}.content.{i}");
        match text(block, "type") {
            "tool_result" => {
                let id = text(block, "tool_use_id");
                let place = open.iter().position(|waiting| waiting == id);
                let Some(place) = place.filter(|_| results_may_come) else {
                    return Err(invalid(format!(
                        "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                         `tool_result` block must have a corresponding `tool_use` block in the \
                         previous message."
                    )));
                };
                open.remove(place);
                let text = result_text(&at, block, ask)?;
                ask.result(&text);
                continue;
            }
            "text" => ask.user_text(non_empty(block)?),
            "image" => image(&at, block, ask)?,
            "document" => {
                let source = &block["source"];
                let document = match text(source, "type") {
                    "base64" => inline(text(source, "media_type"), text(source, "data")),
                    "url" => media(text(source, "url")),
                    _ => None,
                };
                ask.media.push(document.ok_or_else(|| unexpected(&at, "document"))?);
            }
            other => return Err(unexpected(&at, other)),
        }
        results_may_come = false;
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(n - 1, &open)) }
}

/// The text of a result; its images join what the turn shows.
fn result_text(at: &str, block: &Value, ask: &mut Ask) -> Result<String, Refusal> {
    let content = &block["content"];
    if let Some(whole) = content.as_str() {
        return Ok(whole.to_owned());
    }
    let mut whole = String::new();
    for part in items(content) {
        match text(part, "type") {
            "text" => whole.push_str(text(part, "text")),
            "image" => image(at, part, ask)?,
            other => return Err(unexpected(at, other)),
        }
    }
    Ok(whole)
}

fn image(at: &str, block: &Value, ask: &mut Ask) -> Result<(), Refusal> {
    let source = &block["source"];
    let media_type = text(source, "media_type");
    let image = match text(source, "type") {
        "base64" if IMAGES.contains(&media_type) => inline(media_type, text(source, "data")),
        "url" => media(text(source, "url")),
        _ => None,
    };
    let image = image.ok_or_else(|| {
        invalid(format!("{at}.image.source: the image is of no known type or no base64"))
    })?;
    ask.media.push(image);
    Ok(())
}

fn non_empty(block: &Value) -> Result<&str, Refusal> {
    let text = text(block, "text");
    if text.is_empty() {
        return Err(invalid("messages: text content blocks must be non-empty"));
    }
    Ok(text)
}

fn unanswered(n: usize, open: &[String]) -> Refusal {
    invalid(format!(
        "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. \
         Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        open.join(", ")
    ))
}

fn unexpected(at: &str, kind: &str) -> Refusal {
    invalid(format!(
        "{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    ))
}
