//! Usage for answers whose upstream reports none: an estimate that says it is one.

use bytes::Bytes;
use serde::Serialize;
use sluicegate_model::Usage;

use crate::{
    chat::reply::{BodyUsage, json, new_id, now_s},
    json::{Kind, Scanner},
    splice::Splices,
    sse::write_event,
};

#[derive(Serialize)]
struct Estimated {
    #[serde(flatten)]
    usage: BodyUsage,
    estimated: bool,
}

fn estimated(usage: Usage) -> Bytes {
    json(&Estimated { usage: usage.into(), estimated: true })
}

/// The answer with usage in it; every other byte stays.
pub fn into_answer(body: &Bytes, usage: Usage) -> Bytes {
    let mut scanner = Scanner::lenient(body);
    let mut present = None;
    let object = matches!(scanner.kind(), Ok(Kind::Object)).then(|| {
        scanner.object(|scanner, name| {
            let span = scanner.skip()?;
            if name.is("usage") {
                present = Some(span);
            }
            Ok(())
        })
    });
    let Some(Ok(object)) = object else { return body.clone() };
    let mut splices = Splices::default();
    match present {
        Some(span) => splices.replace(span, estimated(usage)),
        None => {
            let at = object.start + 1;
            let member = [b"\"usage\":".as_slice(), &estimated(usage), b","].concat();
            splices.replace(at..at, member);
        }
    }
    splices.apply(body)
}

/// The last chunk of a stream whose caller asked for usage.
pub fn chunk(model: &str, usage: Usage) -> Bytes {
    let model = serde_json::to_string(model).unwrap_or_default();
    let head = format!(
        "{{\"id\":\"{}\",\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{model},\"choices\":[],\"usage\":",
        new_id(),
        now_s()
    );
    write_event(None, &[head.as_bytes(), &estimated(usage), b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a16_usage_is_put_in_and_marked() {
        let usage = Usage { input: 7, output: 2, ..Usage::default() };
        let filled = |body: &'static str| {
            let body = into_answer(&Bytes::from_static(body.as_bytes()), usage);
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()
        };
        for body in [r#"{"id":"c","choices":[]}"#, r#"{"usage":null,"id":"c"}"#] {
            let value = filled(body);
            assert_eq!(value["id"], "c");
            assert_eq!(value["usage"]["total_tokens"], 9);
            assert_eq!(value["usage"]["estimated"], true);
        }
        let chunk = chunk("m\"", usage);
        let data = chunk.strip_prefix(b"data: ").unwrap();
        let value: serde_json::Value = serde_json::from_slice(data).unwrap();
        assert_eq!((&value["model"], &value["usage"]["prompt_tokens"]), (&"m\"".into(), &7.into()));
    }
}
