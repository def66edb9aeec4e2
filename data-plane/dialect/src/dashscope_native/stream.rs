//! A streamed answer on its way down.

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome;

use super::{
    errors::ERRORS,
    increments::{CallDelta, Delta, Event, Increments},
    schema::{Answered, is_code, usage},
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
pub(super) const FINISHES: Finishes = &[
    ("stop", Finish::As("stop")),
    ("length", Finish::As("length")),
    ("tool_calls", Finish::As("tool_calls")),
];

/// Reads the events of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: Chunks,
    increments: Increments,
    /// Tool calls by choice and by the server's own count.
    calls: BTreeMap<(usize, usize), Begun>,
}

/// How far a tool call has come.
#[derive(Debug, Default)]
struct Begun {
    /// Its index for the caller, once its name is known.
    index: Option<usize>,
    id: String,
    /// Arguments that came before the name.
    early: String,
    has_arguments: bool,
}

/// More tool calls than any model makes.
const MOST_CALLS: usize = 1024;

impl Reader {
    pub(super) fn new(call: &Call) -> Self {
        Self { chunks: Chunks::new(call), increments: Increments::new(), calls: BTreeMap::new() }
    }

    fn take(&mut self, frame: &Frame) -> Result<(), Fault> {
        let Some(answered) = understand(frame)? else { return Ok(()) };
        self.chunks.set_id(answered.request_id.as_deref().unwrap_or_default());
        self.chunks.usage = usage(&answered.usage).or(self.chunks.usage);
        for event in self.increments.take(Event::of(answered))? {
            for delta in event.deltas {
                self.say(delta)?;
            }
        }
        Ok(())
    }

    fn say(&mut self, delta: Delta) -> Result<(), Fault> {
        let choice = delta.choice;
        self.chunks.reasoning(choice, &delta.reasoning);
        self.chunks.text(choice, &delta.content);
        if let Some(logprobs) = &delta.logprobs {
            self.chunks.logprobs(choice, logprobs);
        }
        for call in delta.calls {
            self.call(choice, call);
        }
        if let Some(word) = delta.finish {
            let reason = finish::read(FINISHES, &word)?;
            self.chunks.finish_word = Some(word);
            self.close_calls(choice);
            self.chunks.finish(choice, reason);
        }
        Ok(())
    }

    fn call(&mut self, choice: usize, call: CallDelta) {
        if self.calls.len() >= MOST_CALLS && !self.calls.contains_key(&(choice, call.index)) {
            return;
        }
        let begun = self.calls.entry((choice, call.index)).or_default();
        if begun.id.is_empty() {
            begun.id = call.id;
        }
        if begun.index.is_none() && !call.name.is_empty() {
            let index = self.chunks.tool(choice, &begun.id, &call.name, None);
            begun.index = Some(index);
            begun.has_arguments |= !begun.early.is_empty();
            self.chunks.arguments(choice, index, &std::mem::take(&mut begun.early));
        }
        match begun.index {
            Some(index) => {
                begun.has_arguments |= !call.arguments.is_empty();
                self.chunks.arguments(choice, index, &call.arguments);
            }
            None => begun.early.push_str(&call.arguments),
        }
    }

    /// A call without arguments is one with an empty object.
    fn close_calls(&mut self, choice: usize) {
        for ((_, _), begun) in self.calls.range_mut((choice, 0)..=(choice, usize::MAX)) {
            if let Some(index) = begun.index.filter(|_| !begun.has_arguments) {
                begun.has_arguments = true;
                self.chunks.arguments(choice, index, "{}");
            }
        }
    }
}

/// What an event says; `None` where it says nothing.
///
/// # Errors
/// The failure that it is.
pub(super) fn understand(frame: &Frame) -> Result<Option<Answered>, Fault> {
    let status = inner_status(frame.raw());
    let fails = status.is_some_and(|status| !status.is_success());
    let Some(data) = frame.data() else {
        let bare = frame.bare_json().and_then(|json| ERRORS.in_band(json));
        return bare.map_or(Ok(None), Err);
    };
    if frame.event() == Some("error") || fails {
        let status = status.filter(|_| fails);
        return Err(match status {
            Some(status) => ERRORS.refusal(status, &HeaderMap::new(), &data),
            None => ERRORS.event(&data),
        });
    }
    if data.trim_ascii().is_empty() {
        return Ok(None);
    }
    let Ok(answered) = serde_json::from_slice::<Answered>(&data) else {
        let message = "the provider sent an event that is not JSON";
        return Err(Fault::new(Outcome::ProviderError, message));
    };
    if answered.output.is_none() {
        if is_code(&answered.code) {
            return Err(ERRORS.event(&data));
        }
        if let Some(fault) = ERRORS.in_band(&data) {
            return Err(fault);
        }
    }
    Ok(Some(answered))
}

/// The status of this very event, which a comment tells: `:HTTP_STATUS/429`.
fn inner_status(raw: &[u8]) -> Option<StatusCode> {
    raw.split(|byte| matches!(byte, b'\n' | b'\r'))
        .find_map(|line| line.strip_prefix(b":HTTP_STATUS/"))
        .and_then(|status| StatusCode::from_bytes(status.trim_ascii()).ok())
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
