//! The conversation in Converse's words: roles alternate, results of tools are the user's, thoughts
//! come first.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;

use super::schema::{
    Block, Document, Image, Reasoning as Thought, Source, ToolResult, ToolUse, Turn,
};
use crate::{
    chat::{
        Chat, Media, Message, Part,
        request::{PastCall, Reasoning, Turn as PastTurn},
    },
    dialect::Unfit,
};

const IMAGES: &[(&str, &str)] = &[
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("image/jpg", "jpeg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
];

const DOCUMENTS: &[(&str, &str)] = &[
    ("application/pdf", "pdf"),
    ("text/csv", "csv"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/markdown", "md"),
];

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct Conversation<'a> {
    pub(super) system: Vec<Block<'a>>,
    pub(super) turns: Vec<Turn<'a>>,
}

/// Reads the messages of a chat. Blocks about tools are refused by the upstream where no tools are
/// declared, so that without `tools` they become text.
pub(super) fn conversation<'a>(
    chat: &Chat<'a>,
    tools: bool,
    dropped: &mut Vec<Cow<'static, str>>,
) -> Result<Conversation<'a>, Unfit> {
    let mut reader = Reader { said: Conversation::default(), tools, documents: HashMap::new() };
    let mut unsigned = false;
    for (index, message) in chat.messages.iter().enumerate() {
        let at = || format!("messages[{index}].content");
        match message {
            Message::System(parts) => reader.system(parts, &at)?,
            Message::User(parts) => {
                let blocks = reader.blocks(parts, &at)?;
                reader.turn("user", blocks, &at)?;
            }
            Message::Assistant(turn) => {
                let blocks = reader.assistant(turn, &mut unsigned, &at)?;
                reader.turn("assistant", blocks, &at)?;
            }
            Message::Tool { call_id, name, content } => {
                let content = reader.blocks(content, &at)?;
                let blocks = if tools {
                    let tool_use_id = tool_id(call_id);
                    vec![Block::ToolResult(ToolResult { tool_use_id, content })]
                } else {
                    let name = name.as_deref().unwrap_or("the tool");
                    let mut blocks = vec![Block::Text(format!("[{name} answered:]").into())];
                    blocks.extend(content);
                    blocks
                };
                reader.turn("user", blocks, &at)?;
            }
        }
    }
    if reader.said.turns.is_empty() {
        return Err(Unfit::unsupported("messages", "it needs one besides those of the system"));
    }
    if unsigned {
        dropped.push(Cow::Borrowed("messages[].reasoning_content"));
    }
    Ok(reader.said)
}

struct Reader<'a> {
    said: Conversation<'a>,
    tools: bool,
    /// Names that were given to documents.
    documents: HashMap<String, u32>,
}

impl<'a> Reader<'a> {
    /// Adds to the turn of a role: those of one side that follow each other are one.
    fn turn(
        &mut self,
        role: &'static str,
        blocks: Vec<Block<'a>>,
        at: &impl Fn() -> String,
    ) -> Result<(), Unfit> {
        if blocks.is_empty() {
            return Err(Unfit::invalid(at(), "must not be empty"));
        }
        match self.said.turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => self.said.turns.push(Turn { role, content: blocks }),
        }
        Ok(())
    }

    fn system(&mut self, parts: &[Part<'a>], at: &impl Fn() -> String) -> Result<(), Unfit> {
        for part in parts {
            let Part::Text(text) = part else {
                return Err(Unfit::unsupported(at(), "the system speaks in text"));
            };
            self.said.system.push(Block::Text(text.clone()));
        }
        Ok(())
    }

    fn assistant(
        &mut self,
        turn: &PastTurn<'a>,
        unsigned: &mut bool,
        at: &impl Fn() -> String,
    ) -> Result<Vec<Block<'a>>, Unfit> {
        let mut blocks = Vec::new();
        for thought in &turn.reasoning {
            match thought {
                Reasoning::Text { text, signature: Some(signature) } => {
                    let (text, signature) = (text.clone(), signature.clone());
                    blocks
                        .push(Block::ReasoningContent(Thought::ReasoningText { text, signature }));
                }
                // What nobody signed is not taken back as a thought.
                Reasoning::Text { signature: None, .. } => *unsigned = true,
                Reasoning::Encrypted(data) => {
                    blocks.push(Block::ReasoningContent(Thought::RedactedContent(data.clone())));
                }
            }
        }
        blocks.extend(self.blocks(&turn.content, at)?);
        for call in &turn.calls {
            blocks.push(if self.tools { tool_use(call, at)? } else { told(call) });
        }
        Ok(blocks)
    }

    fn blocks(
        &mut self,
        parts: &[Part<'a>],
        at: &impl Fn() -> String,
    ) -> Result<Vec<Block<'a>>, Unfit> {
        parts.iter().map(|part| self.block(part, at)).collect()
    }

    fn block(&mut self, part: &Part<'a>, at: &impl Fn() -> String) -> Result<Block<'a>, Unfit> {
        match part {
            Part::Text(text) => Ok(Block::Text(text.clone())),
            Part::Image(media) => {
                let (mime, data) = inline(media, at)?;
                image(mime, data).ok_or_else(|| {
                    Unfit::unsupported(at(), "images must be PNG, JPEG, GIF or WebP")
                })
            }
            Part::Audio { .. } => Err(Unfit::unsupported(at(), "it does not listen")),
            Part::File { media, name } => {
                let (mime, data) = inline(media, at)?;
                if let Some(image) = image(mime, data) {
                    return Ok(image);
                }
                let format = known(DOCUMENTS, mime).ok_or_else(|| {
                    Unfit::unsupported(at(), "files must be documents: PDF, text or office")
                })?;
                let name = self.document_name(name.as_deref());
                let source = Source { bytes: data.clone() };
                Ok(Block::Document(Document { format, name, source }))
            }
        }
    }

    /// A name of the characters that are allowed, which no other document has.
    fn document_name(&mut self, given: Option<&str>) -> String {
        const LONGEST: usize = 180;
        let given = given.unwrap_or_default();
        let stem = given.rsplit_once('.').map_or(given, |(stem, _)| stem);
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | ')' | '[' | ']');
        let plain: String =
            stem.chars().take(LONGEST).map(|c| if allowed(c) { c } else { ' ' }).collect();
        let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        let base = if words.is_empty() { "document".to_owned() } else { words };
        // The number of a name that ends in one already is another's number, too, but never twice.
        let mut name = base.clone();
        while let Some(used) = self.documents.get_mut(&name) {
            *used += 1;
            name = format!("{name} ({used})");
        }
        self.documents.insert(name.clone(), 1);
        name
    }
}

fn inline<'m, 'a>(
    media: &'m Media<'a>,
    at: &impl Fn() -> String,
) -> Result<(&'m str, &'m Cow<'a, str>), Unfit> {
    match media {
        Media::Inline { mime, data } => Ok((mime, data)),
        Media::Url(_) => {
            Err(Unfit::unsupported(at(), "it takes bytes in a data URL, not the address of a file"))
        }
    }
}

fn image<'a>(mime: &str, data: &Cow<'a, str>) -> Option<Block<'a>> {
    let format = known(IMAGES, mime)?;
    Some(Block::Image(Image { format, source: Source { bytes: data.clone() } }))
}

fn known(table: &[(&'static str, &'static str)], mime: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(mime)).map(|(_, format)| *format)
}

fn tool_use<'a>(call: &PastCall<'a>, at: &impl Fn() -> String) -> Result<Block<'a>, Unfit> {
    let input = RawValue::from_string(call.arguments.clone().into_owned())
        .map_err(|_| Unfit::invalid(at(), "has a tool call whose arguments are not JSON"))?;
    let tool_use_id = tool_id(&call.id);
    Ok(Block::ToolUse(ToolUse { tool_use_id, name: call.name.clone(), input }))
}

/// A call that was made when there were tools.
fn told<'a>(call: &PastCall<'a>) -> Block<'a> {
    Block::Text(format!("[I called {} with {}]", call.name, call.arguments).into())
}

/// Ids are of letters, digits, `_` and `-`, 64 at most. One of another maker that is not becomes one
/// that is, the same for the call and its result.
fn tool_id<'a>(id: &Cow<'a, str>) -> Cow<'a, str> {
    const LONGEST: usize = 64;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.len() <= LONGEST && id.chars().all(allowed) {
        return id.clone();
    }
    let plain: String = id.chars().filter(|c| allowed(*c)).take(LONGEST - 9).collect();
    format!("{plain}_{:08x}", crc32fast::hash(id.as_bytes())).into()
}
