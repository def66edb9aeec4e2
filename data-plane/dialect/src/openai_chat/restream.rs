//! A whole answer as a stream, for a caller that asked for one from a server that cannot.
//!
//! Values are cut out and put together anew, so that they stay as they are spelt, and members that
//! are not known here come along.

use bytes::Bytes;

use crate::{
    call::Endpoint,
    json::{JsonError, Kind, Scanner},
    sse::write_event,
};

/// The events of the answer, without the terminal one; `None` when it has not the expected shape.
pub fn events(endpoint: Endpoint, body: &Bytes, with_usage: bool) -> Option<Vec<Bytes>> {
    let text = std::str::from_utf8(body).ok()?;
    let object = match endpoint {
        Endpoint::Chat => "chat.completion.chunk",
        Endpoint::Completions => "text_completion",
        Endpoint::Embeddings => return None,
    };
    let mut head = format!("\"object\":\"{object}\"");
    let mut choices = None;
    let mut usage = None;
    for (name, value) in members(text)? {
        match name {
            "\"object\"" => {}
            "\"choices\"" => choices = Some(value),
            "\"usage\"" => usage = Some(value),
            _ => push(&mut head, name, value),
        }
    }
    let mut events = Vec::new();
    let mut add =
        |rest: String| events.push(write_event(None, format!("{{{head},{rest}}}").as_bytes()));
    for (position, choice) in elements(choices?)?.into_iter().enumerate() {
        let (content, end) = halves(endpoint, position, choice)?;
        add(format!("\"choices\":[{{{content}}}]"));
        add(format!("\"choices\":[{{{end}}}]"));
    }
    if let (true, Some(usage)) = (with_usage, usage) {
        add(format!("\"choices\":[],\"usage\":{usage}"));
    }
    Some(events)
}

/// The members of a choice as they are in the chunk that says it, and in the one that ends it.
fn halves(endpoint: Endpoint, position: usize, choice: &str) -> Option<(String, String)> {
    let mut index = position.to_string();
    let mut content = String::new();
    let mut reason = "null";
    for (name, value) in members(choice)? {
        match name {
            "\"index\"" if value != "null" => index = value.to_owned(),
            "\"index\"" => {}
            "\"finish_reason\"" => reason = value,
            "\"message\"" => push(&mut content, "\"delta\"", &delta(value)?),
            _ => push(&mut content, name, value),
        }
    }
    let nothing = match endpoint {
        Endpoint::Chat => "\"delta\":{}",
        Endpoint::Completions | Endpoint::Embeddings => "\"text\":\"\"",
    };
    Some((
        format!("\"index\":{index},{content},\"finish_reason\":null"),
        format!("\"index\":{index},{nothing},\"finish_reason\":{reason}"),
    ))
}

/// A message as a delta: the same members, with an index for each tool call.
fn delta(message: &str) -> Option<String> {
    let mut inside = String::new();
    for (name, value) in members(message)? {
        if name == "\"tool_calls\"" && value.starts_with('[') {
            let calls: Option<Vec<_>> = elements(value)?
                .into_iter()
                .enumerate()
                .map(|(at, call)| indexed(at, call))
                .collect();
            push(&mut inside, name, &format!("[{}]", calls?.join(",")));
        } else {
            push(&mut inside, name, value);
        }
    }
    Some(format!("{{{inside}}}"))
}

fn indexed(position: usize, call: &str) -> Option<String> {
    let members = members(call)?;
    if members.iter().any(|(name, _)| *name == "\"index\"") {
        return Some(call.to_owned());
    }
    let mut inside = format!("\"index\":{position}");
    for (name, value) in members {
        push(&mut inside, name, value);
    }
    Some(format!("{{{inside}}}"))
}

fn push(object: &mut String, name: &str, value: &str) {
    if !object.is_empty() {
        object.push(',');
    }
    object.push_str(name);
    object.push(':');
    object.push_str(value);
}

/// Names, quotes included, and values of an object, as they are spelt. A name with escapes is one that
/// is not known here.
fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::lenient(text.as_bytes());
    if scanner.kind().ok()? != Kind::Object {
        return None;
    }
    let visit = |scanner: &mut Scanner<'_>, name: crate::json::Str<'_>| -> Result<(), JsonError> {
        let name = scanner.span_of(name);
        let value = scanner.skip()?;
        found.push((name, value));
        Ok(())
    };
    scanner.object(visit).ok()?;
    found.into_iter().map(|(name, value)| Some((text.get(name)?, text.get(value)?))).collect()
}

/// The elements of an array, as they are spelt.
fn elements(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::lenient(text.as_bytes());
    if scanner.kind().ok()? != Kind::Array {
        return None;
    }
    scanner
        .array(|scanner, _| {
            found.push(scanner.skip()?);
            Ok(())
        })
        .ok()?;
    found.into_iter().map(|span| text.get(span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_survives_as_it_is_spelt() {
        let body = Bytes::from_static(
            br#"{"id":"c1","object":"chat.completion","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"A","zeta":1.50,"alpha":2,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"n\":12345678901234567890}"}}]},"content_filter_results":{},"finish_reason":"tool_calls"}],"citations":["x"],"usage":{"prompt_tokens":7}}"#,
        );
        let events = events(Endpoint::Chat, &body, true).unwrap();
        let texts: Vec<_> =
            events.iter().map(|event| std::str::from_utf8(event).unwrap()).collect();
        assert_eq!(
            texts[0],
            "data: {\"object\":\"chat.completion.chunk\",\"id\":\"c1\",\"created\":1,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"citations\":[\"x\"],\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"A\",\"zeta\":1.50,\"alpha\":2,\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":12345678901234567890}\"}}]},\"content_filter_results\":{},\"finish_reason\":null}]}\n\n"
        );
        assert!(
            texts[1].contains(
                "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]"
            )
        );
        assert!(texts[2].contains("\"choices\":[],\"usage\":{\"prompt_tokens\":7}"));
        assert_eq!(texts.len(), 3);
    }

    #[test]
    fn odd_shapes() {
        let body = Bytes::from_static(
            br#"{"choices":[{"index":null,"text":"A","finish_reason":"stop"}]}"#,
        );
        let events = events(Endpoint::Completions, &body, true).unwrap();
        assert!(std::str::from_utf8(&events[0]).unwrap().contains("\"index\":0,\"text\":\"A\""));
        assert!(super::events(Endpoint::Chat, &Bytes::from_static(b"{}"), false).is_none());
        let none = Bytes::from_static(b"{\"choices\":[]}");
        assert!(super::events(Endpoint::Embeddings, &none, false).is_none());
    }
}
