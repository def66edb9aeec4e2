use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use proptest::prelude::*;
use sluicegate_model::{Outcome, Profile, secret::Secret};

use super::*;
use crate::{dialect::StreamEvent, fault::Level, frame::Framing};

/// How long a row's failure rests.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Unsaid,
    Seconds(u64),
    /// To the first of the next month.
    Month,
}

fn refusal(status: u16, headers: &[(&'static str, &str)], body: &str) -> Fault {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    AnthropicMessages.refusal(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
}

fn body(kind: &str, message: &str) -> String {
    format!(
        r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
    )
}

fn call(members: &str) -> Call {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}]{members}}}"#);
    Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap()
}

#[test]
fn c2_every_documented_error() {
    use Outcome::*;
    let check = |status, kind: &str, message: &str, outcome, level, wait| {
        check(status, &[], &body(kind, message), outcome, level, wait);
    };
    let nobody = Level::Nobody;
    check(
        400,
        "invalid_request_error",
        "top_p: expected a number",
        InvalidRequest,
        nobody,
        Wait::Unsaid,
    );
    check(
        400,
        "invalid_request_error",
        "prompt is too long: 208000 tokens > 200000 maximum",
        ContextTooLong,
        nobody,
        Wait::Unsaid,
    );
    check(
        400,
        "invalid_request_error",
        "The input length and `max_tokens` go past the context limit: 190000 + 20000 > 200000",
        ContextTooLong,
        nobody,
        Wait::Unsaid,
    );
    check(
        400,
        "invalid_request_error",
        "Your workspace has reached your workspace API usage limits.",
        QuotaExhausted,
        Level::Account,
        Wait::Month,
    );
    check(
        400,
        "invalid_request_error",
        "Your credit balance is too low for this request.",
        QuotaExhausted,
        Level::Account,
        Wait::Unsaid,
    );
    check(
        401,
        "authentication_error",
        "this x-api-key is not valid",
        KeyRefused,
        Level::Key,
        Wait::Unsaid,
    );
    check(
        401,
        "authentication_error",
        "CORS requests need a header that allows browsers",
        PermissionDenied,
        nobody,
        Wait::Unsaid,
    );
    check(
        402,
        "billing_error",
        "The last payment failed.",
        QuotaExhausted,
        Level::Account,
        Wait::Unsaid,
    );
    check(
        403,
        "permission_error",
        "No access to this model.",
        PermissionDenied,
        Level::Pair,
        Wait::Unsaid,
    );
    check(404, "not_found_error", "model: claude-none", ModelMissing, Level::Pair, Wait::Unsaid);
    check(409, "conflict_error", "It changed meanwhile.", ProviderError, nobody, Wait::Unsaid);
    check(
        413,
        "request_too_large",
        "More bytes than allowed.",
        InvalidRequest,
        nobody,
        Wait::Unsaid,
    );
    check(
        429,
        "rate_limit_error",
        "40000 input tokens in a minute are passed.",
        RateLimited,
        Level::Pair,
        Wait::Unsaid,
    );
    check(
        429,
        "rate_limit_error",
        "The usage limit of this plan is reached.",
        QuotaExhausted,
        Level::Account,
        Wait::Unsaid,
    );
    check(500, "api_error", "Something broke.", ProviderError, nobody, Wait::Unsaid);
    check(503, "api_error", "Not now.", ProviderError, nobody, Wait::Unsaid);
    check(504, "timeout_error", "It took too long.", Timeout, nobody, Wait::Unsaid);
    check(529, "overloaded_error", "Too much at once", Overloaded, nobody, Wait::Unsaid);
}

#[test]
fn c2_every_documented_error_that_says_more_than_its_body() {
    let limit = body("rate_limit_error", "More than 50 requests in this minute.");
    check(
        429,
        &[("retry-after", "14")],
        &limit,
        Outcome::RateLimited,
        Level::Pair,
        Wait::Seconds(14),
    );
    let unified = [("retry-after", "7200"), ("anthropic-ratelimit-unified-status", "rejected")];
    let plan = body("rate_limit_error", "The usage limit of this workspace is reached.");
    check(429, &unified, &plan, Outcome::QuotaExhausted, Level::Account, Wait::Seconds(7200));
    check(413, &[], "<html>too large</html>", Outcome::InvalidRequest, Level::Nobody, Wait::Unsaid);
    check(
        502,
        &[],
        "<html>bad gateway</html>",
        Outcome::ProviderError,
        Level::Nobody,
        Wait::Unsaid,
    );
    check(503, &[], "", Outcome::ProviderError, Level::Nobody, Wait::Unsaid);
}

#[test]
fn c2_trap_5_spend_caps_come_as_429_without_retry_after_or_as_400() {
    let cap = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This month's spending is used up.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_2"}"#;
    check(429, &[], cap, Outcome::QuotaExhausted, Level::Account, Wait::Month);
    let own = body(
        "invalid_request_error",
        "You have reached your specified API usage limits. Access returns on 2999-11-01 at 00:00 UTC.",
    );
    let fault = refusal(400, &[], &own);
    assert_eq!((fault.outcome, fault.level), (Outcome::QuotaExhausted, Level::Account));
    assert!(fault.wait.unwrap() > Duration::from_secs(24 * 3600), "to the day that it names");
}

#[track_caller]
fn check(
    status: u16,
    headers: &[(&'static str, &str)],
    body: &str,
    outcome: Outcome,
    level: Level,
    wait: Wait,
) {
    let fault = refusal(status, headers, body);
    assert_eq!((fault.outcome, fault.level), (outcome, level), "{body}");
    assert_eq!(fault.status, Some(status));
    match wait {
        Wait::Unsaid => assert_eq!(fault.wait, None, "{body}"),
        Wait::Seconds(seconds) => assert_eq!(fault.wait, Some(Duration::from_secs(seconds))),
        Wait::Month => {
            assert!(fault.wait.unwrap() <= Duration::from_secs(32 * 24 * 3600), "{body}")
        }
    }
}

#[test]
fn c3_errors_within_streams_go_by_their_type() {
    check("overloaded_error", Outcome::Overloaded);
    check("rate_limit_error", Outcome::RateLimited);
    check("api_error", Outcome::ProviderError);
    check("invalid_request_error", Outcome::InvalidRequest);
    check("never_heard_of", Outcome::ProviderError);

    #[track_caller]
    fn check(kind: &str, outcome: Outcome) {
        for event in ["event: error\n", ""] {
            let events = read(format!("{event}data: {}\n\n", body(kind, "m")).as_bytes());
            assert!(
                matches!(&events[..], [StreamEvent::Failed(fault)] if fault.outcome == outcome)
            );
        }
    }
    let bare = read(body("overloaded_error", "m").as_bytes());
    assert!(
        matches!(&bare[..], [StreamEvent::Failed(fault)] if fault.outcome == Outcome::Overloaded)
    );
}

fn read(stream: &[u8]) -> Vec<StreamEvent> {
    let mut reader = AnthropicMessages.stream(&call(""), &Sent::default(), &HeaderMap::new());
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
fn c3_failures_in_disguise() {
    check("", Outcome::Timeout);
    check("<html>", Outcome::ProviderError);
    check("{}", Outcome::ProviderError);
    check(r#"{"content":7}"#, Outcome::ProviderError);
    check(&body("overloaded_error", "m"), Outcome::Overloaded);

    #[track_caller]
    fn check(body: &str, outcome: Outcome) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let fault = AnthropicMessages.answer(&call(""), &HeaderMap::new(), &body).unwrap_err();
        assert_eq!(fault.outcome, outcome);
    }
}

#[test]
fn c1_effort_becomes_what_the_model_knows() {
    let enabled = |budget| format!(r#""thinking":{{"type":"enabled","budget_tokens":{budget}}}"#);
    check(
        "claude-sonnet-4-5-20250929",
        r#""reasoning_effort":"medium","max_tokens":64000"#,
        &enabled(8192),
    );
    check("claude-sonnet-4-20250514", r#""reasoning_effort":"minimal""#, &enabled(1024));
    check("claude-3-7-sonnet", r#""reasoning_effort":"high""#, &enabled(3072));
    check("glm-5", r#""reasoning_effort":"low","max_tokens":8000"#, &enabled(2048));
    check(
        "claude-sonnet-5",
        r#""reasoning_effort":"low""#,
        r#""thinking":{"type":"adaptive"},"output_config":{"effort":"low"}"#,
    );
    check("claude-sonnet-5", r#""reasoning_effort":"none","temperature":1"#, r#""temperature":1"#);
    check(
        "claude-sonnet-4-5",
        r#""thinking":{"type":"disabled"},"temperature":0.5"#,
        r#""temperature":0.5,"thinking":{"type":"disabled"}"#,
    );
    for (model, members) in [
        ("claude-3-5-haiku", ""),
        ("claude-sonnet-4-5", r#","max_tokens":1300"#),
        ("claude-sonnet-5", r#","tools":[{"function":{"name":"f"}}],"tool_choice":"required""#),
    ] {
        let call = call(&format!(r#","reasoning_effort":"low"{members}"#));
        let sent = sent(&call, model).unwrap();
        assert_eq!(sent.dropped, ["reasoning_effort"]);
        assert!(!String::from_utf8_lossy(&sent.body).contains("thinking"));
    }

    #[track_caller]
    fn check(model: &str, members: &str, expected: &str) {
        let sent = sent(&call(&format!(",{members}")), model).unwrap();
        let body = String::from_utf8_lossy(&sent.body).into_owned();
        assert!(body.contains(expected), "{body}");
    }
}

fn sent(call: &Call, model: &str) -> Result<UpstreamCall, Unfit> {
    AnthropicMessages.request(call, &Destination { model, profile: &Profile::default() })
}

#[test]
fn c1_what_the_format_cannot_say_is_refused_where_it_stands() {
    check(r#","reasoning_effort":"huge""#, "invalid_value", "reasoning_effort");
    check(r#","stop":[" "]"#, "unsupported_parameter", "stop");
    check(
        r#","tools":[{"function":{"name":"f","parameters":[]}}]"#,
        "invalid_value",
        "tools[0].function.parameters",
    );
    check(r#","functions":[{"name":"f"}]"#, "unsupported_parameter", "functions");
    check(
        r#","thinking":{"type":"enabled","budget_tokens":1024},"tools":[{"function":{"name":"f"}}],"tool_choice":"required""#,
        "unsupported_parameter",
        "tool_choice",
    );
    for (messages, code, param) in [
        (r#"{"role":"system","content":"a"}"#, "unsupported_parameter", "messages"),
        (r#"{"role":"user","content":""}"#, "invalid_value", "messages[0].content"),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"gs://a/b"}}]}"#,
            "unsupported_parameter",
            "messages[0].content",
        ),
        (
            r#"{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/csv;base64,YQ=="}}]}"#,
            "unsupported_parameter",
            "messages[0].content",
        ),
        (
            r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,YQ=="}}]}"#,
            "unsupported_parameter",
            "messages[0].content",
        ),
    ] {
        let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let call = Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap();
        let unfit = sent(&call, "m").unwrap_err();
        assert_eq!((unfit.code, unfit.param.as_str()), (code, param), "{messages}");
    }

    #[track_caller]
    fn check(members: &str, code: &str, param: &str) {
        let unfit = sent(&call(members), "m").unwrap_err();
        assert_eq!((unfit.code, unfit.param.as_str()), (code, param));
    }
}

#[test]
fn the_key_is_a_header_of_its_own() {
    let key = Secret::new("sk-ant-7".to_owned());
    let proof = AnthropicMessages.auth(&AuthScheme { key: &key, region: None }).unwrap();
    assert!(matches!(proof, Proof::Header(name, value)
        if name == "x-api-key" && value == "sk-ant-7" && value.is_sensitive()));
    assert_eq!(AnthropicMessages.place(Endpoint::Embeddings), None);
}

const STREAM: &str =
    include_str!("../../tests/golden/anthropic-messages/tools-streamed-parallel/stream.sse");
const ANSWER: &str =
    include_str!("../../tests/golden/anthropic-messages/reasoning-whole/answer.json");

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
            let read = AnthropicMessages.answer(&call(""), &HeaderMap::new(), &body);
            if let Ok(answer) = read {
                serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap();
            }
            AnthropicMessages.refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), &body);
        }
    }

    /// Events that are JSON, of the right types, in any order.
    #[test]
    fn no_order_of_events_breaks_the_reader(order in prop::collection::vec(0..24_usize, 0..32)) {
        let events: Vec<_> = STREAM.split_inclusive("\n\n").collect();
        let stream: String = order.iter().filter_map(|index| events.get(*index)).copied().collect();
        read(stream.as_bytes());
    }
}
