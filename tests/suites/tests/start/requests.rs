//! Requests that make no sense.

use serde_json::{Value, json};
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Step, Upstream};
use tempfile::TempDir;

use crate::LIMIT;

/// A gateway that takes at most 1000 bytes, and an upstream that must never be asked.
struct World {
    gateway: Standalone,
    upstream: Upstream,
    _folder: TempDir,
}

impl World {
    async fn start(arguments: &[&str]) -> Self {
        let upstream = Upstream::fixed(Step::completion("ok")).await.unwrap();
        let folder = TempDir::with_prefix("sluicegate-start-").unwrap();
        let mut base = config::base(upstream.address());
        let mut named = config::model("gpt-4o-mini");
        named["aliases"] = json!(["best-model"]);
        base["models"].as_array_mut().unwrap().push(named);
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, base.to_string()).unwrap();
        let gateway = Standalone::start(&file, arguments, folder.path()).await.unwrap();
        Self { gateway, upstream, _folder: folder }
    }

    async fn ask(&self, request: &Request) -> Reply {
        exchange(self.gateway.traffic(), request, &[], LIMIT).await
    }

    /// Sends a request that must be refused so, in OpenAI's form and without asking upstream.
    async fn refused(&self, request: Request, status: u16, code: &str, parts: &[&str]) -> Reply {
        let reply = self.ask(&request).await;
        let text = reply.text();
        assert_eq!(reply.status, Some(status), "{code}: {text} {:?}", reply.problems);
        assert!(reply.is_json(), "{code}: {:?}", reply.headers);
        assert!(reply.header("x-request-id").is_some(), "{code}: {:?}", reply.headers);
        let error = reply.json().unwrap()["error"].clone();
        assert_eq!(error["code"], code, "{text}");
        for member in ["message", "type", "param", "code"] {
            assert!(error.get(member).is_some(), "{code}: no {member}: {text}");
        }
        let message = error["message"].as_str().unwrap();
        for part in parts {
            assert!(message.contains(part), "{message}\nlacks: {part}");
        }
        assert_eq!(self.upstream.count(), 0, "{code}: the upstream was asked");
        reply
    }
}

pub(crate) fn chat(key: &str, model: &str) -> Request {
    raw(openai::chat(model, false)).bearer(key)
}

fn raw(body: impl Into<bytes::Bytes>) -> Request {
    Request::post("/v1/chat/completions").bearer(KEY).body(body)
}

#[tokio::test]
async fn a5_bodies_that_cannot_be_read_are_refused() {
    let world = World::start(&[]).await;
    let invalid = "invalid_request";
    for body in ["", "{", "{\"model\":\"m1\",}", "{\"model\":\"m1\"} x", "nothing"] {
        world.refused(raw(body), 400, invalid, &["JSON"]).await;
    }
    for body in ["[]", "1", "\"m1\"", "null"] {
        world.refused(raw(body), 400, invalid, &["object"]).await;
    }
    world.refused(raw("{\"messages\":[]}"), 400, invalid, &["model"]).await;
    world.refused(raw("{\"model\":7,\"messages\":[]}"), 400, invalid, &["model"]).await;
    let twice = "{\"model\":\"m1\",\"model\":\"gpt-4o-mini\",\"messages\":[]}";
    world.refused(raw(twice), 400, invalid, &["model"]).await;

    let bytes = [
        b"{\"model\":\"m1\",\"messages\":[{\"role\":\"user\",\"content\":\"",
        &b"\xff\xfe"[..],
        b"\"}]}",
    ];
    world.refused(raw(bytes.concat()), 400, invalid, &["UTF-8"]).await;

    for open in ["[", "{\"a\":"] {
        let deep = format!("{{\"model\":\"m1\",\"messages\":{}", open.repeat(100_000));
        world.refused(raw(deep), 400, invalid, &[]).await;
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"model\":\"m1\",\"messages\":{deep}}}");
    world.refused(raw(deep), 400, invalid, &["deep"]).await;

    // It serves on.
    assert_eq!(world.ask(&chat(KEY, "m1")).await.status, Some(200));
}

#[tokio::test]
async fn a5_a_body_over_the_limit_is_413() {
    let world = World::start(&["--max-body-bytes", "1000"]).await;
    let padded = |n: usize| {
        let fill = |n| json!({"model": "m1", "messages": [], "x": "y".repeat(n)}).to_string();
        fill(n - fill(0).len())
    };
    let said = "the request body is over the gateway's limit of 1000 bytes";
    world.refused(raw(padded(1001)), 413, "request_too_large", &[said]).await;
    world.refused(raw(padded(100_000)), 413, "request_too_large", &[said]).await;
    let chunked = format!("3e9\r\n{}\r\n0\r\n\r\n", padded(1001));
    let request = raw(chunked).header("transfer-encoding", "chunked");
    world.refused(request, 413, "request_too_large", &[said]).await;
    assert_eq!(world.ask(&raw(padded(1000))).await.status, Some(200));
}

#[tokio::test]
async fn a5_paths_and_methods_that_are_not_served_are_json_errors() {
    let world = World::start(&[]).await;
    for path in ["/", "/v1", "/v1/chat", "/v2/chat/completions", "/v1/chat/completions/x"] {
        let request = Request::post(path).bearer(KEY).body(openai::chat("m1", false));
        let parts = ["unknown path", path, "/v1/chat/completions"];
        world.refused(request, 404, "unknown_url", &parts).await;
    }
    for method in ["GET", "PUT", "DELETE"] {
        let request = Request::new(method, "/v1/chat/completions").bearer(KEY);
        let reply = world.refused(request, 405, "method_not_allowed", &["this path takes POST"]);
        assert_eq!(reply.await.header("allow"), Some("POST"));
    }
    let request = Request::post("/v1/models").bearer(KEY).body("{}");
    let reply = world.refused(request, 405, "method_not_allowed", &["this path takes GET"]).await;
    assert!(reply.header("allow").is_some_and(|allow| allow.contains("GET")));
}

#[tokio::test]
async fn a8_an_unknown_model_names_near_misses() {
    let world = World::start(&[]).await;
    for (asked, near) in [
        ("GPT-4o-mini", "'gpt-4o-mini'"),
        ("gpt4o-mini", "'gpt-4o-mini'"),
        ("gpt-4o", "'gpt-4o-mini'"),
        ("gpt_4o_mini", "'gpt-4o-mini'"),
        ("gpt-4o-mini ", "'gpt-4o-mini'"),
        ("M1", "'m1'"),
        ("best_model", "'best-model'"),
    ] {
        let parts = [&format!("the model '{asked}' does not exist; did you mean "), near];
        let reply = world.refused(chat(KEY, asked), 404, "model_not_found", &parts).await;
        assert_eq!(reply.json().unwrap()["error"]["param"], "model");
    }
    let parts = ["the model 'claude' does not exist; GET /v1/models lists the models of this key"];
    world.refused(chat(KEY, "claude"), 404, "model_not_found", &parts).await;
    let long = "x".repeat(100_000);
    let reply = world.refused(chat(KEY, &long), 404, "model_not_found", &[]).await;
    assert!(reply.body.len() < 2000, "{} bytes of error", reply.body.len());
    let request = Request::get("/v1/models/no/such").bearer(KEY);
    world.refused(request, 404, "model_not_found", &["no/such"]).await;
}

#[tokio::test]
async fn a9_callers_without_a_good_key_are_refused() {
    let world = World::start(&[]).await;
    let body = openai::chat("m1", false);
    let bare = || Request::post("/v1/chat/completions").body(body.clone());
    world.refused(bare(), 401, "missing_api_key", &["Authorization: Bearer KEY"]).await;
    world.refused(bare().bearer("sk-wrong"), 401, "invalid_api_key", &["not known"]).await;
    for authorization in ["Basic YTpi", "Bearer", "Bearer ", KEY] {
        let request = bare().header("authorization", authorization);
        let reply = world.ask(&request).await;
        assert_eq!(reply.status, Some(401), "{authorization}: {}", reply.text());
        assert!(!reply.text().contains(KEY));
        assert!(reply.json().unwrap()["error"]["message"].is_string());
    }
    let reply = world.ask(&Request::get("/v1/models")).await;
    assert_eq!((reply.status, reply.is_json()), (Some(401), true));
    let error: Value = reply.json().unwrap();
    assert_eq!(error["error"]["code"], "missing_api_key");
}
