use proptest::prelude::*;

use super::*;
use crate::{StreamEvent, frame::Frame};

fn call(body: &str) -> Call {
    Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn sent(body: &str) -> Result<(serde_json::Value, Vec<String>), Unfit> {
    let to = Destination { model: "m", profile: &Default::default() };
    let sent = BedrockConverse.request(&call(body), &to)?;
    let dropped = sent.dropped.iter().map(ToString::to_string).collect();
    Ok((serde_json::from_slice(&sent.body).unwrap(), dropped))
}

/// A request with one message of the user's and these members besides.
fn with(members: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{members}}}"#)
}

#[test]
fn c1_keys_are_told_apart_by_their_form() {
    let proof = |key: &str, region| {
        let key = Secret::new(key);
        BedrockConverse.auth(&AuthScheme { key: &key, region })
    };
    assert!(matches!(proof("ABSKabc=", None), Ok(Proof::Header(name, value))
        if name == "authorization" && value == "Bearer ABSKabc=" && value.is_sensitive()));
    match proof("AKID:se/c+ret", Some("eu-west-1")).unwrap() {
        Proof::SigV4(pair) => {
            assert_eq!((pair.access.as_str(), pair.secret.expose()), ("AKID", "se/c+ret"));
            assert_eq!((pair.region.as_str(), pair.service), ("eu-west-1", "bedrock"));
            assert_eq!(pair.session, None);
        }
        other => panic!("{other:?}"),
    }
    match proof("ASIA:secret:se//ss==", Some("eu-west-1")).unwrap() {
        Proof::SigV4(pair) => assert_eq!(pair.session, Some(Secret::new("se//ss=="))),
        other => panic!("{other:?}"),
    }
    assert_eq!(proof("AKID:secret", None).unwrap_err(), AuthError::NoRegion);
    for broken in ["", ":", "AKID:", ":secret", "AKID:secret:", "a:b:c:d"] {
        let refused = proof(broken, Some("eu-west-1"));
        assert!(matches!(refused, Err(AuthError::Form(_))), "{broken}: {refused:?}");
    }
}

#[test]
fn c1_what_converse_cannot_do_is_refused() {
    for (members, param) in [
        (r#","n":2"#, "n"),
        (r#","logprobs":true"#, "logprobs"),
        (r#","top_logprobs":2"#, "top_logprobs"),
        (r#","response_format":{"type":"json_object"}"#, "response_format"),
        (
            r#","response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#,
            "response_format",
        ),
        (r#","modalities":["text","audio"]"#, "modalities"),
        (r#","audio":{"voice":"x"}"#, "audio"),
        (r#","functions":[{"name":"f"}]"#, "functions"),
        (r#","function_call":"auto""#, "function_call"),
        (r#","web_search_options":{"x":1}"#, "web_search_options"),
    ] {
        let refused = sent(&with(members)).unwrap_err();
        assert_eq!((refused.code, refused.param.as_str()), ("unsupported_parameter", param));
    }
    let same = r#","n":1,"logprobs":false,"top_logprobs":0,"modalities":["text"],"response_format":{"type":"text"}"#;
    assert_eq!(sent(&with(same)).unwrap(), sent(&with("")).unwrap());
}

#[test]
fn c1_media_without_a_place_are_refused_where_they_stand() {
    for (part, what) in [
        (r#"{"type":"image_url","image_url":{"url":"https://x.test/a.png"}}"#, "data URL"),
        (r#"{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AA=="}}"#, "PNG"),
        (r#"{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}"#, "listen"),
        (r#"{"type":"file","file":{"file_data":"data:video/mp4;base64,AA=="}}"#, "documents"),
    ] {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{"role":"user","content":[{part}]}}]}}"#
        );
        let refused = sent(&body).unwrap_err();
        assert_eq!(refused.code, "unsupported_parameter");
        assert_eq!(refused.param, "messages[1].content");
        assert!(refused.message.contains(what), "{}", refused.message);
    }
}

#[test]
fn c1_numbers_keep_their_spelling_within_bounds() {
    let of = |members: &str| {
        let to = Destination { model: "m", profile: &Default::default() };
        let sent = BedrockConverse.request(&call(&with(members)), &to).unwrap();
        String::from_utf8(sent.body.to_vec()).unwrap()
    };
    assert!(of(r#","temperature":0.70,"top_p":1"#).contains(r#""temperature":0.70,"topP":1}"#));
    assert!(of(r#","temperature":2"#).contains(r#""temperature":1.0}"#));
    assert!(of(r#","temperature":-1"#).contains(r#""temperature":0.0}"#));
    assert!(
        of(r#","max_tokens":9,"stop":["a","","b"]"#)
            .contains(r#""inferenceConfig":{"maxTokens":9,"stopSequences":["a","b"]}"#)
    );
    assert!(!of("").contains("inferenceConfig"));
    let wrong = sent(&with(r#","temperature":"hot""#)).unwrap_err();
    assert_eq!((wrong.code, wrong.param.as_str()), ("invalid_value", "temperature"));
}

#[test]
fn c1_converses_own_members_pass_others_are_dropped() {
    let members = r#","top_k":5,"thinking":{"type":"enabled","budget_tokens":1024},"additionalModelRequestFields":{"x":1.50,"top_k":1},"guardrailConfig":{"guardrailIdentifier":"g"},"requestMetadata":{"a":"b"},"seed":1,"user":"u","made_up":[1]"#;
    let (body, dropped) = sent(&with(members)).unwrap();
    assert_eq!(dropped, ["made_up", "seed", "user"]);
    let fields = &body["additionalModelRequestFields"];
    assert_eq!(
        fields.to_string(),
        r#"{"thinking":{"type":"enabled","budget_tokens":1024},"top_k":5,"x":1.50}"#
            .replace("1.50", "1.5")
    );
    assert_eq!(body["guardrailConfig"]["guardrailIdentifier"], "g");
    assert_eq!(body["requestMetadata"]["a"], "b");
    let wrong = sent(&with(r#","additionalModelRequestFields":[]"#)).unwrap_err();
    assert_eq!(wrong.param, "additionalModelRequestFields");
}

#[test]
fn c1_tool_choices() {
    check("", serde_json::Value::Null);
    check(r#","tool_choice":"auto""#, serde_json::json!({"auto": {}}));
    check(r#","tool_choice":"required""#, serde_json::json!({"any": {}}));
    let named = r#","tool_choice":{"type":"function","function":{"name":"f"}}"#;
    check(named, serde_json::json!({"tool": {"name": "f"}}));

    #[track_caller]
    fn check(choice: &str, expected: serde_json::Value) {
        let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
        let (body, _) = sent(&with(&format!("{tools}{choice}"))).unwrap();
        let config = &body["toolConfig"];
        assert_eq!(config["toolChoice"], expected);
        assert_eq!(
            config["tools"][0].to_string(),
            r#"{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}"#
        );
    }
}

const HISTORY: &str = r#","messages":[{"role":"user","content":"time?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_time","arguments":"{\"tz\":\"UTC\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"noon"}]"#;

/// Blocks about tools without a declaration of tools are refused upstream.
#[test]
fn c2_a_history_of_tools_without_tools_becomes_text() {
    let tools = r#","tools":[{"type":"function","function":{"name":"get_time"}}]"#;
    let (body, _) = sent(&format!(r#"{{"model":"m"{HISTORY}{tools}}}"#)).unwrap();
    assert_eq!(body["messages"][1]["content"][0]["toolUse"]["input"]["tz"], "UTC");
    assert_eq!(body["messages"][2]["content"][0]["toolResult"]["toolUseId"], "c1");
    for members in [String::new(), format!(r#"{tools},"tool_choice":"none""#)] {
        let (body, _) = sent(&format!(r#"{{"model":"m"{HISTORY}{members}}}"#)).unwrap();
        assert!(body.get("toolConfig").is_none());
        assert_eq!(
            body["messages"][1]["content"][0]["text"],
            "[I called get_time with {\"tz\":\"UTC\"}]"
        );
        assert_eq!(body["messages"][2]["content"][0]["text"], "[get_time answered:]");
        assert_eq!(body["messages"][2]["content"][1]["text"], "noon");
    }
}

#[test]
fn c2_ids_of_other_makers_fit_and_still_match() {
    let long = "x".repeat(80);
    for id in ["functions.f:0", "", "ä", long.as_str()] {
        let body = HISTORY.replace("\"c1\"", &format!("\"{id}\""));
        let tools = r#","tools":[{"type":"function","function":{"name":"get_time"}}]"#;
        let (body, _) = sent(&format!(r#"{{"model":"m"{body}{tools}}}"#)).unwrap();
        let used = body["messages"][1]["content"][0]["toolUse"]["toolUseId"].as_str().unwrap();
        let answered = &body["messages"][2]["content"][0]["toolResult"]["toolUseId"];
        assert_eq!(answered, used);
        assert!((1..=64).contains(&used.len()), "{used}");
        assert!(
            used.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
            "{used}"
        );
    }
}

#[test]
fn c1_documents_have_names_that_are_allowed_and_differ() {
    let file = |name: &str| {
        format!(
            r#"{{"type":"file","file":{{"filename":"{name}","file_data":"data:application/pdf;base64,AA=="}}}}"#
        )
    };
    let parts =
        [file("Q3 report_(v2).pdf"), file("Q3  report (v2).pdf"), file(".pdf"), file("é/../x")];
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{}]}}]}}"#,
        parts.join(",")
    );
    let (body, _) = sent(&body).unwrap();
    let names: Vec<_> = (0..4)
        .map(|index| body["messages"][0]["content"][index]["document"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Q3 report (v2)", "Q3 report (v2) (2)", "document", "document (2)"]);
}

#[test]
fn c1_empty_messages_are_refused_where_they_stand() {
    let refused = |messages: &str| {
        sent(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)).unwrap_err().param
    };
    assert_eq!(refused(r#"{"role":"user","content":""}"#), "messages[0].content");
    let user = r#"{"role":"user","content":"a"}"#;
    assert_eq!(
        refused(&format!(r#"{user},{{"role":"assistant","content":null}}"#)),
        "messages[1].content"
    );
    assert_eq!(refused(r#"{"role":"system","content":"s"}"#), "messages");
    let image = r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}"#;
    assert_eq!(refused(image), "messages[0].content");
}

fn streamed(events: &[(&str, &str)]) -> Vec<StreamEvent> {
    let call = call(&with(r#","stream":true"#));
    let mut reader = BedrockConverse.stream(&call, &Sent::default(), &HeaderMap::new());
    events
        .iter()
        .map(|(name, data)| {
            reader.read(&Frame::named(name, Bytes::copy_from_slice(data.as_bytes())))
        })
        .collect()
}

fn outcome(event: &StreamEvent) -> Option<&'static str> {
    match event {
        StreamEvent::Failed(fault) => Some(fault.outcome.name()),
        _ => None,
    }
}

#[test]
fn c3_what_cannot_be_read_fails_and_what_is_unknown_is_hidden() {
    let fails = |name: &str, data: &str| outcome(&streamed(&[(name, data)])[0]);
    assert_eq!(fails("contentBlockDelta", "{oops"), Some("provider_error"));
    assert_eq!(
        fails("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"x"}}}"#),
        Some("provider_error")
    );
    assert_eq!(fails("messageStop", "{}"), Some("provider_error"));
    assert_eq!(
        fails("messageStop", r#"{"stopReason":"malformed_tool_use"}"#),
        Some("provider_error")
    );
    assert_eq!(fails("exception:throttlingException", r#"{"message":"x"}"#), Some("rate_limited"));
    assert_eq!(fails("exception:serviceUnavailableException", "not json"), Some("overloaded"));
    for (name, data) in
        [("tomorrowsEvent", "{"), ("news:x", "{}"), ("", ""), ("initial-response", "{}")]
    {
        assert_eq!(streamed(&[(name, data)]), [StreamEvent::Hidden], "{name}");
    }
}

#[test]
fn a4_a_start_commits_nothing_and_usage_ends_the_stream() {
    let events = streamed(&[
        ("messageStart", r#"{"role":"assistant","p":"abc"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"A"},"p":"ab"}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        ("messageStop", r#"{"stopReason":"end_turn"}"#),
        ("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":1}}"#),
    ]);
    assert!(matches!(events[0], StreamEvent::Preamble(_)));
    assert!(matches!(events[1], StreamEvent::Content(_)));
    assert_eq!(events[2], StreamEvent::Hidden);
    assert!(matches!(events[3], StreamEvent::Content(_)), "not the end: usage follows");
    assert_eq!(events[4], StreamEvent::Done);
    let early = streamed(&[("metadata", r#"{"usage":{"inputTokens":1}}"#)]);
    assert_eq!(early, [StreamEvent::Hidden], "usage alone ends nothing");
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("messageStart".to_owned()),
        Just("contentBlockStart".to_owned()),
        Just("contentBlockDelta".to_owned()),
        Just("contentBlockStop".to_owned()),
        Just("messageStop".to_owned()),
        Just("metadata".to_owned()),
        "(exception|error)?:?[a-zA-Zé]{0,12}",
    ]
}

/// Events as they are, with some of their characters changed, or anything at all.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let shapes = prop::sample::select(vec![
        r#"{"role":"assistant"}"#,
        r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#,
        r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}"#,
        r#"{"contentBlockIndex":1,"delta":{"reasoningContent":{"text":"t"}}}"#,
        r#"{"contentBlockIndex":1,"delta":{"reasoningContent":{"signature":"s"}}}"#,
        r#"{"contentBlockIndex":1,"delta":{"reasoningContent":{"redactedContent":"AA=="}}}"#,
        r#"{"contentBlockIndex":1}"#,
        r#"{"stopReason":"tool_use"}"#,
        r#"{"usage":{"inputTokens":18446744073709551615,"cacheReadInputTokens":18446744073709551615}}"#,
        r#"{"output":{"message":{"content":[{"text":"A"},{"toolUse":{"name":"f","input":null}}]}},"stopReason":"end_turn"}"#,
        r#"{"embedding":[0.5,1]}"#,
        r#"{"embeddings":{"float":[[1e400]]}}"#,
    ]);
    let change = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let changed = (shapes, change).prop_map(|(shape, changes)| {
        let mut bytes = shape.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    });
    prop_oneof![4 => changed, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    /// Whatever comes, nobody panics, and what is for the caller is whole events of JSON.
    #[test]
    fn c3_no_events_do_harm(events in prop::collection::vec((name(), payload()), 0..12)) {
        let body = with(r#","stream":true,"stream_options":{"include_usage":true}"#);
        let call = call(&body);
        let mut reader = BedrockConverse.stream(&call, &Sent::default(), &HeaderMap::new());
        let mut caller = Vec::new();
        for (name, data) in events {
            match reader.read(&Frame::named(&name, data.into())) {
                StreamEvent::Preamble(bytes) | StreamEvent::Content(bytes) => caller.push(bytes),
                StreamEvent::Hidden => {}
                StreamEvent::Done | StreamEvent::Failed(_) => break,
            }
        }
        caller.extend(reader.tail());
        for event in std::str::from_utf8(&caller.concat()).unwrap().split_terminator("\n\n") {
            let json = event.strip_prefix("data: ").unwrap();
            prop_assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{}", json);
        }
    }

    /// The same of whole answers, of refusals and of embeddings.
    #[test]
    fn c3_no_answers_do_harm(body in payload(), status in 400_u16..600) {
        let body = Bytes::from(body);
        let headers = HeaderMap::new();
        if let Ok(answer) = BedrockConverse.answer(&call(&with("")), &headers, &body) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok());
        }
        let input = Bytes::from_static(br#"{"model":"m","input":"x"}"#);
        let vectors = Call::parse(Endpoint::Embeddings, input).unwrap();
        if let Ok(answer) = BedrockConverse.answer(&vectors, &headers, &body) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok());
        }
        let status = StatusCode::from_u16(status).unwrap();
        let fault = BedrockConverse.refusal(status, &headers, &body);
        prop_assert_eq!(fault.status, Some(status.as_u16()));
    }
}
