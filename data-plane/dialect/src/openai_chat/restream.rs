//! A whole answer as a stream, for a caller that asked for one from a server that cannot.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{call::Endpoint, sse::write_event};

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    logprobs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

/// A message's members in order, values as they are spelt.
type Message<'a> = std::collections::BTreeMap<&'a str, &'a RawValue>;

/// The events of the answer, without the terminal one; `None` when it has not the expected shape.
pub(super) fn events(endpoint: Endpoint, body: &Bytes, with_usage: bool) -> Option<Vec<Bytes>> {
    let whole: Whole<'_> = serde_json::from_slice(body).ok()?;
    let object = match endpoint {
        Endpoint::Chat => "chat.completion.chunk",
        Endpoint::Completions => "text_completion",
        Endpoint::Embeddings => return None,
    };
    let raw = |value: Option<&RawValue>| value.map_or("null", RawValue::get).to_owned();
    let head = format!(
        "\"id\":{},\"object\":\"{object}\",\"created\":{},\"model\":{}",
        raw(whole.id),
        raw(whole.created),
        raw(whole.model),
    );
    let mut events = Vec::new();
    for choice in &whole.choices {
        let content = match (&choice.message, choice.text) {
            (Some(message), _) => format!("\"delta\":{}", delta(message)?),
            (None, text) => format!("\"text\":{}", raw(text)),
        };
        let index = choice.index;
        let logprobs = raw(choice.logprobs);
        let event = format!(
            "{{{head},\"choices\":[{{\"index\":{index},{content},\"logprobs\":{logprobs},\"finish_reason\":null}}]}}"
        );
        events.push(write_event(None, event.as_bytes()));
        let end = match endpoint {
            Endpoint::Chat => "\"delta\":{}",
            Endpoint::Completions | Endpoint::Embeddings => "\"text\":\"\"",
        };
        let reason = raw(choice.finish_reason);
        let event = format!(
            "{{{head},\"choices\":[{{\"index\":{index},{end},\"finish_reason\":{reason}}}]}}"
        );
        events.push(write_event(None, event.as_bytes()));
    }
    if let (true, Some(usage)) = (with_usage, whole.usage) {
        let event = format!("{{{head},\"choices\":[],\"usage\":{}}}", usage.get());
        events.push(write_event(None, event.as_bytes()));
    }
    Some(events)
}

/// A message as a delta: the same members, with an index for each tool call.
fn delta(message: &Message<'_>) -> Option<String> {
    let mut members = Vec::with_capacity(message.len());
    for (name, value) in message {
        let value = match *name {
            "tool_calls" if value.get().starts_with('[') => tool_calls(value)?,
            _ => value.get().to_owned(),
        };
        members.push(format!("{}:{value}", serde_json::to_string(name).ok()?));
    }
    Some(format!("{{{}}}", members.join(",")))
}

fn tool_calls(calls: &RawValue) -> Option<String> {
    let calls: Vec<&RawValue> = serde_json::from_str(calls.get()).ok()?;
    let indexed = calls.iter().enumerate().map(|(index, call)| {
        let members = call.get().strip_prefix('{')?.trim_start();
        let has_index = serde_json::from_str::<Message<'_>>(call.get()).ok()?.contains_key("index");
        Some(match (has_index, members) {
            (true, _) => call.get().to_owned(),
            (false, "}") => format!("{{\"index\":{index}}}"),
            (false, members) => format!("{{\"index\":{index},{members}"),
        })
    });
    Some(format!("[{}]", indexed.collect::<Option<Vec<_>>>()?.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tools_and_usage_survive() {
        let body = Bytes::from_static(br#"{"id":"c1","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"n\":12345678901234567890}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7}}"#);
        let events = events(Endpoint::Chat, &body, true).unwrap();
        assert_eq!(events.len(), 3);
        let first = std::str::from_utf8(&events[0]).unwrap();
        assert!(
            first.starts_with("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\""),
            "{first}"
        );
        assert!(first.contains(r#""tool_calls":[{"index":0,"id":"t""#), "{first}");
        assert!(first.contains("12345678901234567890"));
        assert!(
            std::str::from_utf8(&events[1]).unwrap().contains(r#""finish_reason":"tool_calls""#)
        );
        for event in &events {
            let json = event.strip_prefix(b"data: ").unwrap();
            serde_json::from_slice::<serde_json::Value>(json).unwrap();
        }
    }

    #[test]
    fn other_shapes_are_none() {
        assert!(events(Endpoint::Chat, &Bytes::from_static(b"{}"), false).is_none());
        assert!(
            events(Endpoint::Embeddings, &Bytes::from_static(b"{\"choices\":[]}"), false).is_none()
        );
    }
}
