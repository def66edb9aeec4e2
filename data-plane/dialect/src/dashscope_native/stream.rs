//! A streamed answer on its way down.

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome;

use super::{
    delta::{CallDelta, Delta, deltas},
    errors::ERRORS,
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
        Self { chunks: Chunks::new(call), calls: BTreeMap::new() }
    }

    fn take(&mut self, frame: &Frame) -> Result<(), Fault> {
        let Some(answered) = understand(frame)? else { return Ok(()) };
        self.chunks.set_id(answered.request_id.as_deref().unwrap_or_default());
        self.chunks.usage = usage(&answered.usage).or(self.chunks.usage);
        for delta in deltas(answered) {
            self.say(delta)?;
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
    let refused = status.filter(|status| !status.is_success());
    let data = frame.data().unwrap_or_default();
    if let Some(status) = refused {
        return Err(ERRORS.refusal(status, &HeaderMap::new(), &data));
    }
    if frame.event() == Some("error") {
        return Err(ERRORS.event(&data));
    }
    if let Some(fault) = frame.bare_json().and_then(|json| ERRORS.in_band(json)) {
        return Err(fault);
    }
    // Some proxies add the last event of another format.
    if data.trim_ascii().is_empty() || data.trim_ascii() == b"[DONE]" {
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sse::Framer;

    #[test]
    fn c3_every_way_to_say_that_it_failed_is_heard() {
        check(
            "event:error\ndata:{\"code\":\"Throttling\",\"message\":\"m\"}\n\n",
            Outcome::RateLimited,
        );
        check(":HTTP_STATUS/429\ndata:{\"message\":\"m\"}\n\n", Outcome::RateLimited);
        check("event:error\n:HTTP_STATUS/401\n\n", Outcome::KeyRefused);
        check("event:error\n\n", Outcome::ProviderError);
        check("data:{\"code\":\"Arrearage\",\"message\":\"m\"}\n\n", Outcome::QuotaExhausted);
        check("data:{\"code\":503,\"message\":\"m\"}\n\n", Outcome::Overloaded);
        check(
            "data:{\"error\":{\"message\":\"m\",\"code\":\"limit_requests\"}}\n\n",
            Outcome::RateLimited,
        );
        check(
            "{\"error\":{\"message\":\"m\",\"code\":\"limit_requests\"}}\n\n",
            Outcome::RateLimited,
        );
        check("data:{oops\n\n", Outcome::ProviderError);

        #[track_caller]
        fn check(text: &str, outcome: Outcome) {
            assert_eq!(read(text).unwrap_err().outcome, outcome, "{text}");
        }
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for text in [":HTTP_STATUS/200\n\n", "id:1\nevent:result\n\n", "data:\n\n", ": hi\n\n"] {
            assert!(read(text).unwrap().is_none(), "{text}");
        }
        assert!(read("data:{\"code\":\"\",\"usage\":{}}\n\n").unwrap().is_some());
    }

    fn read(text: &str) -> Result<Option<Answered>, Fault> {
        let mut framer = Framer::default();
        framer.push(Bytes::copy_from_slice(text.as_bytes()));
        understand(&framer.next_frame().unwrap().unwrap())
    }
}
