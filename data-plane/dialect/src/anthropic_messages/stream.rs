//! A streamed answer on its way down: blocks that begin, grow and end.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_model::{Outcome, Usage};

use super::{
    FINISHES,
    errors::ERRORS,
    wire::{Block, Counts},
};
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
    counts: Counts,
    /// Blocks that have begun and not ended, by the stream's index, which counts blocks of all types.
    blocks: BTreeMap<u64, Open>,
    reason: Option<String>,
    ended: bool,
}

/// A block that goes on.
#[derive(Debug)]
enum Open {
    Tool {
        /// Its index among the tools.
        index: usize,
        /// Some of its arguments have passed.
        begun: bool,
        /// The arguments that stood in its beginning.
        input: Option<Box<RawValue>>,
    },
    Thought {
        text: String,
        signature: String,
    },
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    message: Option<Start>,
    #[serde(default)]
    content_block: Option<Block>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Start {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Counts>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    stop_reason: Option<String>,
}

impl Reader {
    pub(super) fn new(call: &Call) -> Self {
        Self {
            chunks: Chunks::new(call),
            counts: Counts::default(),
            blocks: BTreeMap::new(),
            reason: None,
            ended: false,
        }
    }

    fn start(&mut self, start: Start) {
        self.chunks.set_id(&start.id.unwrap_or_default());
        self.chunks.set_model(&start.model.unwrap_or_default());
        self.counts.update(start.usage.unwrap_or_default());
        // What the beginning tells of the output is provisional: should the stream break off, only the
        // input is known.
        self.chunks.usage = self.counts.usage().map(|usage| Usage { output: 0, ..usage });
        self.chunks.begin(0);
    }

    fn begin(&mut self, index: u64, block: Block) {
        self.end(index);
        match block.kind.as_deref() {
            Some("text") => self.chunks.text(0, &block.text.unwrap_or_default()),
            Some("thinking") => {
                let text = block.thinking.unwrap_or_default();
                self.chunks.reasoning(0, &text);
                let signature = block.signature.unwrap_or_default();
                self.blocks.insert(index, Open::Thought { text, signature });
            }
            Some("redacted_thinking") => {
                if let Some(data) = block.data {
                    self.chunks.reasoning_detail(0, ReasoningPart::Encrypted { data });
                }
            }
            Some("tool_use") => {
                let id = block.id.unwrap_or_default();
                let tool = self.chunks.tool(0, &id, &block.name.unwrap_or_default(), None);
                let input = block.input.filter(|input| input.get() != "null");
                self.blocks.insert(index, Open::Tool { index: tool, begun: false, input });
            }
            // What tools of the server's did.
            _ => {}
        }
    }

    fn grow(&mut self, index: u64, delta: Delta) {
        if let Some(text) = delta.text {
            self.chunks.text(0, &text);
        }
        if let Some(thought) = &delta.thinking {
            self.chunks.reasoning(0, thought);
        }
        match self.blocks.get_mut(&index) {
            Some(Open::Tool { index, begun, .. }) => {
                let piece = delta.partial_json.unwrap_or_default();
                *begun |= !piece.is_empty();
                self.chunks.arguments(0, *index, &piece);
            }
            Some(Open::Thought { text, signature }) => {
                text.push_str(&delta.thinking.unwrap_or_default());
                signature.push_str(&delta.signature.unwrap_or_default());
                if text.len() + signature.len() > MOST_THOUGHT {
                    self.blocks.remove(&index);
                }
            }
            None => {}
        }
    }

    fn end(&mut self, index: u64) {
        match self.blocks.remove(&index) {
            Some(Open::Tool { index, begun: false, input }) => {
                // A call without arguments may send an empty text, or nothing at all.
                self.chunks.arguments(0, index, input.as_deref().map_or("{}", RawValue::get));
            }
            Some(Open::Thought { text, signature }) if !signature.is_empty() => {
                let part = ReasoningPart::Text { text, signature: Some(signature) };
                self.chunks.reasoning_detail(0, part);
            }
            Some(Open::Tool { .. } | Open::Thought { .. }) | None => {}
        }
    }

    /// The stream says that it is over. The finish reason goes out only now: it comes before the end,
    /// and a stream that is cut between them is not whole.
    fn close(&mut self) -> StreamEvent {
        self.ended = true;
        while let Some(index) = self.blocks.keys().next().copied() {
            self.end(index);
        }
        if let Some(word) = self.reason.take() {
            self.chunks.usage = self.counts.usage();
            match finish::read(FINISHES, &word) {
                Ok(reason) => self.chunks.finish(0, reason),
                Err(fault) => return StreamEvent::Failed(fault),
            }
            self.chunks.finish_word = Some(word);
        }
        if !self.chunks.complete() {
            let message = "the stream ended without a stop reason";
            return StreamEvent::Failed(Fault::new(Outcome::StreamInterrupted, message));
        }
        StreamEvent::Done
    }

    fn event(&mut self, kind: &str, event: Event) -> StreamEvent {
        match kind {
            "message_start" => self.start(event.message.unwrap_or_default()),
            "content_block_start" => {
                self.begin(event.index.unwrap_or(0), event.content_block.unwrap_or_default());
            }
            "content_block_delta" => {
                self.grow(event.index.unwrap_or(0), event.delta.unwrap_or_default());
            }
            "content_block_stop" => self.end(event.index.unwrap_or(0)),
            "message_delta" => {
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.reason = reason.or(self.reason.take());
                if let Some(counts) = event.usage {
                    self.counts.update(counts);
                    // Not before: what the beginning tells of the output is provisional.
                    self.chunks.usage = self.counts.usage();
                }
            }
            "message_stop" => return self.close(),
            _ => {}
        }
        self.chunks.event()
    }
}

impl Translates for Reader {
    fn translate(&mut self, frame: &Frame) -> StreamEvent {
        let Some(data) = frame.data() else {
            let fault = frame.bare_json().and_then(|json| ERRORS.in_band(json));
            return fault.map_or(StreamEvent::Hidden, StreamEvent::Failed);
        };
        if self.ended || data.trim_ascii() == b"[DONE]" {
            return StreamEvent::Hidden;
        }
        if frame.event() == Some("error") {
            return StreamEvent::Failed(ERRORS.event(&data));
        }
        let Ok(event) = serde_json::from_slice::<Event>(&data) else {
            let message = "the provider sent an event that cannot be read";
            let fault = ERRORS.in_band(&data);
            return StreamEvent::Failed(
                fault.unwrap_or_else(|| Fault::new(Outcome::ProviderError, message)),
            );
        };
        match event.kind.clone().as_deref().or(frame.event()) {
            Some("error") => StreamEvent::Failed(ERRORS.event(&data)),
            Some(kind) => self.event(kind, event),
            // Servers that copy the format may put their own errors into its streams.
            None => ERRORS.in_band(&data).map_or(StreamEvent::Hidden, StreamEvent::Failed),
        }
    }

    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }
}
