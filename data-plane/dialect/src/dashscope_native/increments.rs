//! What is new in each event of a stream.
//!
//! Streams are asked for in pieces. A server that passes over that wish says with every event all
//! that was said before, too. The first event tells nothing of it; afterwards, an event that does not
//! begin with what was said is a piece, and two in a row that do and say more are not. Until it is
//! known, events are held back: with pieces hardly ever, else for one event.

use std::collections::BTreeMap;

use sluicegate_model::Outcome;

use super::schema::{Answered, RawCall, RawChoice, usage};
use crate::fault::Fault;

/// One event, in parts that can be added up.
#[derive(Debug, Clone, Default)]
pub(super) struct Event {
    pub(super) deltas: Vec<Delta>,
    /// Output tokens so far.
    pub(super) tokens: Option<u64>,
}

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

impl Event {
    /// Reads what was answered.
    pub(super) fn of(answered: Answered) -> Self {
        let tokens = usage(&answered.usage).map(|usage| usage.output);
        let Some(output) = answered.output else { return Self { deltas: Vec::new(), tokens } };
        let mut deltas: Vec<_> = output
            .choices
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(position, choice)| delta(position, choice))
            .collect();
        if deltas.is_empty()
            && let Some(content) = output.text
        {
            let finish = output.finish_reason.filter(|word| ends(word));
            deltas.push(Delta { content, finish, ..Delta::default() });
        }
        Self { deltas, tokens }
    }
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

/// A text that grows, by its choice.
type Key = (usize, Field);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Reasoning,
    Content,
    Arguments(usize),
}

/// How a server streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unknown,
    /// Each event says what is new.
    Pieces,
    /// Each event says everything.
    Everything,
}

/// What an event shows of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// Nothing: it has no text that was there before.
    None,
    /// Texts that do not begin with what was said.
    Pieces,
    /// Texts that do, and say more.
    Grown,
    /// The same text once more.
    Same,
}

/// Makes pieces of the events of one stream.
#[derive(Debug)]
pub(super) struct Increments {
    mode: Mode,
    /// What was given away.
    given: BTreeMap<Key, String>,
    /// What was said, if each event says everything.
    said: BTreeMap<Key, String>,
    held: Vec<Event>,
    grown: usize,
    tokens: Option<u64>,
}

/// So many events that say more prove it.
const PROOF: usize = 2;
/// So many events are held back at most.
const MOST_HELD: usize = 8;

impl Increments {
    pub(super) fn new() -> Self {
        Self {
            mode: Mode::Unknown,
            given: BTreeMap::new(),
            said: BTreeMap::new(),
            held: Vec::new(),
            grown: 0,
            tokens: None,
        }
    }

    /// Takes the next event; gives the pieces that are new by now.
    ///
    /// # Errors
    /// When the server takes back what it said.
    pub(super) fn take(&mut self, event: Event) -> Result<Vec<Event>, Fault> {
        match self.mode {
            Mode::Pieces => return Ok(vec![event]),
            Mode::Everything => return self.rest(event).map(|event| vec![event]),
            Mode::Unknown => {}
        }
        let evidence = self.evidence(&event);
        let more_tokens = event.tokens > self.tokens;
        self.tokens = event.tokens.or(self.tokens);
        let ends = event.deltas.iter().any(|delta| delta.finish.is_some());
        let parts = event.deltas.iter().flat_map(texts).count();
        self.grown += usize::from(evidence == Evidence::Grown);
        for (key, text) in event.deltas.iter().flat_map(texts) {
            self.said.insert(key, text.to_owned());
        }
        // Tokens tell a repetition from nothing new, but not whose they are among several texts.
        let repeats = evidence == Evidence::Same && more_tokens && parts == 1 && self.grown == 0;
        let full = self.held.len() >= MOST_HELD;
        if evidence == Evidence::Pieces || repeats {
            self.mode = Mode::Pieces;
        } else if self.grown >= PROOF {
            self.mode = Mode::Everything;
        } else if ends || full {
            let everything = self.grown > 0 || evidence == Evidence::Same;
            self.mode = if everything { Mode::Everything } else { Mode::Pieces };
        } else if evidence != Evidence::None || !self.held.is_empty() || is_half(&event) {
            self.held.push(event);
            return Ok(Vec::new());
        } else {
            self.given.clone_from(&self.said);
            return Ok(vec![event]);
        }
        let mut events = std::mem::take(&mut self.held);
        events.push(event);
        if self.mode == Mode::Pieces {
            self.given.clear();
            self.said.clear();
            return Ok(events);
        }
        events.into_iter().map(|event| self.rest(event)).collect()
    }

    fn evidence(&self, event: &Event) -> Evidence {
        let mut found = Evidence::None;
        for delta in &event.deltas {
            let now: BTreeMap<Key, &str> = texts(delta).collect();
            for (key, before) in self.said.iter().filter(|(key, _)| key.0 == delta.choice) {
                let text = now.get(key).copied().unwrap_or_default();
                match settled(text).strip_prefix(settled(before)) {
                    None => return Evidence::Pieces,
                    Some("") if found == Evidence::None => found = Evidence::Same,
                    Some("") => {}
                    Some(_) => found = Evidence::Grown,
                }
            }
        }
        found
    }

    /// What is new in an event that says everything.
    fn rest(&mut self, mut event: Event) -> Result<Event, Fault> {
        for delta in &mut event.deltas {
            let choice = delta.choice;
            // These, too, are of everything.
            delta.logprobs = None;
            self.cut((choice, Field::Reasoning), &mut delta.reasoning)?;
            self.cut((choice, Field::Content), &mut delta.content)?;
            for call in &mut delta.calls {
                self.cut((choice, Field::Arguments(call.index)), &mut call.arguments)?;
            }
        }
        Ok(event)
    }

    fn cut(&mut self, key: Key, text: &mut String) -> Result<(), Fault> {
        let given = self.given.entry(key).or_default();
        let now = settled(text);
        if let Some(new) = now.strip_prefix(given.as_str()) {
            let new = new.to_owned();
            now.clone_into(given);
            *text = new;
            return Ok(());
        }
        if given.starts_with(now) {
            text.clear();
            return Ok(());
        }
        let message = "the provider took back what it had said";
        Err(Fault::new(Outcome::ProviderError, message))
    }
}

/// The text without what stands for half a character, which the next event completes.
fn settled(text: &str) -> &str {
    text.trim_end_matches('\u{fffd}')
}

/// Does a text of the event end within a character?
fn is_half(event: &Event) -> bool {
    event.deltas.iter().flat_map(texts).any(|(_, text)| settled(text).len() < text.len())
}

/// The texts of a delta that say anything.
fn texts(delta: &Delta) -> impl Iterator<Item = (Key, &str)> {
    let arguments =
        delta.calls.iter().map(|call| (Field::Arguments(call.index), call.arguments.as_str()));
    [(Field::Reasoning, delta.reasoning.as_str()), (Field::Content, delta.content.as_str())]
        .into_iter()
        .chain(arguments)
        .filter(|(_, text)| !text.is_empty())
        .map(|(field, text)| ((delta.choice, field), text))
}

#[cfg(test)]
mod tests;
