//! A whole answer on its way down. Where a model answers in streams only, it is one that was put
//! together of its events.

use bytes::Bytes;
use sluicegate_model::Outcome;

use super::{
    delta::{Delta, deltas},
    errors::ERRORS,
    schema::{Answered, is_code, usage},
    stream::{FINISHES, understand},
};
use crate::{
    call::Call,
    chat::{Choice, Reply, ToolCall, finish},
    dialect::Answer,
    fault::Fault,
    sse::Framer,
};

/// More choices than anyone asks for are all taken for the last.
const MOST_CHOICES: usize = 128;
/// The same of tool calls.
const MOST_CALLS: usize = 1024;

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
    match text.first() {
        // A server that gave up waiting for its model.
        None => Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body")),
        Some(b'{') => whole(text).map(|reply| reply.into_answer(call)),
        Some(b'i' | b'e' | b'd' | b':') => collected(body).map(|reply| reply.into_answer(call)),
        Some(_) => failed("the provider answered 200 with a body that is not JSON"),
    }
}

fn failed<T>(message: &str) -> Result<T, Fault> {
    Err(Fault::new(Outcome::ProviderError, message))
}

fn whole(text: &[u8]) -> Result<Reply, Fault> {
    let Ok(answered) = serde_json::from_slice::<Answered>(text) else {
        return failed("the provider answered 200 with a body that is not JSON");
    };
    let mut reply = Reply::default();
    let task_failed = answered.output.as_ref().is_some_and(|output| is_code(&output.code));
    let code = is_code(&answered.code);
    take_names(&mut reply, &answered);
    let deltas = deltas(answered);
    if deltas.is_empty() {
        if let Some(fault) = in_band(text, code, task_failed) {
            return Err(fault);
        }
        return failed("the provider answered without any choice");
    }
    add(&mut reply, deltas)?;
    finished(reply)
}

/// The error that stands in a body without an answer.
fn in_band(text: &[u8], code: bool, task_failed: bool) -> Option<Fault> {
    if task_failed {
        let value: serde_json::Value = serde_json::from_slice(text).ok()?;
        return Some(ERRORS.event(value.get("output")?.to_string().as_bytes()));
    }
    if code { Some(ERRORS.event(text)) } else { ERRORS.in_band(text) }
}

/// Puts the events of a stream together.
fn collected(body: &Bytes) -> Result<Reply, Fault> {
    let mut framer = Framer::with_limit(body.len().max(1));
    framer.push(body.clone());
    let mut reply = Reply::default();
    loop {
        let next = framer
            .next_frame()
            .map_err(|error| Fault::new(Outcome::ProviderError, error.to_string()))?;
        let Some(frame) = next.or_else(|| framer.finish()) else { break };
        let Some(answered) = understand(&frame)? else { continue };
        take_names(&mut reply, &answered);
        add(&mut reply, deltas(answered))?;
    }
    let ended = reply.choices.iter().all(|choice| choice.finish.is_some());
    if reply.choices.is_empty() || !ended {
        return failed("the stream ended without a finish reason");
    }
    finished(reply)
}

fn take_names(reply: &mut Reply, answered: &Answered) {
    if let Some(id) = answered.request_id.as_ref().filter(|id| !id.is_empty()) {
        reply.id.get_or_insert_with(|| id.clone());
    }
    reply.usage = usage(&answered.usage).or(reply.usage);
}

fn add(reply: &mut Reply, deltas: Vec<Delta>) -> Result<(), Fault> {
    for delta in deltas {
        let index = delta.choice.min(MOST_CHOICES - 1);
        while reply.choices.len() <= index {
            reply.choices.push(Choice::default());
        }
        if let Some(choice) = reply.choices.get_mut(index)
            && let Some(word) = say(choice, delta)?
        {
            reply.finish_word = Some(word);
        }
    }
    Ok(())
}

fn say(choice: &mut Choice, delta: Delta) -> Result<Option<String>, Fault> {
    if !delta.reasoning.is_empty() {
        choice.think(&delta.reasoning);
    }
    if !delta.content.is_empty() {
        choice.say(&delta.content);
    }
    for call in delta.calls {
        let index = call.index.min(MOST_CALLS - 1);
        while choice.tool_calls.len() <= index {
            choice.tool_calls.push(ToolCall::default());
        }
        if let Some(known) = choice.tool_calls.get_mut(index) {
            if known.id.is_empty() {
                known.id = call.id;
            }
            if known.name.is_empty() {
                known.name = call.name;
            }
            known.arguments.push_str(&call.arguments);
        }
    }
    choice.logprobs = delta.logprobs.or(choice.logprobs.take());
    if let Some(word) = &delta.finish {
        choice.finish = Some(finish::read(FINISHES, word)?);
    }
    Ok(delta.finish)
}

/// Fills what must not be empty.
fn finished(mut reply: Reply) -> Result<Reply, Fault> {
    for choice in &mut reply.choices {
        choice.tool_calls.retain(|call| !call.name.is_empty());
        for call in &mut choice.tool_calls {
            if call.arguments.trim().is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
        }
        if choice.content.is_none() && choice.tool_calls.is_empty() {
            choice.content = Some(String::new());
        }
    }
    Ok(reply)
}
