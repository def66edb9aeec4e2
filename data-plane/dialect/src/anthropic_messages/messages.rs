//! The conversation in Anthropic's words: turns of blocks, the system prompt apart.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    chat::{
        Media, Message, Part,
        content::plain_text,
        request::{Reasoning, Turn as PastTurn},
    },
    dialect::Unfit,
};

#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Self>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
    Text { media_type: &'static str, data: String },
}

/// The system prompt, where there is one, and the turns. What developers say keeps its order, but not
/// its places among the turns. Turns of one side are merged; what tools
/// returned stands first in its turn, as the format wants it.
///
/// # Errors
/// What the format has no place for, and messages that say nothing.
pub(super) fn turns<'a>(
    messages: &'a [Message<'a>],
) -> Result<(Option<String>, Vec<Turn<'a>>), Unfit> {
    let mut system: Vec<String> = Vec::new();
    let mut turns = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}].content");
        match message {
            Message::System(parts) => {
                let text = plain_text(parts)
                    .ok_or_else(|| Unfit::unsupported(&at, "a system message holds text alone"))?;
                system.extend((!text.is_empty()).then(|| text.into_owned()));
            }
            Message::User(parts) if parts.is_empty() => {
                return Err(Unfit::invalid(at, "must not be empty"));
            }
            Message::User(parts) => {
                let blocks = parts.iter().map(|part| said(part, &at));
                let blocks: Vec<_> = blocks.collect::<Result<_, _>>()?;
                open(&mut turns, "user").extend(blocks);
            }
            Message::Assistant(turn) => {
                let blocks = past(turn, index)?;
                if !blocks.is_empty() {
                    open(&mut turns, "assistant").extend(blocks);
                }
            }
            Message::Tool { call_id, content, .. } => {
                let result = Block::ToolResult {
                    tool_use_id: call_id,
                    content: content
                        .iter()
                        .map(|part| said(part, &at))
                        .collect::<Result<_, _>>()?,
                };
                let blocks = open(&mut turns, "user");
                let results =
                    blocks.iter().take_while(|it| matches!(it, Block::ToolResult { .. })).count();
                blocks.insert(results, result);
            }
        }
    }
    if turns.is_empty() {
        return Err(Unfit::unsupported("messages", "it wants a message besides the system's"));
    }
    Ok(((!system.is_empty()).then(|| system.join("\n\n")), turns))
}

/// The blocks of the turn that is going on, or of a new one if the other side had the word.
fn open<'t, 'a>(turns: &'t mut Vec<Turn<'a>>, role: &'static str) -> &'t mut Vec<Block<'a>> {
    if turns.last().is_none_or(|turn| turn.role != role) {
        turns.push(Turn { role, content: Vec::new() });
    }
    let last = turns.len() - 1;
    // It was just made, if it was not there.
    &mut turns.get_mut(last).unwrap_or_else(|| unreachable!("there is a last turn")).content
}

/// A turn of the model's: its thoughts, its words, its calls. A thought that nobody signed is left
/// out, because the format takes none back without proof that it is the model's own.
fn past<'a>(turn: &'a PastTurn<'a>, index: usize) -> Result<Vec<Block<'a>>, Unfit> {
    let mut blocks = Vec::new();
    blocks.extend(turn.reasoning.iter().filter_map(|thought| match thought {
        Reasoning::Text { text, signature: Some(signature) } => {
            Some(Block::Thinking { thinking: text, signature })
        }
        Reasoning::Text { signature: None, .. } => None,
        Reasoning::Encrypted(data) => Some(Block::RedactedThinking { data }),
    }));
    for part in &turn.content {
        let Part::Text(text) = part else {
            let at = format!("messages[{index}].content");
            return Err(Unfit::unsupported(at, "a turn of the model's holds text alone"));
        };
        blocks.push(Block::Text { text });
    }
    for (position, call) in turn.calls.iter().enumerate() {
        let at = || format!("messages[{index}].tool_calls[{position}].function.arguments");
        let input = serde_json::from_str(&call.arguments)
            .map_err(|_| Unfit::invalid(at(), "must be the text of a JSON object"))?;
        blocks.push(Block::ToolUse { id: &call.id, name: &call.name, input });
    }
    Ok(blocks)
}

/// A part of what a user or a tool said.
fn said<'a>(part: &'a Part<'a>, at: &str) -> Result<Block<'a>, Unfit> {
    match part {
        Part::Text(text) => Ok(Block::Text { text }),
        Part::Image(media) => Ok(Block::Image { source: source(media, at)? }),
        Part::Audio { .. } => Err(Unfit::unsupported(at, "it takes no audio")),
        Part::File { media, name } => {
            let source = match media {
                Media::Inline { mime, data } if mime == "text/plain" => text_source(data, at)?,
                Media::Inline { mime, .. } if mime != "application/pdf" => {
                    return Err(Unfit::unsupported(
                        at,
                        "it takes files that are PDF or plain text",
                    ));
                }
                media => source(media, at)?,
            };
            Ok(Block::Document { source, title: name.as_deref() })
        }
    }
}

fn source<'a>(media: &'a Media<'a>, at: &str) -> Result<Source<'a>, Unfit> {
    match media {
        Media::Inline { mime, data } => Ok(Source::Base64 { media_type: mime, data }),
        Media::Url(url) if url.starts_with("https://") || url.starts_with("http://") => {
            Ok(Source::Url { url })
        }
        Media::Url(_) => Err(Unfit::unsupported(at, "it takes http addresses and data URLs")),
    }
}

/// Plain text is sent as text.
fn text_source<'a>(data: &str, at: &str) -> Result<Source<'a>, Unfit> {
    let text = STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let data =
        text.ok_or_else(|| Unfit::invalid(at, "has a text file that is not base64 of UTF-8"))?;
    Ok(Source::Text { media_type: "text/plain", data })
}
