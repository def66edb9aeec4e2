//! A whole answer in OpenAI's form.

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_model::{Outcome, Usage};

use super::{FINISHES, errors::ERRORS, request_id};
use crate::{
    call::Call,
    chat::{Choice, Reply, ToolCall, finish, number::lenient, reply::ReasoningPart},
    dialect::Answer,
    fault::Fault,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    output: Option<Output>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<Vec<Block>>,
}

/// One block; of a kind that is not known here, nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tool_use: Option<ToolUse>,
    #[serde(default)]
    reasoning_content: Option<Reasoning>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    #[serde(default)]
    tool_use_id: String,
    name: String,
    #[serde(default)]
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reasoning {
    #[serde(default)]
    reasoning_text: Option<ReasoningText>,
    #[serde(default)]
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
struct ReasoningText {
    #[serde(default)]
    text: String,
    #[serde(default)]
    signature: Option<String>,
}

/// Tokens as Bedrock counts them: what was read from a cache or written to it is not part of the
/// input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_write_input_tokens: Option<u64>,
}

impl From<Counts> for Usage {
    fn from(counts: Counts) -> Self {
        let cached = counts.cache_read_input_tokens.unwrap_or(0);
        let written = counts.cache_write_input_tokens.unwrap_or(0);
        let input = counts.input_tokens.unwrap_or(0);
        Self {
            input: input.saturating_add(cached).saturating_add(written),
            output: counts.output_tokens.unwrap_or(0),
            cached,
            reasoning: 0,
        }
    }
}

pub(super) fn read(call: &Call, headers: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Fault::new(Outcome::ProviderError, message);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body"));
    }
    let read: Body = serde_json::from_slice(body)
        .map_err(|_| failed("the provider answered 200 with a body that cannot be read"))?;
    let message = read.output.and_then(|output| output.message);
    let Some(message) = message else {
        // Without an answer it is an error, whatever it says.
        return Err(ERRORS.event(body));
    };
    let mut choice = Choice::default();
    for block in message.content.unwrap_or_default() {
        add(&mut choice, block);
    }
    choice.finish =
        read.stop_reason.as_deref().map(|word| finish::read(FINISHES, word)).transpose()?;
    let reply = Reply {
        id: request_id(headers).map(str::to_owned),
        choices: vec![choice],
        usage: read.usage.map(Usage::from),
        finish_word: read.stop_reason,
        ..Reply::default()
    };
    Ok(reply.into_answer(call))
}

fn add(choice: &mut Choice, block: Block) {
    if let Some(text) = block.text {
        choice.say(&text);
    }
    if let Some(tool) = block.tool_use {
        let arguments = tool.input.as_deref().map_or("{}", RawValue::get);
        choice.tool_calls.push(ToolCall {
            id: tool.tool_use_id,
            name: tool.name,
            arguments: if arguments == "null" { "{}" } else { arguments }.to_owned(),
            signature: None,
        });
    }
    if let Some(reasoning) = block.reasoning_content {
        let text = reasoning.reasoning_text.map(|ReasoningText { text, signature }| {
            ReasoningPart::Text { text, signature: signature.filter(|it| !it.is_empty()) }
        });
        choice.reasoning.extend(text);
        let redacted = reasoning.redacted_content.filter(|data| !data.is_empty());
        choice.reasoning.extend(redacted.map(|data| ReasoningPart::Encrypted { data }));
    }
}
