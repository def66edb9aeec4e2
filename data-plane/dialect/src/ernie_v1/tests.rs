use serde_json::{Value, json};
use sluicegate_model::Profile;

use super::*;

fn proof(key: &str) -> Result<Proof, AuthError> {
    ErnieV1.auth(&AuthScheme { key: &Secret::new(key), region: None })
}

#[test]
fn a_key_pair_is_exchanged_for_a_token() {
    let Ok(Proof::Exchange(exchange)) = proof("id:se:cret") else { panic!("no exchange") };
    assert_eq!((exchange.path, exchange.parameter), ("/oauth/2.0/token", "access_token"));
    assert_eq!((exchange.client_id.expose(), exchange.client_secret.expose()), ("id", "se:cret"));
    for bad in ["", "id", ":secret", "id:"] {
        assert_eq!(proof(bad).unwrap_err(), AuthError::Form("API_KEY:SECRET_KEY"), "{bad}");
    }
}

#[test]
fn c2_trap_4_errors_come_under_200_in_two_spellings() {
    let call = Call::parse(Endpoint::Chat, Bytes::from_static(b"{\"model\":\"m\"}")).unwrap();
    for body in [
        r#"{"error_code":336501,"error_msg":"Rate limit reached for RPM","id":"as-1"}"#,
        r#"{"code":336501,"msg":"Rate limit reached for RPM"}"#,
        r#"{"code":336501,"message":"Rate limit reached for RPM"}"#,
    ] {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let fault = ErnieV1.answer(&call, &HeaderMap::new(), &bytes).unwrap_err();
        assert_eq!(fault.outcome, Outcome::RateLimited, "{body}");
        assert_eq!(fault.message.as_deref(), Some("Rate limit reached for RPM"), "{body}");
        for stream in [format!("{body}\n"), format!("data: {body}\n\n")] {
            let mut framer = crate::sse::Framer::default();
            framer.push(Bytes::from(stream.clone()));
            let frame = framer.next_frame().unwrap().or_else(|| framer.finish()).unwrap();
            let mut reader = ErnieV1.stream(&call, &Sent::default(), &HeaderMap::new());
            let crate::StreamEvent::Failed(streamed) = reader.read(&frame) else {
                panic!("{stream} passed");
            };
            assert_eq!(streamed, fault);
        }
    }
}

#[test]
fn a_new_token_is_wanted_for_two_codes_alone() {
    let fault = |code: u32| {
        let body = json!({ "error_code": code, "error_msg": "m" }).to_string();
        errors::ERRORS.in_band(body.as_bytes()).unwrap()
    };
    for code in [110, 111] {
        assert!(ErnieV1.wants_new_token(&fault(code)), "{code}");
    }
    for code in [6, 13, 14, 15, 17, 18, 100, 336_000] {
        assert!(!ErnieV1.wants_new_token(&fault(code)), "{code}");
    }
}

fn sent(member: &str) -> Result<Value, Unfit> {
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"A"}}],{member}}}"#);
    let call = Call::parse(Endpoint::Chat, body.into()).unwrap();
    let to = Destination { model: "m", profile: &Profile::default() };
    let sent = ErnieV1.request(&call, &to)?;
    Ok(serde_json::from_slice(&sent.body).unwrap())
}

#[test]
fn bounds_are_kept() {
    check(r#""temperature":1"#, "temperature", json!(0.5));
    check(r#""temperature":0"#, "temperature", json!(0.0001));
    check(r#""temperature":2"#, "temperature", json!(1.0));
    check(r#""temperature":5"#, "temperature", json!(1.0));
    check(r#""top_p":0"#, "top_p", json!(0.0001));
    check(r#""top_p":0.8"#, "top_p", json!(0.8));
    check(r#""presence_penalty":-2"#, "penalty_score", json!(1.0));
    check(r#""presence_penalty":0"#, "penalty_score", json!(1.5));
    check(r#""presence_penalty":2.0"#, "penalty_score", json!(2.0));
    check(r#""presence_penalty":2,"penalty_score":1.25"#, "penalty_score", json!(1.25));
    check(r#""max_tokens":1"#, "max_output_tokens", json!(2));
    check(r#""max_completion_tokens":9"#, "max_output_tokens", json!(9));
    check(r#""user":"u""#, "user_id", json!("u"));

    #[track_caller]
    fn check(member: &str, name: &str, expected: Value) {
        assert_eq!(sent(member).unwrap()[name], expected, "{member}");
    }
}

#[test]
fn what_would_mean_something_else_is_refused() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]"#;
    check(r#""n":2"#, "n");
    check(r#""logprobs":true"#, "logprobs");
    check(
        r#""response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}"#,
        "response_format",
    );
    check(&format!(r#"{tools},"tool_choice":"required""#), "tool_choice");
    check(r#""functions":[{"name":"f"}]"#, "functions");
    assert!(sent(r#""n":1,"logprobs":false,"top_logprobs":0"#).is_ok());

    #[track_caller]
    fn check(member: &str, param: &str) {
        let unfit = sent(member).unwrap_err();
        assert_eq!((unfit.code, unfit.param.as_str()), ("unsupported_parameter", param));
    }
}

#[test]
fn any_tool_of_one_is_that_one_and_none_is_not_told_of() {
    let tool = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    let body = sent(&format!(r#"{tool},"tool_choice":"required""#)).unwrap();
    assert_eq!(body["tool_choice"], json!({ "type": "function", "function": { "name": "f" } }));
    let parameters = json!({ "type": "object", "properties": {} });
    let function = json!({ "name": "f", "description": "f", "parameters": parameters });
    assert_eq!(body["functions"], json!([function]));
    let body = sent(&format!(r#"{tool},"tool_choice":"none""#)).unwrap();
    assert_eq!(body.get("functions"), None);
}
