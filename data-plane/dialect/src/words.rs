//! Answers in the gateway's own words, as if a model had given them.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};
use sluicegate_model::Usage;

use crate::{
    call::{Call, Endpoint},
    chat::{
        Choice, Chunks, Reply,
        reply::{new_id, now_s},
    },
    extension,
    openai_chat::restream,
    sse::write_event,
};

/// Most choices that an answer has, as many as OpenAI gives.
const MOST_CHOICES: u64 = 128;

/// The answer to a call that says this text, uses nothing, and has these members in its extension: a
/// whole one, or the events of a stream, as the call wants it. `None`: it asks for no text.
pub fn answer(call: &Call, text: &str, members: &Map<String, Value>) -> Option<Bytes> {
    match call.endpoint {
        Endpoint::Chat if call.stream => chat_events(call, text, members),
        Endpoint::Chat => Some(extension::into_answer(&chat(call, text), members)),
        Endpoint::Completions => completion(call, text, members),
        Endpoint::Embeddings => None,
    }
}

fn chat(call: &Call, text: &str) -> Bytes {
    let choice =
        || Choice { content: Some(text.to_owned()), finish: Some("stop"), ..Choice::default() };
    let choices = (0..count(call)).map(|_| choice()).collect();
    let usage = Some(Usage::default());
    Reply { choices, usage, ..Reply::default() }.into_answer(call).body
}

fn chat_events(call: &Call, text: &str, members: &Map<String, Value>) -> Option<Bytes> {
    let mut chunks = Chunks::new(call);
    for choice in 0..usize::try_from(count(call)).unwrap_or(1) {
        chunks.begin(choice);
        chunks.text(choice, text);
        chunks.finish(choice, "stop");
    }
    chunks.usage = Some(Usage::default());
    done(chunks.tail()?, members)
}

fn completion(call: &Call, text: &str, members: &Map<String, Value>) -> Option<Bytes> {
    let choice =
        |index| json!({ "index": index, "text": text, "logprobs": null, "finish_reason": "stop" });
    let body = json!({
        "id": new_id().replacen("chatcmpl", "cmpl", 1),
        "object": "text_completion",
        "created": now_s(),
        "model": call.model,
        "choices": (0..count(call)).map(choice).collect::<Vec<_>>(),
        "usage": { "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 },
    });
    let body = Bytes::from(body.to_string());
    if !call.stream {
        return Some(extension::into_answer(&body, members));
    }
    let with_usage = call.stream_options.wants_usage();
    let events = restream::events(call.endpoint, &body, with_usage)?;
    done(events.concat().into(), members)
}

fn done(events: Bytes, members: &Map<String, Value>) -> Option<Bytes> {
    let mut out = BytesMut::from(extension::into_events(&events, members)?);
    out.extend_from_slice(&write_event(None, b"[DONE]"));
    Some(out.freeze())
}

fn count(call: &Call) -> u64 {
    call.choices.clamp(1, MOST_CHOICES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(endpoint: Endpoint, body: &Value) -> Call {
        Call::parse(endpoint, body.to_string().into()).unwrap()
    }

    fn members() -> Map<String, Value> {
        json!({ "status": "degraded" }).as_object().cloned().unwrap()
    }

    /// The data of each event; the last one is the terminal one.
    fn events(bytes: &Bytes) -> Vec<Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        let data = text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
        let data: Vec<_> = data.collect();
        let (last, chunks) = data.split_last().unwrap();
        assert_eq!(*last, "[DONE]");
        chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    }

    #[test]
    fn b2_a_whole_answer_in_words_of_our_own() {
        let asked = json!({ "model": "m\"", "messages": [], "n": 2 });
        let body = answer(&call(Endpoint::Chat, &asked), "Later, \"please\".", &members()).unwrap();
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&value["object"], &value["model"]), (&json!("chat.completion"), &json!("m\"")));
        assert_eq!(value["sluicegate"], json!({ "status": "degraded" }));
        assert_eq!(value["choices"].as_array().map(Vec::len), Some(2));
        let choice = &value["choices"][1];
        assert_eq!(choice["message"]["content"], "Later, \"please\".");
        assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(1), &json!("stop")));
        assert_eq!(value["usage"]["total_tokens"], 0);
        let asked = json!({ "model": "m", "prompt": "p" });
        let body = answer(&call(Endpoint::Completions, &asked), "Later.", &members()).unwrap();
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&value["object"], &value["choices"][0]["text"]),
            (&json!("text_completion"), &json!("Later."))
        );
        assert_eq!(value["sluicegate"]["status"], "degraded");
        let asked = json!({ "model": "m", "input": "p" });
        assert_eq!(answer(&call(Endpoint::Embeddings, &asked), "Later.", &members()), None);
    }

    #[test]
    fn b2_a_stream_in_words_of_our_own() {
        for with_usage in [false, true] {
            let asked = json!({
                "model": "m", "messages": [], "stream": true,
                "stream_options": { "include_usage": with_usage },
            });
            let bytes = answer(&call(Endpoint::Chat, &asked), "Later.", &members()).unwrap();
            let events = events(&bytes);
            assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
            assert_eq!(events[0]["sluicegate"]["status"], "degraded");
            assert_eq!(events[1]["choices"][0]["delta"]["content"], "Later.");
            assert_eq!(events[2]["choices"][0]["finish_reason"], "stop");
            assert_eq!(events.len(), 3 + usize::from(with_usage));
            if with_usage {
                assert_eq!(
                    (&events[3]["choices"], &events[3]["usage"]["total_tokens"]),
                    (&json!([]), &json!(0))
                );
            }
            assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
            let asked = json!({ "model": "m", "prompt": ["p", "q"], "stream": true, "stream_options": { "include_usage": with_usage } });
            let bytes = answer(&call(Endpoint::Completions, &asked), "Later.", &members()).unwrap();
            let events = self::events(&bytes);
            assert_eq!(events[0]["choices"][0]["text"], "Later.");
            assert_eq!(events[3]["choices"][0]["finish_reason"], "stop");
            assert_eq!(
                (events.len(), &events[0]["sluicegate"]["status"]),
                (4 + usize::from(with_usage), &json!("degraded"))
            );
        }
    }

    #[test]
    fn b2_absurd_numbers_of_choices_are_bounded() {
        let asked = json!({ "model": "m", "messages": [], "n": u64::MAX });
        let body = answer(&call(Endpoint::Chat, &asked), "x", &members()).unwrap();
        assert!(body.len() < 100_000, "{}", body.len());
    }
}
