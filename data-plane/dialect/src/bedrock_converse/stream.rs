//! A streamed answer in OpenAI's form. The end of the answer is not the end of the stream: usage
//! follows.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::HeaderMap;
use serde::{Deserialize, de::DeserializeOwned};
use sluicegate_model::{Outcome, Usage};

use super::{FINISHES, errors::ERRORS, request_id, response::Counts};
use crate::{
    call::Call,
    chat::{Chunks, chunks::Translates, content::MOST_THOUGHT, finish, reply::ReasoningPart},
    dialect::StreamEvent,
    fault::Fault,
    frame::Frame,
};

/// Reads the events of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: Chunks,
    /// Blocks that have begun and not stopped, by their index.
    open: BTreeMap<u64, Open>,
    stopped: bool,
}

#[derive(Debug)]
enum Open {
    Tool { index: usize, empty: bool },
    Thought { text: String, signature: String, redacted: Vec<u8> },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    #[serde(default)]
    content_block_index: u64,
    #[serde(default)]
    start: Option<StartOf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartOf {
    #[serde(default)]
    tool_use: Option<ToolStart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart {
    #[serde(default)]
    tool_use_id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece {
    #[serde(default)]
    content_block_index: u64,
    #[serde(default)]
    delta: Option<Delta>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tool_use: Option<ToolPiece>,
    #[serde(default)]
    reasoning_content: Option<ThoughtPiece>,
}

#[derive(Deserialize)]
struct ToolPiece {
    #[serde(default)]
    input: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThoughtPiece {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    #[serde(default)]
    content_block_index: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    usage: Option<Counts>,
}

impl Reader {
    pub(super) fn new(call: &Call, headers: &HeaderMap) -> Self {
        let mut chunks = Chunks::new(call);
        if let Some(id) = request_id(headers) {
            chunks.set_id(id);
        }
        Self { chunks, open: BTreeMap::new(), stopped: false }
    }

    fn event(&mut self, name: &str, data: &Bytes) -> Result<StreamEvent, Fault> {
        if let Some((kind, code)) = name.split_once(':') {
            // Exceptions have the names of errors, but for the first letter.
            let failed = matches!(kind, "exception" | "error");
            return if failed {
                Err(ERRORS.named_event(&capitalised(code), data))
            } else {
                Ok(StreamEvent::Hidden)
            };
        }
        match name {
            "messageStart" => self.chunks.begin(0),
            "contentBlockStart" => self.start(json(data)?),
            "contentBlockDelta" => self.piece(json(data)?)?,
            "contentBlockStop" => {
                let BlockStop { content_block_index } = json(data)?;
                if let Some(open) = self.open.remove(&content_block_index) {
                    self.close(open);
                }
            }
            "messageStop" => self.stop(json(data)?)?,
            "metadata" => {
                let Metadata { usage } = json(data)?;
                self.chunks.usage = usage.map(Usage::from).or(self.chunks.usage);
                if self.stopped {
                    return Ok(StreamEvent::Done);
                }
            }
            _ => return Ok(StreamEvent::Hidden),
        }
        Ok(self.chunks.event())
    }

    fn start(&mut self, start: Start) {
        if let Some(tool) = start.start.and_then(|start| start.tool_use) {
            let index = self.chunks.tool(0, &tool.tool_use_id, &tool.name, None);
            self.open.insert(start.content_block_index, Open::Tool { index, empty: true });
        }
    }

    fn piece(&mut self, piece: Piece) -> Result<(), Fault> {
        let Some(delta) = piece.delta else { return Ok(()) };
        if let Some(text) = delta.text {
            self.chunks.text(0, &text);
        }
        if let Some(input) = delta.tool_use.and_then(|tool| tool.input) {
            let Some(Open::Tool { index, empty }) = self.open.get_mut(&piece.content_block_index)
            else {
                let message = "the provider sent a piece of a tool call that had not begun";
                return Err(Fault::new(Outcome::ProviderError, message));
            };
            *empty &= input.is_empty();
            self.chunks.arguments(0, *index, &input);
        }
        if let Some(thought) = delta.reasoning_content {
            self.think(piece.content_block_index, thought);
        }
        Ok(())
    }

    fn think(&mut self, block: u64, piece: ThoughtPiece) {
        let open = self.open.entry(block).or_insert_with(|| Open::Thought {
            text: String::new(),
            signature: String::new(),
            redacted: Vec::new(),
        });
        let Open::Thought { text, signature, redacted } = open else { return };
        if text.len() + signature.len() + redacted.len() > MOST_THOUGHT {
            // What nobody could repeat is not kept; its text passes on.
            signature.clear();
            redacted.clear();
            text.clear();
        }
        if let Some(more) = piece.text {
            text.push_str(&more);
            self.chunks.reasoning(0, &more);
        }
        if let Some(more) = piece.signature {
            signature.push_str(&more);
        }
        if let Some(more) = piece.redacted_content {
            // Pieces are each padded; what is no base64 is nothing that could be repeated.
            redacted.extend(STANDARD.decode(more).unwrap_or_default());
        }
    }

    fn close(&mut self, open: Open) {
        match open {
            Open::Tool { index, empty: true } => self.chunks.arguments(0, index, "{}"),
            Open::Tool { .. } => {}
            Open::Thought { text, signature, redacted } => {
                if !signature.is_empty() {
                    let signature = Some(signature);
                    self.chunks.reasoning_detail(0, ReasoningPart::Text { text, signature });
                }
                if !redacted.is_empty() {
                    let data = STANDARD.encode(redacted);
                    self.chunks.reasoning_detail(0, ReasoningPart::Encrypted { data });
                }
            }
        }
    }

    fn stop(&mut self, stop: MessageStop) -> Result<(), Fault> {
        let reason = finish::read(FINISHES, &stop.stop_reason);
        self.chunks.finish_word = Some(stop.stop_reason);
        let reason = reason?;
        for open in std::mem::take(&mut self.open).into_values() {
            self.close(open);
        }
        self.chunks.finish(0, reason);
        self.stopped = true;
        Ok(())
    }
}

impl Translates for Reader {
    fn translate(&mut self, frame: &Frame) -> StreamEvent {
        let data = frame.data().unwrap_or_default();
        self.event(frame.event().unwrap_or_default(), &data).unwrap_or_else(StreamEvent::Failed)
    }

    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }
}

fn json<T: DeserializeOwned>(data: &Bytes) -> Result<T, Fault> {
    serde_json::from_slice(data).map_err(|_| {
        Fault::new(Outcome::ProviderError, "the provider sent an event that cannot be read")
    })
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}
