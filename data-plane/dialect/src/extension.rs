//! What the gateway says of an answer, within it: members of an object of its own at the top, which
//! OpenAI's clients take along or leave aside.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::{
    json::{JsonError, Kind, Scanner},
    splice::Splices,
    sse::Framer,
};

/// Name of the object.
pub const NAME: &str = "sluicegate";

/// The answer with these members in its extension; every other byte stays. One that an upstream gave
/// keeps what it says beside them. What is no object stays as it is.
pub fn into_answer(body: &Bytes, members: &Map<String, Value>) -> Bytes {
    extended(body, members).unwrap_or_else(|| body.clone())
}

/// The events with these members in the extension of the first that holds an object; `None`: none
/// does.
pub fn into_events(events: &Bytes, members: &Map<String, Value>) -> Option<Bytes> {
    let mut framer = Framer::with_limit(usize::MAX);
    framer.push(events.clone());
    let mut out = BytesMut::with_capacity(events.len() + 256);
    let mut at = 0;
    while let Ok(Some(frame)) = framer.next_frame() {
        at += frame.raw().len();
        let Some(data) = frame.data().and_then(|data| extended(&data, members)) else {
            out.extend_from_slice(frame.raw());
            continue;
        };
        out.extend_from_slice(&frame.with_data(&data));
        out.extend_from_slice(events.get(at..)?);
        return Some(out.freeze());
    }
    None
}

fn extended(body: &Bytes, members: &Map<String, Value>) -> Option<Bytes> {
    let mut scanner = Scanner::lenient(body);
    if scanner.kind().ok()? != Kind::Object {
        return None;
    }
    let (mut present, mut is_empty) = (None, true);
    let object = scanner.object(|scanner, name| {
        is_empty = false;
        if name.is(NAME) {
            present = Some(inside(scanner)?);
            return Ok(());
        }
        scanner.skip().map(drop)
    });
    let object = object.ok()?;
    let text = serde_json::to_string(members).ok()?;
    let mut splices = Splices::default();
    match present {
        // Of two members of one name the later holds, for those who read.
        Some((span, Some(1..))) => {
            let more = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'))?;
            splices.replace(span.end - 1..span.end - 1, format!(",{more}"));
        }
        Some((span, _)) => splices.replace(span, text),
        None => {
            let at = object.start + 1;
            let comma = if is_empty { "" } else { "," };
            splices.replace(at..at, format!("\"{NAME}\":{text}{comma}"));
        }
    }
    Some(splices.apply(body))
}

/// Where a value stands, and how many members it has if it is an object.
fn inside(scanner: &mut Scanner<'_>) -> Result<(std::ops::Range<usize>, Option<usize>), JsonError> {
    if scanner.kind()? != Kind::Object {
        return Ok((scanner.skip()?, None));
    }
    let mut count = 0;
    let span = scanner.object(|scanner, _| {
        count += 1;
        scanner.skip().map(drop)
    })?;
    Ok((span, Some(count)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn members() -> Map<String, Value> {
        json!({ "status": "degraded" }).as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn b5_members_are_put_in_and_the_rest_stays() {
        for (body, expected) in [
            (r#"{"id":"c"}"#, r#"{"sluicegate":{"status":"degraded"},"id":"c"}"#),
            ("{}", r#"{"sluicegate":{"status":"degraded"}}"#),
            (r#" { "n" : 1.50 } "#, r#" {"sluicegate":{"status":"degraded"}, "n" : 1.50 } "#),
            (
                r#"{"sluicegate":{"a":1},"id":"c"}"#,
                r#"{"sluicegate":{"a":1,"status":"degraded"},"id":"c"}"#,
            ),
            (r#"{"sluicegate":{},"id":"c"}"#, r#"{"sluicegate":{"status":"degraded"},"id":"c"}"#),
            (r#"{"id":"c","sluicegate":null}"#, r#"{"id":"c","sluicegate":{"status":"degraded"}}"#),
            ("[1]", "[1]"),
            ("nothing", "nothing"),
            ("", ""),
        ] {
            let body = Bytes::from_static(body.as_bytes());
            assert_eq!(into_answer(&body, &members()), expected);
        }
    }

    #[test]
    fn b5_the_first_event_that_can_takes_them() {
        let of = |events: &'static str| {
            let told = into_events(&Bytes::from_static(events.as_bytes()), &members());
            told.map(|told| String::from_utf8(told.to_vec()).unwrap())
        };
        let told = r#"data: {"sluicegate":{"status":"degraded"},"id":1}"#;
        let rest = "data: {\"id\":2}\n\ndata: [DONE]\n\n";
        assert_eq!(
            of("data: {\"id\":1}\n\ndata: {\"id\":2}\n\ndata: [DONE]\n\n"),
            Some(format!("{told}\n\n{rest}"))
        );
        assert_eq!(
            of(": ping\n\ndata: [1]\n\ndata: {\"id\":1}\n\n"),
            Some(format!(": ping\n\ndata: [1]\n\n{told}\n\n"))
        );
        assert_eq!(of("data: [DONE]\n\n"), None);
        assert_eq!(of(": ping\n\n"), None);
        assert_eq!(of(""), None);
    }

    proptest! {
        #[test]
        fn b5_an_answer_says_the_same_and_that(names in prop::collection::vec("[a-z]{1,4}", 0..5)) {
            let object: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
            let body = Bytes::from(json!(object).to_string());
            let told: Map<String, Value> = serde_json::from_slice(&into_answer(&body, &members())).unwrap();
            let mut expected = object;
            expected.insert(NAME.into(), json!(members()));
            prop_assert_eq!(told, expected);
        }
    }
}
