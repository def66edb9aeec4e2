//! What an event of a stream says, in parts that are added up. (Streams are asked for in pieces:
//! `incremental_output`.)

use super::schema::{Answered, RawCall, RawChoice};

/// What one choice says in one event.
#[derive(Debug, Clone, Default)]
pub(super) struct Delta {
    pub(super) choice: usize,
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<CallDelta>,
    pub(super) finish: Option<String>,
    pub(super) logprobs: Option<Box<serde_json::value::RawValue>>,
}

/// A fragment of a tool call.
#[derive(Debug, Clone, Default)]
pub(super) struct CallDelta {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Reads what was answered, by its choices.
pub(super) fn deltas(answered: Answered) -> Vec<Delta> {
    let Some(output) = answered.output else { return Vec::new() };
    let choices = output.choices.unwrap_or_default().into_iter().enumerate();
    let mut deltas: Vec<_> = choices.map(|(position, choice)| delta(position, choice)).collect();
    if deltas.is_empty()
        && let Some(content) = output.text
    {
        let finish = output.finish_reason.filter(|word| ends(word));
        deltas.push(Delta { content, finish, ..Delta::default() });
    }
    deltas
}

/// "None yet" is spelt as text.
fn ends(word: &str) -> bool {
    !word.is_empty() && word != "null"
}

fn delta(position: usize, choice: RawChoice) -> Delta {
    let message = choice.message.unwrap_or_default();
    let calls = message.tool_calls.unwrap_or_default().into_iter().enumerate();
    Delta {
        choice: choice.index.unwrap_or(position),
        reasoning: message.reasoning_content.unwrap_or_default(),
        content: message.content.map(|content| content.text()).unwrap_or_default(),
        calls: calls.map(|(position, call)| call_delta(position, call)).collect(),
        finish: choice.finish_reason.filter(|word| ends(word)),
        logprobs: choice.logprobs,
    }
}

fn call_delta(position: usize, call: RawCall) -> CallDelta {
    let function = call.function.unwrap_or_default();
    let arguments = function.arguments.map(|raw| {
        let text = raw.get();
        serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
    });
    CallDelta {
        index: call.index.unwrap_or(position),
        id: call.id.unwrap_or_default(),
        name: function.name.unwrap_or_default(),
        arguments: arguments.unwrap_or_default(),
    }
}
