//! A streamed answer on its way down: each event is an answer of its own, with what is new.

use sluicegate_model::Outcome;

use super::{
    errors::ERRORS,
    finish,
    wire::{Candidate, Counts, Part, Response},
};
use crate::{
    call::Call,
    chat::{Chunks, chunks::Translates},
    dialect::StreamEvent,
    fault::Fault,
    frame::Frame,
};

/// Reads the events of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: Chunks,
    counts: Counts,
    /// Something else than thoughts has come.
    said: bool,
}

impl Reader {
    pub(super) fn new(call: &Call) -> Self {
        Self { chunks: Chunks::new(call), counts: Counts::default(), said: false }
    }

    fn part(&mut self, choice: usize, part: Part) {
        if let Some(call) = part.function_call {
            self.said = true;
            let id = call.id.as_deref().unwrap_or_default();
            let name = call.name.as_deref().unwrap_or_default();
            let signature = part.thought_signature.as_deref();
            let tool = self.chunks.tool(choice, id, name, signature);
            self.chunks.arguments(choice, tool, &call.arguments());
            return;
        }
        match part.text {
            Some(text) if part.thought == Some(true) => self.chunks.reasoning(choice, &text),
            Some(text) => {
                self.said |= !text.is_empty();
                self.chunks.text(choice, &text);
            }
            None => {}
        }
    }

    fn candidate(&mut self, position: usize, mut candidate: Candidate) -> Result<(), Fault> {
        let choice = candidate.choice(position);
        for part in candidate.take_parts() {
            self.part(choice, part);
        }
        if let Some(logprobs) = candidate.logprobs_result.and_then(|result| result.written()) {
            self.chunks.logprobs(choice, &logprobs);
        }
        let Some(word) = candidate.finish_reason else { return Ok(()) };
        if let Some(reason) = finish::read(&word, self.said, self.chunks.has_tools(choice))? {
            self.chunks.finish(choice, reason);
            self.chunks.finish_word = Some(word);
        }
        Ok(())
    }

    fn response(&mut self, mut response: Response) -> Result<StreamEvent, Fault> {
        if let Some(fault) = response.blocked() {
            return Err(fault);
        }
        self.chunks.set_id(&response.response_id.unwrap_or_default());
        self.chunks.set_model(&response.model_version.unwrap_or_default());
        if let Some(counts) = response.usage_metadata {
            self.counts.update(counts);
            self.chunks.usage = self.counts.usage();
        }
        let candidates = response.candidates.take().unwrap_or_default();
        for (position, candidate) in candidates.into_iter().enumerate() {
            self.candidate(position, candidate)?;
        }
        Ok(self.chunks.event())
    }
}

impl Translates for Reader {
    fn translate(&mut self, frame: &Frame) -> StreamEvent {
        let Some(data) = frame.data() else {
            // Errors may stand in the stream without a field's name before them.
            let fault = frame.bare_json().and_then(|json| ERRORS.in_band(json));
            return fault.map_or(StreamEvent::Hidden, StreamEvent::Failed);
        };
        if data.trim_ascii() == b"[DONE]" {
            return StreamEvent::Hidden;
        }
        match serde_json::from_slice::<Response>(&data) {
            Ok(response) if response.error.is_some() => StreamEvent::Failed(ERRORS.event(&data)),
            Ok(response) => self.response(response).unwrap_or_else(StreamEvent::Failed),
            Err(_) => {
                let message = "the provider sent an event that cannot be read";
                let fault = ERRORS.in_band(&data);
                StreamEvent::Failed(
                    fault.unwrap_or_else(|| Fault::new(Outcome::ProviderError, message)),
                )
            }
        }
    }

    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }
}
