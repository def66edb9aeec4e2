//! What the demo says: the same words for the same request.

use serde_json::{Map, Value, json};

use super::reply::Fault;

/// Words of a message that are echoed.
const ECHOED: usize = 60;

/// A finished answer, before it takes a wire form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Words with the spaces before them; a word counts as a token.
    pub(super) pieces: Vec<String>,
    pub(super) tool_call: Option<ToolCall>,
    pub(super) finish_reason: &'static str,
    pub(super) prompt_tokens: usize,
    pub(super) completion_tokens: usize,
}

/// A call of one of the caller's tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) name: String,
    /// An encoded JSON object.
    pub(super) arguments: String,
}

impl Answer {
    /// Answers text with text, of at most `max_tokens` words.
    pub(super) fn text(content: &str, prompt_tokens: usize, max_tokens: Option<u64>) -> Self {
        let mut pieces = words(content);
        let limit = max_tokens.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
        let cut = pieces.len() > limit;
        pieces.truncate(limit);
        Self {
            completion_tokens: pieces.len(),
            pieces,
            tool_call: None,
            finish_reason: if cut { "length" } else { "stop" },
            prompt_tokens,
        }
    }

    /// Answers with a tool call.
    pub(super) fn call(call: ToolCall, prompt_tokens: usize) -> Self {
        Self {
            pieces: Vec::new(),
            completion_tokens: 1 + words(&call.arguments).len(),
            tool_call: Some(call),
            finish_reason: "tool_calls",
            prompt_tokens,
        }
    }

    /// The words in one text.
    pub(super) fn content(&self) -> String {
        self.pieces.concat()
    }

    /// Usage in OpenAI's form.
    pub(super) fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        })
    }
}

/// What is said to someone who said `text`.
pub(super) fn echo(text: &str) -> String {
    let mut said: Vec<_> = text.split_whitespace().collect();
    let shortened = said.len() > ECHOED;
    said.truncate(ECHOED);
    if said.is_empty() {
        return "You said nothing. This is the demo upstream: it has no model, it echoes."
            .to_owned();
    }
    let end = if shortened { " ..." } else { "" };
    format!(
        "You said: {}{end}\nThis is the demo upstream: it has no model, it echoes.",
        said.join(" ")
    )
}

/// Splits text into words, each with the white space before it. Together they are the text.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut inside = false;
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if !(inside && c.is_whitespace()) => word.push(c),
            _ => words.push(c.to_string()),
        }
        inside = !c.is_whitespace();
    }
    words
}

/// Text of a message's content: a string, or the text parts of a list.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// The first limit among `names` that a request gives.
///
/// # Errors
/// When it is no positive whole number.
pub(super) fn limit(request: &Value, names: &[&'static str]) -> Result<Option<u64>, Fault> {
    for name in names {
        match request.get(name) {
            None | Some(Value::Null) => {}
            Some(value) => {
                return match value.as_u64() {
                    Some(limit) if limit > 0 => Ok(Some(limit)),
                    _ => Err(Fault::bad(format!("'{name}' must be a number above 0"), Some(name))),
                };
            }
        }
    }
    Ok(None)
}

/// The tool that the request demands, or that `text` asks for with "call NAME", with the arguments
/// it requires.
pub(super) fn wanted_call(request: &Value, text: &str) -> Option<ToolCall> {
    let functions = || {
        let tools = request.get("tools").and_then(Value::as_array);
        tools.into_iter().flatten().filter_map(|tool| tool.get("function"))
    };
    let named = |wanted: &str| functions().find(|function| name(function) == Some(wanted));
    let choice = request.get("tool_choice");
    let function = match choice.and_then(Value::as_str) {
        Some("none") => None,
        Some("required") => spoken(text).find_map(named).or_else(|| functions().next()),
        _ => match choice.and_then(|choice| choice.pointer("/function/name")) {
            Some(demanded) => named(demanded.as_str()?),
            None => spoken(text).find_map(named),
        },
    }?;
    let arguments = function.get("parameters").map_or_else(|| json!({}), sample);
    Some(ToolCall { name: name(function)?.to_owned(), arguments: arguments.to_string() })
}

fn name(function: &Value) -> Option<&str> {
    function.get("name").and_then(Value::as_str)
}

/// The words after each "call", without punctuation around them.
fn spoken(text: &str) -> impl Iterator<Item = &str> {
    let next = text.split_whitespace().skip(1);
    text.split_whitespace()
        .zip(next)
        .filter(|(word, _)| word.eq_ignore_ascii_case("call"))
        .map(|(_, name)| name.trim_matches(|c: char| !c.is_alphanumeric() && c != '_' && c != '-'))
}

/// A value that a JSON Schema allows, as far as simple schemas go.
fn sample(schema: &Value) -> Value {
    let first = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first());
    if let Some(value) = first.or_else(|| schema.get("default")) {
        return value.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "demo".into(),
        Some("integer" | "number") => 1.into(),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array);
            let mut object = Map::new();
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                let member = schema.get("properties").and_then(|members| members.get(name));
                object.insert(name.to_owned(), member.map_or(Value::Null, sample));
            }
            object.into()
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_to_the_text() {
        check("", &[]);
        check("one", &["one"]);
        check("one  two\nthree ", &["one", "  two", "\nthree", " "]);
        check(" lead", &[" lead"]);

        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            assert_eq!(words(text), expected);
            assert_eq!(words(text).concat(), text);
        }
    }

    #[test]
    fn limits_cut_words() {
        let answer = Answer::text("a b c", 4, Some(2));
        assert_eq!((answer.content().as_str(), answer.finish_reason), ("a b", "length"));
        assert_eq!(answer.usage()["total_tokens"], 6);
        let answer = Answer::text("a b c", 4, Some(3));
        assert_eq!(answer.finish_reason, "stop");
        assert!(limit(&json!({ "max_tokens": 0 }), &["max_tokens"]).is_err());
        let both = json!({ "max_completion_tokens": null, "max_tokens": 5 });
        assert_eq!(limit(&both, &["max_completion_tokens", "max_tokens"]).unwrap(), Some(5));
    }

    #[test]
    fn tools_are_called_by_name() {
        let request = json!({ "tools": [{ "type": "function", "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "required": ["city", "days"],
                "properties": {
                    "city": { "type": "string" },
                    "days": { "type": "integer" },
                    "unit": { "type": "string" },
                },
            },
        } }] });
        let call = wanted_call(&request, "Please call get_weather.").unwrap();
        assert_eq!(call.arguments, r#"{"city":"demo","days":1}"#);
        assert_eq!(wanted_call(&request, "call other"), None);
        assert_eq!(wanted_call(&request, "get_weather"), None);
        assert_eq!(wanted_call(&json!({}), "call get_weather"), None);

        let mut request = request;
        request["tool_choice"] = "required".into();
        assert!(wanted_call(&request, "hello").is_some());
        request["tool_choice"] =
            json!({ "type": "function", "function": { "name": "get_weather" } });
        assert!(wanted_call(&request, "hello").is_some());
        request["tool_choice"] = "none".into();
        assert_eq!(wanted_call(&request, "call get_weather"), None);
    }
}
