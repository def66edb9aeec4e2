//! `demo-upstream` over the wire.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
};

use crate::program::Program;

/// Starts it on a free port; gives its base URL.
async fn start(program: &Program) -> (Child, String) {
    let mut child = program.command(&["demo-upstream", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await;
    let line = line.unwrap().unwrap().unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    (child, url.to_owned())
}

/// Status and body of one call.
async fn call(method: &str, url: String, body: &str) -> (u16, String) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let body = Full::new(Bytes::from(body.to_owned()));
    let request = Request::builder().method(method).uri(url).body(body).unwrap();
    let reply = client.request(request).await.unwrap();
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn post(base: &str, path: &str, body: &Value) -> Value {
    let (status, text) = call("POST", format!("{base}{path}"), &body.to_string()).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn answers_and_streams() {
    let program = Program::offline();
    let (_child, base) = start(&program).await;
    let mut request = json!({
        "model": "demo",
        "messages": [{ "role": "user", "content": "hello there" }],
    });
    let whole = post(&base, "/chat/completions", &request).await;
    let content = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(content.starts_with("You said: hello there"), "{content}");

    request["stream"] = true.into();
    request["stream_options"] = json!({ "include_usage": true });
    let url = format!("{base}/chat/completions");
    let (_, stream) = call("POST", url, &request.to_string()).await;
    let events: Vec<_> = stream.split("\n\n").filter(|event| !event.is_empty()).collect();
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(*done, "data: [DONE]");
    let chunks: Vec<Value> = chunks
        .iter()
        .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let streamed: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(streamed, content);
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);

    request["stream"] = false.into();
    request["max_completion_tokens"] = 2.into();
    let cut = post(&base, "/chat/completions", &request).await;
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert_eq!(cut["choices"][0]["message"]["content"], "You said:");

    let prompt = json!({ "model": "demo", "prompt": "x" });
    let completion = post(&base, "/completions", &prompt).await;
    assert_eq!(completion["object"], "text_completion");
    let input = json!({ "model": "demo", "input": ["a", "b"], "encoding_format": "base64" });
    let embeddings = post(&base, "/embeddings", &input).await;
    assert!(embeddings["data"][1]["embedding"].is_string());
}

#[tokio::test]
async fn errors_have_openais_form() {
    let program = Program::offline();
    let (_child, base) = start(&program).await;
    check(&base, ("POST", "/chat/completions", "{"), 400, "not JSON").await;
    check(&base, ("POST", "/chat/completions", "[]"), 400, "object").await;
    check(&base, ("POST", "/chat/completions", "{}"), 400, "model").await;
    check(&base, ("GET", "/chat/completions", ""), 405, "use POST").await;
    check(&base, ("POST", "/nothing", "{}"), 404, "unknown path").await;
    check(&base, ("GET", "/models/gpt-9", ""), 404, "gpt-9").await;

    let (status, models) = call("GET", format!("{base}/models"), "").await;
    assert_eq!(status, 200);
    assert!(models.contains("\"demo\""), "{models}");

    async fn check(base: &str, case: (&str, &str, &str), status: u16, part: &str) {
        let (method, path, body) = case;
        let (actual, text) = call(method, format!("{base}{path}"), body).await;
        assert_eq!(actual, status, "{path}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        let error = error["error"].as_object().unwrap();
        for key in ["message", "type", "param", "code"] {
            assert!(error.contains_key(key), "{text}");
        }
        assert!(error["message"].as_str().unwrap().contains(part), "{text}");
    }
}

#[tokio::test]
async fn stops_on_a_signal_and_says_when_the_port_is_taken() {
    let program = Program::offline();
    let (mut child, base) = start(&program).await;
    let address = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let taken = program.run(&["demo-upstream", "--listen", &address]).await;
    taken.fails(1, &["cannot listen on"]);
    let id = child.id().unwrap().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(killed.success());
    let status = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
}
