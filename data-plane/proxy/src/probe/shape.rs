//! What answers in OpenAI's shape look like before anything is made of them.

use serde_json::Value;

/// What the chunks of a stream look like.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub(super) first: Option<First>,
    /// Chunks with usage and no choices, and those that have both.
    pub(super) usage_alone: u32,
    pub(super) usage_beside: u32,
    pub(super) tools: ToolForm,
}

/// What the first chunk of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// It has no choices.
    Empty,
    /// It names the role and says nothing yet; with `content: null`, or without.
    Role { null: bool },
    /// It says something already.
    Content,
    /// It is not of OpenAI's shape.
    Other,
}

impl Chunks {
    /// Looks at the data of the next event.
    pub(super) fn look(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            return;
        }
        let chunk: Value = serde_json::from_slice(data).unwrap_or_default();
        let choices = chunk.get("choices").and_then(Value::as_array);
        if self.first.is_none() {
            self.first = Some(first(choices));
        }
        let Some(choices) = choices else { return };
        if chunk.get("usage").is_some_and(Value::is_object) {
            let count =
                if choices.is_empty() { &mut self.usage_alone } else { &mut self.usage_beside };
            *count = count.saturating_add(1);
        }
        for choice in choices {
            self.tools.look_at(choice.pointer("/delta/tool_calls"), true);
        }
    }
}

fn first(choices: Option<&Vec<Value>>) -> First {
    let Some(choices) = choices else { return First::Other };
    let Some(choice) = choices.first() else { return First::Empty };
    let delta = choice.get("delta").and_then(Value::as_object);
    let says = delta.is_some_and(|delta| {
        delta.iter().any(|(name, value)| {
            name != "role" && !value.is_null() && value.as_str() != Some("") && !is_empty(value)
        })
    });
    if says {
        return First::Content;
    }
    First::Role { null: delta.is_some_and(|delta| delta.get("content") == Some(&Value::Null)) }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// In which form tools are called.
#[derive(Debug, Default)]
pub(super) struct ToolForm {
    /// Calls, or fragments of them.
    pub(super) parts: u32,
    no_index: bool,
    no_type: bool,
    no_id: bool,
    empty_id: bool,
    object_arguments: bool,
    null_function: bool,
}

impl ToolForm {
    /// The form of the calls in a whole answer.
    pub(super) fn of_answer(body: &[u8]) -> (Self, Content) {
        let mut form = Self::default();
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = answer.pointer("/choices/0/message");
        form.look_at(message.and_then(|message| message.get("tool_calls")), false);
        (form, Content::of(message))
    }

    fn look_at(&mut self, calls: Option<&Value>, fragments: bool) {
        for call in calls.and_then(Value::as_array).into_iter().flatten() {
            self.parts = self.parts.saturating_add(1);
            let text = |name| call.get(name).and_then(Value::as_str);
            let id = text("id");
            // The first fragment of a call has its name; those that follow have arguments alone.
            let begins = !fragments
                || id.is_some_and(|id| !id.is_empty())
                || call.pointer("/function/name").is_some_and(|name| name.as_str() != Some(""));
            self.no_index |= fragments && !call.get("index").is_some_and(Value::is_number);
            self.no_type |= begins && text("type").is_none();
            self.no_id |= begins && id.is_none();
            self.empty_id |= id == Some("");
            self.object_arguments |=
                call.pointer("/function/arguments").is_some_and(Value::is_object);
            self.null_function |= call.get("function").is_some_and(Value::is_null);
        }
    }

    /// What clients trip over, in words.
    pub(super) fn faults(&self) -> Vec<&'static str> {
        let faults = [
            (self.no_index, "without index"),
            (self.no_type, "without type"),
            (self.no_id, "without id"),
            (self.empty_id, "with an empty id"),
            (self.object_arguments, "arguments as an object"),
            (self.null_function, "function null"),
        ];
        faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect()
    }
}

/// What `content` is beside a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Absent,
    Null,
    Empty,
    Text,
}

impl Content {
    fn of(message: Option<&Value>) -> Self {
        match message.and_then(|message| message.get("content")) {
            None => Self::Absent,
            Some(Value::Null) => Self::Null,
            Some(value) if value.as_str() == Some("") => Self::Empty,
            Some(_) => Self::Text,
        }
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "no content beside it",
            Self::Null => "content null beside it",
            Self::Empty => "empty content beside it",
            Self::Text => "text beside it",
        }
    }
}

/// The envelope of an error, in words.
pub(super) fn envelope(body: &[u8]) -> &'static str {
    let text = body.trim_ascii();
    if text.is_empty() {
        return "no body";
    }
    match serde_json::from_slice::<Value>(text) {
        Ok(Value::Object(object)) => match object.get("error") {
            Some(Value::Object(error)) if error.contains_key("message") => "OpenAI's envelope",
            Some(Value::Object(_)) => "an error object without message",
            Some(Value::String(_)) => "error as text",
            _ if object.contains_key("message") => "a bare message",
            _ => "JSON of another form",
        },
        Ok(_) => "JSON of another form",
        Err(_) if text.starts_with(b"<") => "HTML",
        Err(_) => "plain text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_chunks() {
        check(r#"{"choices":[]}"#, First::Empty);
        check(r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, First::Role { null: false });
        check(
            r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}"#,
            First::Role { null: true },
        );
        check(r#"{"choices":[{"delta":{"role":"assistant","content":"A"}}]}"#, First::Content);
        check(r#"{"type":"message_start"}"#, First::Other);
        check("ping", First::Other);

        #[track_caller]
        fn check(data: &str, expected: First) {
            let mut chunks = Chunks::default();
            chunks.look(data.as_bytes());
            chunks.look(br#"{"choices":[{"delta":{"content":"later"}}]}"#);
            assert_eq!(chunks.first, Some(expected), "{data}");
        }
    }

    #[test]
    fn forms_of_tool_calls() {
        check(
            &[
                r#"{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}"#,
                r#"{"index":0,"function":{"arguments":"{}"}}"#,
            ],
            &[],
        );
        check(&[r#"{"id":"c","type":"function","function":{"name":"f"}}"#], &["without index"]);
        check(
            &[
                r#"{"index":0,"id":"c","function":{"name":"f","arguments":{}}}"#,
                r#"{"index":0,"id":"","function":null}"#,
            ],
            &["without type", "with an empty id", "arguments as an object", "function null"],
        );

        #[track_caller]
        fn check(fragments: &[&str], expected: &[&str]) {
            let mut chunks = Chunks::default();
            for fragment in fragments {
                let chunk = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{fragment}]}}}}]}}"#);
                chunks.look(chunk.as_bytes());
            }
            assert_eq!(chunks.tools.parts as usize, fragments.len());
            assert_eq!(chunks.tools.faults(), expected, "{fragments:?}");
        }
    }

    #[test]
    fn envelopes() {
        for (body, expected) in [
            ("", "no body"),
            (r#"{"error":{"message":"x"}}"#, "OpenAI's envelope"),
            (r#"{"error":{"code":1}}"#, "an error object without message"),
            (r#"{"error":"x"}"#, "error as text"),
            (r#"{"message":"x"}"#, "a bare message"),
            ("[1]", "JSON of another form"),
            ("<html>", "HTML"),
            ("nope", "plain text"),
        ] {
            assert_eq!(envelope(body.as_bytes()), expected, "{body}");
        }
    }
}
