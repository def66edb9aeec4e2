//! A whole answer on its way down.

use bytes::Bytes;
use sluicegate_model::Outcome;

use super::{
    errors::ERRORS,
    schema::{Answered, usage},
    stream::finish,
};
use crate::{
    call::Call,
    chat::{Choice, Reply, ToolCall},
    dialect::Answer,
    fault::Fault,
};

pub(super) fn read(call: &Call, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Err(Fault::new(Outcome::ProviderError, message));
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
    if text.is_empty() {
        // A server that gave up waiting for its model.
        return Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body"));
    }
    if let Some(fault) = ERRORS.in_band(text) {
        return Err(fault);
    }
    let Ok(answered) = serde_json::from_slice::<Answered>(text) else {
        return failed("the provider answered 200 with a body that is not JSON");
    };
    if answered.result.is_none() && answered.called().is_none() {
        return failed("the provider answered 200 without an answer");
    }
    let called = answered.called();
    let mut choice = Choice::default();
    if let Some(thoughts) = called.and_then(|call| call.thoughts.as_deref()) {
        choice.think(thoughts);
    }
    if let Some(called) = called {
        choice.tool_calls.push(ToolCall {
            name: called.name().to_owned(),
            arguments: called.arguments().to_owned(),
            ..ToolCall::default()
        });
    }
    // Beside a call, an empty text is none.
    choice.content = answered.result.clone().filter(|text| called.is_none() || !text.is_empty());
    choice.finish = Some(finish(&answered, called.is_some())?);
    let reply = Reply {
        id: answered.id.filter(|id| !id.is_empty()),
        model: None,
        created: answered.created,
        choices: vec![choice],
        usage: usage(&answered.usage),
        finish_word: answered.finish_reason,
    };
    Ok(reply.into_answer(call))
}
