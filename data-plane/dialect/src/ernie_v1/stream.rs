//! A streamed answer on its way down. It ends with an event that says `is_end`; there is no other
//! terminal event, and a finish reason before it says nothing. An error is a line of bare JSON.

use sluicegate_model::Outcome;

use super::{
    errors::ERRORS,
    schema::{Answered, usage},
};
use crate::{
    call::Call,
    chat::{
        Chunks,
        chunks::Translates,
        finish::{self, Finish, Finishes},
    },
    dialect::StreamEvent,
    fault::Fault,
    frame::Frame,
};

/// The format's words for the end of an answer.
const FINISHES: Finishes = &[
    ("normal", Finish::As("stop")),
    ("stop", Finish::As("stop")),
    ("length", Finish::As("length")),
    ("content_filter", Finish::As("content_filter")),
    ("function_call", Finish::As("tool_calls")),
];

/// Why an answer ended. Two flags and a call say more than the reason, which may be `normal` beside
/// them.
///
/// # Errors
/// When the model gave up.
pub(super) fn finish(answered: &Answered, called: bool) -> Result<&'static str, Fault> {
    let word = answered.finish_reason.as_deref().unwrap_or("normal");
    if answered.need_clear_history == Some(true) {
        return Ok("content_filter");
    }
    if called {
        return Ok("tool_calls");
    }
    match finish::read(FINISHES, word)? {
        "stop" if answered.is_truncated == Some(true) => Ok("length"),
        reason => Ok(reason),
    }
}

/// Reads the events of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: Chunks,
    /// Flags hold from the event on that raises them.
    truncated: bool,
    clear_history: bool,
}

impl Reader {
    pub(super) fn new(call: &Call) -> Self {
        Self { chunks: Chunks::new(call), truncated: false, clear_history: false }
    }

    fn take(&mut self, frame: &Frame) -> Result<(), Fault> {
        if let Some(data) = frame.data() {
            self.event(&data)?;
        }
        if let Some(whole) = frame.bare_json()
            && let Some(fault) = ERRORS.in_band(whole)
        {
            return Err(fault);
        }
        // Lines of bare JSON may stand beside others without a blank line between them.
        let lines = frame.raw().split(|byte| matches!(byte, b'\n' | b'\r'));
        for line in lines.filter(|line| line.first() == Some(&b'{')) {
            self.event(line)?;
        }
        Ok(())
    }

    fn event(&mut self, data: &[u8]) -> Result<(), Fault> {
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        if let Some(fault) = ERRORS.in_band(data) {
            return Err(fault);
        }
        let Ok(mut answered) = serde_json::from_slice::<Answered>(data) else {
            let message = "the provider sent an event that is not JSON";
            return Err(Fault::new(Outcome::ProviderError, message));
        };
        self.truncated |= answered.is_truncated == Some(true);
        // What was stopped stays stopped, whatever the last frame says.
        self.clear_history |= answered.need_clear_history == Some(true)
            || answered.finish_reason.as_deref() == Some("content_filter");
        answered.is_truncated = Some(self.truncated);
        answered.need_clear_history = Some(self.clear_history);
        self.say(answered)
    }

    fn say(&mut self, answered: Answered) -> Result<(), Fault> {
        self.chunks.set_id(answered.id.as_deref().unwrap_or_default());
        self.chunks.usage = usage(&answered.usage).or(self.chunks.usage);
        self.chunks.text(0, answered.result.as_deref().unwrap_or_default());
        if let Some(called) = answered.called() {
            self.chunks.reasoning(0, called.thoughts.as_deref().unwrap_or_default());
            let index = self.chunks.tool(0, "", called.name(), None);
            self.chunks.arguments(0, index, called.arguments());
        }
        if answered.is_end == Some(true) {
            let reason = finish(&answered, self.chunks.has_tools(0))?;
            self.chunks.finish_word = answered.finish_reason;
            self.chunks.finish(0, reason);
        }
        Ok(())
    }
}

impl Translates for Reader {
    fn translate(&mut self, frame: &Frame) -> StreamEvent {
        match self.take(frame) {
            Ok(()) => self.chunks.event(),
            Err(fault) => StreamEvent::Failed(fault),
        }
    }

    fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }
}
