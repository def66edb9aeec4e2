mod refusals;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use proptest::prelude::*;
use sluicegate_model::{Outcome, Profile, secret::Secret};

use super::*;
use crate::{dialect::StreamEvent, frame::Framing};

fn call(members: &str) -> Call {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}]{members}}}"#);
    Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap()
}

fn sent(call: &Call, model: &str) -> Result<UpstreamCall, Unfit> {
    GeminiGenerate.request(call, &Destination { model, profile: &Profile::default() })
}

fn read(stream: &[u8]) -> Vec<StreamEvent> {
    let mut reader = GeminiGenerate.stream(&call(""), &Sent::default(), &HeaderMap::new());
    let mut framer = Framing::ServerSentEvents.framer();
    framer.push(Bytes::copy_from_slice(stream));
    let mut events = Vec::new();
    while let Ok(Some(frame)) = framer.next_frame() {
        events.push(reader.read(&frame));
    }
    events.extend(framer.finish().map(|frame| reader.read(&frame)));
    assert!(reader.complete() || !reader.whole());
    events
}

#[test]
fn c2_trap_6_a_blocked_prompt_is_a_200_without_candidates() {
    for body in [
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}"#,
        r#"{"promptFeedback":{"blockReason":"JAILBREAK"},"candidates":[]}"#,
    ] {
        let whole = Bytes::copy_from_slice(body.as_bytes());
        let fault = GeminiGenerate.answer(&call(""), &HeaderMap::new(), &whole).unwrap_err();
        assert_eq!(fault.outcome, Outcome::ContentFiltered);
        let events = read(format!("data: {body}\r\n\r\n").as_bytes());
        assert!(matches!(&events[..], [StreamEvent::Failed(fault)]
            if fault.outcome == Outcome::ContentFiltered));
    }
}

#[test]
fn c3_failures_in_disguise() {
    check("", Outcome::Timeout);
    check("<html>", Outcome::ProviderError);
    check("{}", Outcome::ProviderError);
    check(r#"{"candidates":[]}"#, Outcome::ProviderError);
    check(r#"{"candidates":7}"#, Outcome::ProviderError);
    check(r#"{"candidates":[{"finishReason":"OTHER"}]}"#, Outcome::ProviderError);
    check(r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#, Outcome::Overloaded);
    check(
        r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#,
        Outcome::RateLimited,
    );

    #[track_caller]
    fn check(body: &str, outcome: Outcome) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let fault = GeminiGenerate.answer(&call(""), &HeaderMap::new(), &body).unwrap_err();
        assert_eq!(fault.outcome, outcome, "{body:?}");
    }
}

#[test]
fn c3_errors_within_streams_are_errors_in_either_form() {
    let error = "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"m\",\n    \"status\": \"UNAVAILABLE\"\n  }\n}";
    let flat = error.replace('\n', "");
    for stream in [
        format!("data: {flat}\r\n\r\n"),
        format!("{error}\n"),
        format!("{}\r\n\r\n", error.replace('\n', "\r\n")),
        format!("[{error}]"),
        format!("data: {{\"event_type\":\"error\",{}\r\n\r\n", flat.trim_start_matches('{')),
    ] {
        let events = read(stream.as_bytes());
        assert!(
            matches!(&events[..], [StreamEvent::Failed(fault)] if fault.outcome == Outcome::Overloaded),
            "{stream}: {events:?}"
        );
    }
    assert!(matches!(&read(b"data: {oops\n\n")[..], [StreamEvent::Failed(_)]));
    assert!(matches!(
        &read(b": ping\n\ndata: {}\n\n")[..],
        [StreamEvent::Hidden, StreamEvent::Hidden]
    ));
}

#[test]
fn c1_a_silent_stop_is_a_failure_and_a_spoken_one_is_not() {
    let last = "data: {\"candidates\":[{\"finishReason\":\"OTHER\"}]}\r\n\r\n";
    let part = |thought: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"a\"{thought}}}]}}}}]}}\r\n\r\n{last}"
        )
    };
    assert!(matches!(&read(last.as_bytes())[..], [StreamEvent::Failed(_)]));
    let thought = read(part(",\"thought\":true").as_bytes());
    assert!(matches!(&thought[..], [StreamEvent::Content(_), StreamEvent::Failed(_)]));
    let spoken = read(part("").as_bytes());
    assert!(matches!(&spoken[..], [StreamEvent::Content(_), StreamEvent::Content(_)]));
}

#[test]
fn c1_effort_becomes_what_the_generation_knows() {
    check("gemini-2.5-flash", "none", r#"{"thinkingBudget":0}"#);
    check("gemini-2.5-flash", "medium", r#"{"thinkingBudget":8192,"includeThoughts":true}"#);
    check("gemini-2.5-flash-lite", "minimal", r#"{"thinkingBudget":512,"includeThoughts":true}"#);
    check("models/gemini-2.5-pro", "none", r#"{"thinkingBudget":128}"#);
    check("gemini-3-pro-preview", "medium", r#"{"thinkingLevel":"HIGH","includeThoughts":true}"#);
    check("gemini-3.1-pro-preview", "minimal", r#"{"thinkingLevel":"LOW","includeThoughts":true}"#);
    check("gemini-3-flash", "none", r#"{"thinkingLevel":"MINIMAL"}"#);
    check("gemini-flash-latest", "xhigh", r#"{"thinkingLevel":"HIGH","includeThoughts":true}"#);
    let unfit = sent(&call(r#","reasoning_effort":"huge""#), "gemini-3-flash").unwrap_err();
    assert_eq!((unfit.code, unfit.param.as_str()), ("invalid_value", "reasoning_effort"));
    let open = sent(&call(r#","reasoning_effort":"low""#), "gemma-3").unwrap();
    assert_eq!(open.dropped, ["reasoning_effort"]);

    #[track_caller]
    fn check(model: &str, effort: &str, expected: &str) {
        let sent = sent(&call(&format!(r#","reasoning_effort":"{effort}""#)), model).unwrap();
        let body = String::from_utf8_lossy(&sent.body).into_owned();
        assert!(body.contains(&format!(r#""thinkingConfig":{expected}"#)), "{body}");
    }
}

#[test]
fn c1_what_the_format_cannot_say_is_refused_where_it_stands() {
    check(r#","stop":["a","b","c","d","e","f"]"#, "unsupported_parameter", "stop");
    check(r#","modalities":["text","audio"]"#, "unsupported_parameter", "modalities");
    check(r#","functions":[{"name":"f"}]"#, "unsupported_parameter", "functions");
    check(
        r#","tools":[{"function":{"name":"f","parameters":true}}]"#,
        "invalid_value",
        "tools[0].function.parameters",
    );
    for (messages, code, param) in [
        (r#"{"role":"system","content":"a"}"#, "unsupported_parameter", "messages"),
        (r#"{"role":"user","content":""}"#, "invalid_value", "messages[0].content"),
        (
            r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,YQ=="}}]}"#,
            "unsupported_parameter",
            "messages[0].content",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"1","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,YQ=="}}]}"#,
            "unsupported_parameter",
            "messages[1].content",
        ),
    ] {
        let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let call = Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap();
        let unfit = sent(&call, "gemini-2.5-pro").unwrap_err();
        assert_eq!((unfit.code, unfit.param.as_str()), (code, param), "{messages}");
    }

    #[track_caller]
    fn check(members: &str, code: &str, param: &str) {
        let unfit = sent(&call(members), "gemini-2.5-pro").unwrap_err();
        assert_eq!((unfit.code, unfit.param.as_str()), (code, param));
    }
}

#[test]
fn models_are_named_in_the_path() {
    check("gemini-2.5-flash", "/models/gemini-2.5-flash:m");
    check("models/gemini-2.5-flash", "/models/gemini-2.5-flash:m");
    check("tunedModels/a b", "/tunedModels/a%20b:m");
    check("../x?y#z:é", "/models/..%2Fx%3Fy%23z%3A%C3%A9:m");

    #[track_caller]
    fn check(model: &str, expected: &str) {
        assert_eq!(path(model, "m"), expected);
    }
}

#[test]
fn keys_have_a_header_of_their_own_and_tokens_have_not() {
    check("AIza7", "x-goog-api-key", "AIza7");
    check("ya29.7", header::AUTHORIZATION.as_str(), "Bearer ya29.7");
    assert_eq!(GeminiGenerate.place(Endpoint::Completions), None);

    #[track_caller]
    fn check(key: &str, name: &str, value: &str) {
        let key = Secret::new(key);
        let proof = GeminiGenerate.auth(&AuthScheme { key: &key, region: None }).unwrap();
        assert!(matches!(proof, Proof::Header(header, text)
            if header == name && text == value && text.is_sensitive()));
    }
}

#[test]
fn c1_embeddings_are_as_many_as_the_texts() {
    let body = Bytes::from_static(br#"{"model":"v","input":["a","b"]}"#);
    let call = Call::parse(Endpoint::Embeddings, body).unwrap();
    for answer in [
        r#"{"embeddings":[{"values":[1]}]}"#,
        r#"{"embeddings":[{"values":[1]},{"values":["x"]}]}"#,
        "{}",
    ] {
        let answer = Bytes::copy_from_slice(answer.as_bytes());
        let fault = GeminiGenerate.answer(&call, &HeaderMap::new(), &answer).unwrap_err();
        assert_eq!(fault.outcome, Outcome::ProviderError);
    }
}

const STREAM: &str =
    include_str!("../../tests/golden/gemini-generate/tools-streamed-parallel/stream.sse");
const ANSWER: &str =
    include_str!("../../tests/golden/gemini-generate/choices-and-logprobs/answer.json");

proptest! {
    #[test]
    fn no_bytes_break_the_reader(
        at in 0..STREAM.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..24),
        cut in 0..24_usize,
    ) {
        let mut stream = STREAM.as_bytes().to_vec();
        let end = (at + cut).min(stream.len());
        stream.splice(at..end, bytes.iter().copied());
        read(&stream);
        read(&bytes);
    }

    #[test]
    fn no_bytes_break_the_parser(
        at in 0..ANSWER.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..24),
        cut in 0..24_usize,
    ) {
        let mut answer = ANSWER.as_bytes().to_vec();
        let end = (at + cut).min(answer.len());
        answer.splice(at..end, bytes.iter().copied());
        for body in [Bytes::from(answer), Bytes::from(bytes)] {
            let read = GeminiGenerate.answer(&call(""), &HeaderMap::new(), &body);
            if let Ok(answer) = read {
                serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap();
            }
            GeminiGenerate.refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), &body);
        }
    }

    /// Arguments come out as the JSON that went in, whatever is in them.
    #[test]
    fn arguments_mean_the_same_when_their_margins_are_gone(key in ".*", value in ".*") {
        let args = serde_json::json!({ key: [value, 1.5, null] });
        let laid_out = serde_json::to_string_pretty(&args).unwrap();
        let body = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"f","args":{laid_out}}}}}]}},"finishReason":"STOP"}}]}}"#
        );
        let answer = GeminiGenerate.answer(&call(""), &HeaderMap::new(), &Bytes::from(body)).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let text = answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        prop_assert_eq!(text, serde_json::to_string(&args).unwrap());
    }
}
