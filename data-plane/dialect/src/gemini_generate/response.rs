//! A whole answer on its way down.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use sluicegate_model::Outcome;

use super::{
    errors::ERRORS,
    finish,
    wire::{Candidate, Counts, Part, Response},
};
use crate::{
    call::Call,
    chat::{Choice, Reply, ToolCall},
    dialect::Answer,
    fault::Fault,
};

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let mut response: Response = parse(body)?;
    if let Some(fault) = response.blocked() {
        return Err(fault);
    }
    let candidates = response.candidates.take().unwrap_or_default();
    if candidates.is_empty() {
        return Err(none(body));
    }
    let finish_word = candidates.iter().rev().find_map(|it| it.finish_reason.clone());
    let mut choices = candidates
        .into_iter()
        .enumerate()
        .map(|(position, candidate)| Ok((candidate.choice(position), choice(candidate)?)))
        .collect::<Result<Vec<_>, Fault>>()?;
    choices.sort_by_key(|(index, _)| *index);
    let reply = Reply {
        id: response.response_id,
        model: response.model_version,
        choices: choices.into_iter().map(|(_, choice)| choice).collect(),
        usage: response.usage_metadata.and_then(Counts::usage),
        finish_word,
        ..Reply::default()
    };
    Ok(reply.into_answer(call))
}

/// Reads a 2xx body.
pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Fault> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body"));
    }
    serde_json::from_slice(body).map_err(|_| {
        let message = "the provider answered 200 with a body that cannot be read";
        let fault = ERRORS.in_band(body);
        fault.unwrap_or_else(|| Fault::new(Outcome::ProviderError, message))
    })
}

/// What a 2xx body without an answer is.
pub(super) fn none(body: &Bytes) -> Fault {
    let message = "the provider answered 200 without an answer";
    ERRORS.in_band(body).unwrap_or_else(|| Fault::new(Outcome::ProviderError, message))
}

fn choice(mut candidate: Candidate) -> Result<Choice, Fault> {
    let mut choice = Choice::default();
    candidate.take_parts().into_iter().for_each(|part| take(part, &mut choice));
    let said = choice.content.is_some() || !choice.tool_calls.is_empty();
    if let Some(word) = &candidate.finish_reason {
        choice.finish = finish::read(word, said, !choice.tool_calls.is_empty())?;
    }
    if choice.tool_calls.is_empty() {
        choice.content.get_or_insert_default();
    }
    choice.logprobs = candidate.logprobs_result.and_then(|result| result.written());
    Ok(choice)
}

fn take(part: Part, choice: &mut Choice) {
    if let Some(call) = part.function_call {
        choice.tool_calls.push(ToolCall {
            arguments: call.arguments(),
            id: call.id.unwrap_or_default(),
            name: call.name.unwrap_or_default(),
            signature: part.thought_signature,
        });
        return;
    }
    match part.text {
        Some(text) if text.is_empty() => {}
        Some(text) if part.thought == Some(true) => choice.think(&text),
        Some(text) => choice.say(&text),
        None => {}
    }
}
