//! A whole answer on its way down.

use bytes::Bytes;
use serde::Deserialize;
use sluicegate_model::Outcome;

use super::{
    FINISHES,
    errors::ERRORS,
    wire::{Block, Counts},
};
use crate::{
    call::Call,
    chat::{Choice, Reply, ToolCall, finish, reply::ReasoningPart},
    dialect::Answer,
    fault::Fault,
};

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    content: Option<Vec<Block>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Counts>,
}

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body"));
    }
    let whole: Whole = match serde_json::from_slice(body) {
        Ok(whole) => whole,
        Err(_) => {
            let fault = ERRORS.in_band(body);
            let message = "the provider answered 200 with a body that is not a message";
            return Err(fault.unwrap_or_else(|| Fault::new(Outcome::ProviderError, message)));
        }
    };
    let Some(blocks) = whole.content else {
        let message = "the provider answered 200 without an answer";
        let fault = ERRORS.in_band(body);
        return Err(fault.unwrap_or_else(|| Fault::new(Outcome::ProviderError, message)));
    };
    let mut choice = Choice {
        finish: whole
            .stop_reason
            .as_deref()
            .map(|word| finish::read(FINISHES, word))
            .transpose()?,
        ..Choice::default()
    };
    blocks.into_iter().for_each(|block| take(block, &mut choice));
    if choice.tool_calls.is_empty() {
        choice.content.get_or_insert_default();
    }
    let reply = Reply {
        id: whole.id,
        model: whole.model,
        choices: vec![choice],
        usage: whole.usage.and_then(Counts::usage),
        finish_word: whole.stop_reason,
        ..Reply::default()
    };
    Ok(reply.into_answer(call))
}

/// Blocks of other types are what tools of the server's did: not for the caller.
fn take(block: Block, choice: &mut Choice) {
    match block.kind.as_deref() {
        Some("text") => choice.say(&block.text.unwrap_or_default()),
        Some("thinking") => choice.reasoning.push(ReasoningPart::Text {
            text: block.thinking.unwrap_or_default(),
            signature: block.signature.filter(|signature| !signature.is_empty()),
        }),
        Some("redacted_thinking") => {
            choice.reasoning.extend(block.data.map(|data| ReasoningPart::Encrypted { data }))
        }
        Some("tool_use") => choice.tool_calls.push(ToolCall {
            id: block.id.unwrap_or_default(),
            name: block.name.unwrap_or_default(),
            arguments: block
                .input
                .filter(|input| input.get() != "null")
                .map_or_else(|| "{}".to_owned(), |input| input.get().to_owned()),
            signature: None,
        }),
        _ => {}
    }
}
