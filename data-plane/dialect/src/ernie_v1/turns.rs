//! Messages as the format wants them: users and the model take turns, users first and last. What a
//! function returned stands where users speak. Nothing is empty.
//!
//! A turn has room for one call. Calls that were made side by side are told one after the other, each
//! with what it returned: the model reads the same, in an order that it could have chosen.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::schema::{FunctionCall, Message, Role};
use crate::{
    chat::{
        self, Part,
        content::plain_text,
        request::{PastCall, Turn},
    },
    dialect::Unfit,
};

/// What stands where nothing was said: Qianfan's SDK fills gaps with the same.
const FILLER: &str = "/";

/// The conversation, and what developers say, which stands apart.
pub(super) fn of<'a>(
    messages: &'a [chat::Message<'_>],
) -> Result<(Option<String>, Vec<Message<'a>>), Unfit> {
    let mut system: Vec<Cow<'a, str>> = Vec::new();
    let mut turns = Turns(Vec::new());
    let mut rest = messages.iter().enumerate().peekable();
    while let Some((index, message)) = rest.next() {
        match message {
            chat::Message::System(parts) => system.push(text(index, parts)?),
            chat::Message::User(parts) => {
                let said = text(index, parts)?;
                if said.trim().is_empty() {
                    let at = format!("messages[{index}].content");
                    return Err(Unfit::unsupported(at, "it takes no empty messages"));
                }
                turns.say(Role::User, said);
            }
            chat::Message::Assistant(turn) if turn.calls.is_empty() => {
                turns.say(Role::Assistant, filled(text(index, &turn.content)?));
            }
            chat::Message::Assistant(turn) => {
                let mut results = Vec::new();
                while let Some((index, result)) = rest.next_if(|(_, next)| is_result(next)) {
                    if let chat::Message::Tool { call_id, content, .. } = result {
                        results.push((index, call_id.as_ref(), text(index, content)?));
                    }
                }
                turns.call(index, turn, results)?;
            }
            chat::Message::Tool { .. } => return Err(stray(index)),
        }
    }
    let Turns(turns) = turns;
    match turns.last() {
        Some(last) if last.role == Role::Assistant => {
            let at = format!("messages[{}]", messages.len().saturating_sub(1));
            Err(Unfit::unsupported(at, "it answers users and tools; the model has the last word"))
        }
        Some(_) => Ok(((!system.is_empty()).then(|| system.join("\n")), turns)),
        None => Err(Unfit::unsupported("messages", "it needs a message of a user's")),
    }
}

fn is_result(message: &chat::Message<'_>) -> bool {
    matches!(message, chat::Message::Tool { .. })
}

fn stray(index: usize) -> Unfit {
    let at = format!("messages[{index}].tool_call_id");
    Unfit::invalid(at, "answers no call of the turn before")
}

/// The text of a message; anything else has no place.
fn text<'a>(index: usize, parts: &'a [Part<'_>]) -> Result<Cow<'a, str>, Unfit> {
    plain_text(parts).ok_or_else(|| {
        let position = parts.iter().position(|part| !matches!(part, Part::Text(_))).unwrap_or(0);
        let at = format!("messages[{index}].content[{position}]");
        Unfit::unsupported(at, "it takes texts only")
    })
}

fn filled(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.trim().is_empty() { Cow::Borrowed(FILLER) } else { text }
}

/// Turns that alternate.
struct Turns<'a>(Vec<Message<'a>>);

impl<'a> Turns<'a> {
    /// Adds a text; to the turn before, where the same side has it.
    fn say(&mut self, role: Role, said: Cow<'a, str>) {
        match self.0.last_mut() {
            Some(last) if last.role == role && last.function_call.is_none() => {
                let joined = last.content.to_mut();
                joined.push('\n');
                joined.push_str(&said);
            }
            _ => self.push(Message { role, name: None, content: said, function_call: None }),
        }
    }

    /// Adds a turn with calls, each before what it returned.
    fn call(
        &mut self,
        index: usize,
        turn: &'a Turn<'_>,
        mut results: Vec<(usize, &'a str, Cow<'a, str>)>,
    ) -> Result<(), Unfit> {
        let mut said = Some(text(index, &turn.content)?);
        for (position, PastCall { id, name, arguments, .. }) in turn.calls.iter().enumerate() {
            let found = results.iter().position(|(_, call_id, _)| call_id == id);
            let Some(found) = found else {
                let at = format!("messages[{index}].tool_calls[{position}]");
                return Err(Unfit::invalid(at, "has no result among the messages that follow"));
            };
            let (_, _, result) = results.remove(found);
            let function_call = Some(FunctionCall { name, arguments });
            let content = filled(said.take().unwrap_or_default());
            self.push(Message { role: Role::Assistant, name: None, content, function_call });
            let (role, name) = (Role::Function, Some(name.as_ref()));
            self.push(Message { role, name, content: json(result), function_call: None });
        }
        results.first().map_or(Ok(()), |(index, ..)| Err(stray(*index)))
    }

    /// Adds a turn, behind a filler where the same side had the turn before.
    fn push(&mut self, message: Message<'a>) {
        let is_model = |role| role == Role::Assistant;
        let gap = match self.0.last() {
            Some(last) => is_model(last.role) == is_model(message.role),
            None => is_model(message.role),
        };
        if gap {
            let role = if is_model(message.role) { Role::User } else { Role::Assistant };
            let content = Cow::Borrowed(FILLER);
            self.0.push(Message { role, name: None, content, function_call: None });
        }
        self.0.push(message);
    }
}

/// What a function returned must be JSON: a text becomes a member of an object.
fn json(result: Cow<'_, str>) -> Cow<'_, str> {
    if serde_json::from_str::<&RawValue>(&result).is_ok() {
        return result;
    }
    serde_json::json!({ "result": result }).to_string().into()
}

#[cfg(test)]
mod tests;
