//! The fake providers where no SDK looks: every error on demand, keys that do not open, streams that
//! break off, and the shapes that providers give to what they have in common.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::net::contains;
use sluicegate_testkit::providers::{Dialect, Fake, KeyState, Meaning, error_rows};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn every_error_comes_as_its_row_says() {
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect).await.unwrap();
        for row in error_rows(dialect) {
            let reply = send(&fake, &fake.ask(&format!("fail:{}", row.name), false)).await;
            assert_eq!(reply.status, Some(row.status), "{dialect:?} {}", row.name);
            assert_eq!(reply.text(), row.body, "{dialect:?} {}", row.name);
            for (name, value) in row.headers {
                assert_eq!(reply.header(name), Some(*value), "{dialect:?} {}", row.name);
            }
        }
        assert_eq!(fake.calls(|_| true).len(), error_rows(dialect).len());
    }
}

#[tokio::test]
async fn a_key_is_treated_as_it_was_said() {
    for dialect in Dialect::ALL {
        // These ask for no key, or let everyone in who has one.
        if matches!(dialect, Dialect::Vllm | Dialect::SgLang | Dialect::Ollama | Dialect::QwenDemo)
        {
            continue;
        }
        let fake = Fake::start(dialect).await.unwrap();
        let states = [
            (KeyState::Limited, Meaning::RateLimited),
            (KeyState::Exhausted, Meaning::QuotaExhausted),
            (KeyState::Refused, Meaning::AuthFailed),
        ];
        for (state, means) in states {
            fake.set_key(&fake.key(), state);
            let reply = send(&fake, &fake.ask("hi", false)).await;
            let row = error_rows(dialect).iter().find(|row| row.means == means).unwrap();
            assert_eq!(reply.text(), row.body, "{dialect:?} {state:?}");
        }
        fake.set_key(&fake.key(), KeyState::Good);
        let reply = send(&fake, &fake.ask("hi", false)).await;
        assert!(reply.text().contains("You said: hi"), "{dialect:?} {}", reply.text());
    }
}

#[tokio::test]
async fn a_stream_breaks_off_where_it_was_told_to() {
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect).await.unwrap();
        let row = error_rows(dialect)
            .iter()
            .find(|row| row.means == Meaning::ProviderError && row.body.starts_with('{'))
            .map_or("500", |row| row.name);
        let whole = send(&fake, &fake.ask("long", true)).await;
        let error = send(&fake, &fake.ask(&format!("long break:{row}:3"), true)).await;
        let eof = send(&fake, &fake.ask("long break:eof:3", true)).await;
        let cut = send(&fake, &fake.ask("long break:cut:3", true)).await;
        let early = send(&fake, &fake.ask(&format!("long break:{row}:0"), true)).await;
        let pieces = |reply: &Reply| reply.text().matches("piece ").count();
        assert_eq!(pieces(&whole), 300, "{dialect:?} {}", whole.text());
        for reply in [&error, &eof, &cut] {
            assert_eq!(
                (reply.status, pieces(reply)),
                (Some(200), 3),
                "{dialect:?} {}",
                reply.text()
            );
        }
        assert_eq!(pieces(&early), 0, "{dialect:?}");
        assert!(whole.complete_at.is_some() && eof.complete_at.is_some(), "{dialect:?}");
        assert!(error.complete_at.is_some() && cut.complete_at.is_none(), "{dialect:?}");
        assert!(error.body.len() > eof.body.len(), "{dialect:?} {}", error.text());
        assert!(whole.body.len() > error.body.len(), "{dialect:?}");
    }
}

#[tokio::test]
async fn events_keep_their_distance() {
    let pace = Duration::from_millis(20);
    let fake = Fake::of(Dialect::Anthropic).pace(pace).start().await.unwrap();
    let reply = send(&fake, &fake.ask("hi", true)).await;
    let times: Vec<_> = reply.data().map(|(event, _)| event.at).collect();
    let took = times.last().unwrap().duration_since(*times.first().unwrap());
    let least = pace * u32::try_from(times.len() - 2).unwrap();
    assert!(took >= least, "{took:?} for {} events", times.len());
}

/// What tells each of the OpenAI family from the others, as it stands in a stream of two calls.
#[tokio::test]
async fn members_of_the_family_differ_as_documented() {
    check(
        Dialect::OpenAi,
        &[r#""obfuscation":"#, r#"{"index":1,"function":{"arguments":"#],
        &[r#""usage""#],
    )
    .await;
    check(
        Dialect::Azure,
        &[r#"data: {"choices":[],"created":0,"id":"""#, "content_filter_results"],
        &[],
    )
    .await;
    check(
        Dialect::DeepSeek,
        &[": keep-alive\n\n", "prompt_cache_hit_tokens", r#""usage":null"#],
        &[],
    )
    .await;
    check(
        Dialect::Ark,
        &[r#"{"content":"","role":"assistant","tool_calls""#],
        &[r#""finish_reason":null"#],
    )
    .await;
    check(
        Dialect::Zhipu,
        &[r#""day\":2}"}}]"#, r#""finish_reason":"tool_calls"}],"usage""#],
        &[r#""finish_reason":null"#],
    )
    .await;
    check(
        Dialect::QwenCompat,
        &[r#""id":"","type":"function","function":{"arguments":"#, r#""usage":null"#],
        &[],
    )
    .await;
    check(Dialect::QianfanV2, &[r#""flag":0"#], &[r#""role""#, r#""finish_reason":null"#]).await;
    check(
        Dialect::Moonshot,
        &[r#""finish_reason":"tool_calls","usage":{"#, r#""cached_tokens":0}}]}"#],
        &[r#""tool_calls":[{"index":"#],
    )
    .await;
    check(Dialect::Mistral, &[r#""tool_calls":[{"id":"c0"#], &[r#""type":"function""#]).await;
    check(
        Dialect::Vllm,
        &[r#""function":{"name":"f"}}]"#, r#""stop_reason":null"#],
        &[r#""arguments":"""#],
    )
    .await;
    check(Dialect::SgLang, &[r#""matched_stop":null"#], &[]).await;
    check(Dialect::Ollama, &["fp_ollama", r#""function":{"name":"f","arguments":"{"#], &[]).await;
    check(Dialect::QwenDemo, &["\r\n\r\n", ": ping"], &["usage", r#""id""#, "tool_calls"]).await;

    async fn check(dialect: Dialect, has: &[&str], has_not: &[&str]) {
        let fake = Fake::start(dialect).await.unwrap();
        let plain = fake.ask("go both", true);
        let mut body: Value = serde_json::from_slice(&plain.body).unwrap();
        let schema =
            json!({"type": "object", "properties": {"tz": {}, "day": {"type": "integer"}}});
        body["tools"] =
            json!([{"type": "function", "function": {"name": "f", "parameters": schema}}]);
        let reply = send(&fake, &plain.body(body.to_string())).await;
        let text = reply.text();
        for part in has {
            assert!(text.contains(part), "{dialect:?} lacks {part}\n{text}");
        }
        for part in has_not {
            let chunks = reply.payloads().filter(|chunk| chunk.to_string().contains(part));
            assert_eq!(chunks.count(), 0, "{dialect:?} has {part}\n{text}");
        }
    }
}

#[tokio::test]
async fn ernie_takes_a_token_until_it_is_revoked() {
    let fake = Fake::start(Dialect::Ernie).await.unwrap();
    let wrong = token(&fake, "fake-ak-1", "wrong").await;
    assert_eq!(wrong.status, Some(401));
    assert_eq!(wrong.json().unwrap()["error"], "invalid_client");
    let unknown = token(&fake, "nobody", "x").await;
    assert_eq!(unknown.json().unwrap()["error_description"], "unknown client id");

    let given = token(&fake, "fake-ak-1", "fake-sk-1").await.json().unwrap();
    assert_eq!(given["expires_in"], 2_592_000);
    let chat = |token: &str| {
        let path = "/rpc/2.0/ai_custom/v1/wenxinworkshop/chat/completions?access_token=";
        Request::post(&format!("{path}{token}")).body(fake.ask("hi", false).body)
    };
    let token = given["access_token"].as_str().unwrap();
    let reply = send(&fake, &chat(token)).await.json().unwrap();
    assert_eq!(
        (&reply["result"], &reply["finish_reason"]),
        (&json!("You said: hi"), &json!("normal"))
    );
    fake.revoke_tokens();
    assert_eq!(send(&fake, &chat(token)).await.json().unwrap()["error_code"], 110);
    assert_eq!(send(&fake, &chat("")).await.json().unwrap()["error_code"], 110);

    let fake = Fake::of(Dialect::Ernie).token_life(Duration::ZERO).start().await.unwrap();
    let expired = send(&fake, &fake.ask("hi", false)).await;
    assert_eq!(
        (expired.status, expired.json().unwrap()["error_code"].as_u64()),
        (Some(200), Some(111))
    );
}

#[tokio::test]
async fn ernie_holds_to_its_own_rules() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let called = json!({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}});
    let result = |text: &str| json!({"role": "function", "name": "f", "content": text});
    let schema = json!({"type": "object", "properties": {"tz": {"const": "UTC"}}});
    let functions = json!([{"name": "f", "description": "d", "parameters": schema}]);

    check(
        json!({"messages": [user("hi")], "system": "be kind"}),
        "result",
        json!("You said: hi (I was told: be kind)"),
    )
    .await;
    check(
        json!({"messages": [user("go")], "functions": functions}),
        "function_call/arguments",
        json!(r#"{"tz":"UTC"}"#),
    )
    .await;
    check(json!({"messages": [user("go"), called, result(r#"{"result":"noon"}"#)], "functions": functions}), "result", json!("The tool says: noon")).await;
    let rules = [
        json!({"messages": [user("a"), user("b")]}),
        json!({"messages": [user("a"), user("b"), user("c")]}),
        json!({"messages": [{"role": "system", "content": "a"}]}),
        json!({"messages": [user("")]}),
        json!({"messages": [user("go"), called, result("no JSON")]}),
        json!({"messages": [user("go"), called, user("noon")]}),
    ];
    for body in rules {
        check(body, "error_code", json!(336_003)).await;
    }
    for (name, value) in [
        ("temperature", json!(0)),
        ("temperature", json!(1.5)),
        ("penalty_score", json!(0.5)),
        ("stop", json!("x")),
        ("response_format", json!({"type": "json_object"})),
        ("tool_choice", json!("auto")),
    ] {
        let mut body = json!({"messages": [user("hi")]});
        body[name] = value;
        check(body, "error_code", json!(336_001)).await;
    }

    async fn check(body: Value, member: &str, expected: Value) {
        let fake = Fake::start(Dialect::Ernie).await.unwrap();
        let reply = send(&fake, &fake.ask("", false).body(body.to_string())).await;
        assert_eq!(reply.status, Some(200));
        let answer = reply.json().unwrap();
        assert_eq!(answer.pointer(&format!("/{member}")), Some(&expected), "{body}\n{answer}");
    }
}

#[tokio::test]
async fn ernie_ends_a_stream_with_a_mark_and_breaks_it_with_a_line() {
    let fake = Fake::start(Dialect::Ernie).await.unwrap();
    let reply = send(&fake, &fake.ask("hi you", true)).await;
    let frames: Vec<Value> = reply.payloads().collect();
    let text: String = frames.iter().filter_map(|frame| frame["result"].as_str()).collect();
    assert_eq!(text, "You said: hi you");
    let ends: Vec<bool> = frames.iter().map(|frame| frame["is_end"] == true).collect();
    assert_eq!(ends, [false, false, false, true]);
    assert_eq!((reply.dones(), frames[3]["usage"]["completion_tokens"].as_u64()), (0, Some(4)));
    let broken = send(&fake, &fake.ask("hi you break:336100:1", true)).await;
    let last = broken.text().lines().last().map(str::to_owned);
    assert!(
        last.is_some_and(|line| line.starts_with(r#"{"error_code":336100"#)),
        "{}",
        broken.text()
    );
}

#[tokio::test]
async fn dashscope_tells_errors_as_events_to_who_asked_for_events() {
    let fake = Fake::start(Dialect::DashScope).await.unwrap();
    let reply = send(&fake, &fake.ask("fail:Arrearage", true)).await;
    assert_eq!((reply.status, reply.header("content-type")), (Some(400), Some("application/json")));
    let text = reply.text();
    assert!(
        text.starts_with("id:1\nevent:error\n:HTTP_STATUS/400\ndata:{\"code\":\"Arrearage\""),
        "{text}"
    );
    let half = fake.ask("hi", true).without("x-dashscope-sse");
    assert_eq!(send(&fake, &half).await.json().unwrap()["code"], "InvalidParameter");
    let missing = send(&fake, &fake.ask("fail:model_not_found", true)).await;
    assert_eq!(missing.json().unwrap()["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn gemini_streams_with_crlf_or_as_one_list() {
    let fake = Fake::start(Dialect::Gemini).await.unwrap();
    let events = send(&fake, &fake.ask("hi", true)).await;
    assert!(events.text().ends_with("}\r\n\r\n"), "{}", events.text());
    assert_eq!(events.dones(), 0);
    let whole = fake.ask("hi", false).body;
    let list = Request::post("/v1beta/models/m1:streamGenerateContent")
        .header("x-goog-api-key", &fake.key());
    let list = send(&fake, &list.body(whole)).await.json().unwrap();
    let texts = list
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["candidates"][0]["content"]["parts"][0]["text"]);
    let text: String = texts.filter_map(Value::as_str).collect();
    assert_eq!(text, "You said: hi");
}

#[tokio::test]
async fn bedrock_checks_who_signed() {
    let fake = Fake::start(Dialect::Bedrock).await.unwrap();
    let signed = |header: &str| {
        let date = "20260101T000000Z";
        fake.ask("hi", false).header("authorization", header).header("x-amz-date", date)
    };
    // Worked out with another implementation, for the key's secret and this very request.
    let whole = format!(
        "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/bedrock/aws4_request, \
         SignedHeaders=host;x-amz-date, Signature=ed6e19473965afbe150be1cd8736686cbb1039dff785586df9ffee01e8c81b4e",
        fake.key(),
    );
    assert_eq!(send(&fake, &signed(&whole)).await.status, Some(200));
    for (from, to, class) in [
        ("host;", "", "IncompleteSignatureException"),
        ("/bedrock/", "/s3/", "IncompleteSignatureException"),
        ("us-east-1", "us-east-2", "InvalidSignatureException"),
        ("Credential=AKIA", "Credential=AKIB", "InvalidSignatureException"),
    ] {
        let reply = send(&fake, &signed(&whole.replace(from, to))).await;
        let named = reply.header("x-amzn-errortype").unwrap_or_default().to_owned();
        assert!(named.starts_with(class), "{to}: {named}");
    }
    let nobody = fake.ask("hi", false).without("authorization");
    assert_eq!(send(&fake, &nobody).await.status, Some(403));
    let stream = send(&fake, &fake.ask("hi", true)).await;
    assert!(contains(&stream.body, b":event-type") && contains(&stream.body, b"messageStop"));
}

async fn send(fake: &Fake, request: &Request) -> Reply {
    exchange(fake.upstream().address(), request, &[], LIMIT).await
}

/// Asks for a token of ERNIE, half in the query, half as a form.
async fn token(fake: &Fake, id: &str, secret: &str) -> Reply {
    let path = format!("/oauth/2.0/token?grant_type=client_credentials&client_id={id}");
    let request = Request::post(&path).header("content-type", "application/x-www-form-urlencoded");
    send(fake, &request.body(format!("client_secret={secret}"))).await
}
