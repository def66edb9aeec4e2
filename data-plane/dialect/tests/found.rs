//! Faults that were found in formats, each as a test.

#![allow(clippy::unwrap_used, reason = "tests fail where they panic")]

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use sluicegate_dialect::{
    Call, Destination, Endpoint, Sent, StreamEvent, StreamReader, Unfit, UpstreamCall, registry,
};
use sluicegate_model::{Outcome, Profile};

fn call(body: &Value) -> Call {
    Call::parse(Endpoint::Chat, body.to_string().into()).unwrap()
}

fn sent(dialect: &str, body: &str) -> Result<UpstreamCall, Unfit> {
    let call = Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let to = Destination { model: "m", profile: &Profile::default() };
    registry::find(dialect, "").unwrap().request(&call, &to)
}

/// Reads a stream; the reader, and its failure if it has one.
fn streamed(dialect: &str, stream: &str) -> (Box<dyn StreamReader>, Option<Outcome>, String) {
    let call = call(
        &json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] }),
    );
    let dialect = registry::find(dialect, "").unwrap();
    let mut reader = dialect.stream(&call, &Sent::default(), &HeaderMap::new());
    let mut framer = dialect.framing().framer();
    framer.push(Bytes::copy_from_slice(stream.as_bytes()));
    let (mut failed, mut said) = (None, String::new());
    while let Some(frame) = framer.next_frame().unwrap() {
        match reader.read(&frame) {
            StreamEvent::Failed(fault) => failed = Some(fault.outcome),
            StreamEvent::Content(bytes) | StreamEvent::Preamble(bytes) => {
                said.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            StreamEvent::Hidden | StreamEvent::Done => {}
        }
    }
    (reader, failed, said)
}

/// Every format that reads a request whole.
const TRANSLATED: [&str; 5] =
    ["anthropic-messages", "gemini-generate", "dashscope-native", "ernie-v1", "bedrock-converse"];

#[test]
fn c1_members_that_are_given_twice_are_refused_everywhere() {
    for dialect in TRANSLATED {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":0.1,"temperature":0.9}"#;
        let unfit = sent(dialect, body).unwrap_err();
        assert_eq!(unfit.param, "temperature", "{dialect}");
        let body = r#"{"model":"m","messages":[{"role":"user","content":"a"}],"messages":[]}"#;
        assert!(sent(dialect, body).is_err(), "{dialect}");
    }
}

#[test]
fn c1_an_empty_wish_for_search_is_a_wish() {
    for dialect in ["anthropic-messages", "gemini-generate", "bedrock-converse"] {
        let body =
            r#"{"model":"m","messages":[{"role":"user","content":"a"}],"web_search_options":{}}"#;
        assert_eq!(sent(dialect, body).unwrap_err().code, "unsupported_parameter", "{dialect}");
    }
}

#[test]
fn c1_a_tools_result_is_named_after_the_call_before_it() {
    let turn = |name: &str, result: &str| {
        [
            json!({ "role": "assistant", "content": null, "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": name, "arguments": "{}" } } ] }),
            json!({ "role": "tool", "tool_call_id": "a", "content": result }),
        ]
    };
    let mut messages = vec![json!({ "role": "user", "content": "go" })];
    messages.extend(turn("f", "one"));
    messages.extend(turn("h", "two"));
    let body = json!({ "model": "m", "messages": messages });
    let sent = sent("gemini-generate", &body.to_string()).unwrap();
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    let parts =
        body["contents"].as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    let names: Vec<_> =
        parts.filter_map(|part| part["functionResponse"]["name"].as_str()).collect();
    assert_eq!(names, ["f", "h"]);
}

/// Names of many files, and many tool turns, take time in proportion.
#[test]
fn c1_many_parts_are_read_in_no_time() {
    let file = json!({ "type": "file", "file": {
        "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA" } });
    let body =
        json!({ "model": "m", "messages": [{ "role": "user", "content": vec![file; 4000] }] });
    let most = std::time::Duration::from_secs(10);
    let elapsed = stopwatch();
    let body = sent("bedrock-converse", &body.to_string()).unwrap().body;
    let names: std::collections::HashSet<String> = serde_json::from_slice::<Value>(&body).unwrap()
        ["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["document"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 4000, "each has a name of its own");
    let calls: Vec<_> = (0..2000)
        .map(|n| {
            json!({ "id": format!("c{n}"), "type": "function",
        "function": { "name": "f", "arguments": "{}" } })
        })
        .collect();
    let body = json!({ "model": "m", "messages": [{ "role": "assistant", "tool_calls": calls }] });
    for dialect in TRANSLATED {
        let unfit = sent(dialect, &body.to_string()).unwrap_err();
        assert_eq!(unfit.param, "messages[0].tool_calls", "{dialect}");
    }
    assert!(elapsed() < most);
}

/// A clock for a bound that only a cubic algorithm misses.
#[expect(clippy::disallowed_types, reason = "no runtime whose clock could be paused")]
fn stopwatch() -> impl Fn() -> std::time::Duration {
    let begun = std::time::Instant::now();
    move || begun.elapsed()
}

#[test]
fn c3_a_message_that_stops_without_a_reason_is_no_answer() {
    let (reader, failed, _) = streamed(
        "anthropic-messages",
        concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"i\",\"usage\":{\"input_tokens\":34824,\"output_tokens\":1}}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"A\"}}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
    );
    assert_eq!(failed, Some(Outcome::StreamInterrupted));
    let usage = reader.usage().unwrap();
    assert_eq!((usage.input, usage.output), (34824, 0), "what is known is kept");
}

#[test]
fn c3_pieces_that_extend_each_other_are_pieces() {
    let event = |content: &str, finish: &str| {
        format!(
            "data:{{\"output\":{{\"choices\":[{{\"message\":{{\"role\":\"assistant\",\"content\":\"{content}\"}},\"finish_reason\":\"{finish}\"}}]}},\"usage\":{{\"input_tokens\":1,\"output_tokens\":3}}}}\n\n"
        )
    };
    let stream =
        [event("1", "null"), event("10", "null"), event("100", "stop"), "data:[DONE]\n\n".into()];
    let (reader, failed, said) = streamed("dashscope-native", &stream.concat());
    assert_eq!(failed, None);
    assert!(reader.complete());
    let pieces: Vec<_> =
        ["\"1\"", "\"10\"", "\"100\""].iter().filter(|piece| said.contains(**piece)).collect();
    assert_eq!(pieces.len(), 3, "{said}");
}

#[test]
fn a3_odd_usage_does_not_cost_the_answer() {
    let call = call(&json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }));
    for usage in [json!("x"), json!({ "inputTokens": -1, "outputTokens": 2.5 }), json!(7)] {
        let body = json!({ "output": { "message": { "content": [{ "text": "A" }] } },
            "stopReason": "end_turn", "usage": usage });
        let dialect = registry::find("bedrock-converse", "").unwrap();
        let answer = dialect.answer(&call, &HeaderMap::new(), &body.to_string().into());
        assert_eq!(answer.unwrap().finish_reason.as_deref(), Some("end_turn"), "{usage}");
        let body = json!({ "candidates": [{ "content": { "parts": [{ "text": "A" }] }, "finishReason": "STOP" }],
            "usageMetadata": usage });
        let dialect = registry::find("gemini-generate", "").unwrap();
        let answer = dialect.answer(&call, &HeaderMap::new(), &body.to_string().into());
        assert_eq!(answer.unwrap().finish_reason.as_deref(), Some("STOP"), "{usage}");
    }
}

/// Servers that cut texts by UTF-16 units write halves of characters; the rest of the answer is whole.
#[test]
fn c3_half_a_character_does_not_cost_the_answer() {
    const HALF: &str = r"A\ud83d";
    let whole = [
        (
            "anthropic-messages",
            format!(
                r#"{{"type":"message","content":[{{"type":"text","text":"{HALF}"}}],"stop_reason":"end_turn"}}"#
            ),
        ),
        (
            "gemini-generate",
            format!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{HALF}"}}]}},"finishReason":"STOP"}}]}}"#
            ),
        ),
        (
            "dashscope-native",
            format!(
                r#"{{"output":{{"choices":[{{"message":{{"role":"assistant","content":"{HALF}"}},"finish_reason":"stop"}}]}}}}"#
            ),
        ),
        (
            "ernie-v1",
            format!(r#"{{"result":"{HALF}","is_truncated":false,"finish_reason":"normal"}}"#),
        ),
        (
            "bedrock-converse",
            format!(
                r#"{{"output":{{"message":{{"content":[{{"text":"{HALF}"}}]}}}},"stopReason":"end_turn"}}"#
            ),
        ),
    ];
    let call = call(&json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }));
    for (name, body) in whole {
        let dialect = registry::find(name, "").unwrap();
        let answer = dialect.answer(&call, &HeaderMap::new(), &body.into()).unwrap();
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], "A\u{fffd}", "{name}");
    }
    let chunk = |text: &str, finish: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}{finish}}}]}}\n\n"
        )
    };
    let stream = chunk(HALF, "") + &chunk("B", ",\"finishReason\":\"STOP\"");
    let (reader, failed, said) = streamed("gemini-generate", &stream);
    assert!(failed.is_none() && reader.complete(), "{said}");
    assert!(said.contains("A\u{fffd}") || said.contains(r"A\ufffd"), "{said}");
}

#[test]
fn c5_a_model_without_embeddings_is_named() {
    let body = Bytes::from_static(br#"{"model":"m","input":"hi"}"#);
    let call = Call::parse(Endpoint::Embeddings, body).unwrap();
    let to = Destination {
        model: "eu.anthropic.claude-3-haiku-20240307-v1:0",
        profile: &Profile::default(),
    };
    let unfit = registry::find("bedrock-converse", "").unwrap().request(&call, &to).unwrap_err();
    assert_eq!((unfit.code, unfit.param.as_str()), ("unsupported_endpoint", "model"));
}
