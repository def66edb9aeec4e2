//! Upstreams that do what nobody should, and keys that are none.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{Standalone, cli};
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);
const CALLER: &str = "sk-caller-of-odd-ones";
/// A key that looks like nothing in particular.
const SECRET: &str = "plain-looking-provider-key";

struct World {
    gateway: Standalone,
    upstream: Upstream,
    folder: TempDir,
}

impl World {
    async fn start(script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let folder = TempDir::with_prefix("sluicegate-odd-").unwrap();
        let upstream = Upstream::start(script).await.unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, Self::config(&upstream, json!([])).to_string()).unwrap();
        let gateway = Standalone::start(&file, &[], folder.path()).await.unwrap();
        Self { gateway, upstream, folder }
    }

    /// The base configuration, and more providers beside it.
    fn config(upstream: &Upstream, more: Value) -> Value {
        let mut providers = vec![json!({
            "name": "p", "dialect": "openai-chat", "variant": "openai",
            "base_url": format!("http://{}/v1", upstream.address()),
            "keys": [{ "name": "k", "secret": { "value": SECRET } }],
            "key_pool": { "last_resort": "soonest" },
        })];
        providers.extend(more.as_array().cloned().unwrap_or_default());
        json!({
            "providers": providers,
            "models": [{ "name": "m", "targets": [{ "provider": "p" }] }],
            "api_keys": [{ "name": "caller", "secret": { "value": CALLER } }],
        })
    }

    async fn ask(&self, what: &str, stream: bool) -> Reply {
        let body = json!({
            "model": "m", "stream": stream, "messages": [{ "role": "user", "content": what }],
        });
        let request = Request::post("/v1/chat/completions").bearer(CALLER).body(body.to_string());
        exchange(self.gateway.traffic(), &request, &[], LIMIT).await
    }
}

/// What the last user said, which chooses the answer.
fn asked(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

fn refused(status: u16, message: &str, code: &str) -> Vec<Step> {
    let error =
        json!({ "error": { "message": message, "type": "x", "param": null, "code": code } });
    Step::json(status, error.to_string())
}

/// A wait that no duration holds, wherever it stands, is no reason to fall over.
#[tokio::test]
async fn c5_absurd_waits_are_answered() {
    const ABSURD: &str = "18000000000000000000s18000000000000000000s";
    let world = World::start(|call| match asked(call).as_str() {
        "words" => refused(429, &format!("try again in {ABSURD}"), "rate_limit_exceeded"),
        "header" => {
            let headers = [
                ("content-type", "application/json"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", ABSURD),
            ];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            vec![Step::Head(429, headers.into()), Step::send("{}"), Step::End]
        }
        _ => Step::json(429, format!(r#"{{"error":{{"message":"m","retry_after":"{ABSURD}"}}}}"#)),
    })
    .await;
    for what in ["words", "header", "member"] {
        let reply = world.ask(what, false).await;
        assert_eq!(reply.status, Some(429), "{what}: {}", world.gateway.last_words());
    }
}

/// The key itself never passes, whatever it looks like: in words, codes, events and logs.
#[tokio::test]
async fn a5_the_key_is_taken_out_of_whatever_the_upstream_says() {
    let world = World::start(|call| match asked(call).as_str() {
        "words" => refused(400, &format!("the key {SECRET} is odd"), "odd"),
        "code" => refused(400, "odd", SECRET),
        "plain" => vec![
            Step::head(400, "text/plain"),
            Step::send(format!("{SECRET} at gpu-7.internal.corp for account 123456789012")),
            Step::End,
        ],
        "event" => {
            let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": "A" } }] });
            let error =
                json!({ "error": { "message": format!("{SECRET} broke"), "code": SECRET } });
            vec![
                Step::event_stream(),
                Step::send(format!("data: {chunk}\n\ndata: {error}\n\n")),
                Step::End,
            ]
        }
        _ => refused(401, &format!("bad key {SECRET}"), "invalid_api_key"),
    })
    .await;
    for what in ["words", "code", "plain", "event", "refused"] {
        let reply = world.ask(what, what == "event").await;
        let text = reply.text();
        for private in [SECRET, "internal.corp", "123456789012", "127.0.0.1"] {
            assert!(!text.contains(private), "{what}: {text}");
        }
    }
    let status = cli(world.gateway.admin(), &["key-pool", "status", "-o", "json"]).await.unwrap();
    let words = format!("{}{}", status.said(), world.gateway.last_words());
    assert!(words.contains("bad key") && !words.contains(SECRET), "{words}");
}

/// A stream that calls itself JSON is a stream; an error in it is that error.
#[tokio::test]
async fn c3_streams_under_another_name_are_read() {
    let world = World::start(|call| {
        let text = if asked(call) == "well" {
            sluicegate_testkit::openai::stream("well")
        } else {
            let error = json!({ "error": { "message": "m", "code": "server_is_overloaded" } });
            format!("data: {error}\n\n")
        };
        vec![Step::head(200, "application/json"), Step::send(text), Step::End]
    })
    .await;
    let reply = world.ask("well", true).await;
    assert_eq!((reply.status, reply.content().as_deref()), (Some(200), Some("well")));
    assert_eq!(reply.dones(), 1);
    for stream in [true, false] {
        assert_eq!(world.ask("full", stream).await.status, Some(503));
    }
}

/// A key that its dialect cannot use is refused when it is applied, with its field and a hint.
#[tokio::test]
async fn c5_a_key_that_is_none_is_refused_when_it_is_applied() {
    let world = World::start(|_| Step::completion("ok")).await;
    for (dialect, secret, hint) in [
        ("ernie-v1", "nocolon", "API_KEY:SECRET_KEY"),
        ("ernie-v1", ":secret", "API_KEY:SECRET_KEY"),
        ("bedrock-converse", "access:", "ACCESS:SECRET"),
        ("bedrock-converse", "access:secret", "region"),
    ] {
        let more = json!([{
            "name": "q", "dialect": dialect, "base_url": "http://127.0.0.1:9",
            "keys": [{ "name": "k", "secret": { "value": secret } }],
        }]);
        let file = world.folder.path().join("more.yaml");
        std::fs::write(&file, World::config(&world.upstream, more).to_string()).unwrap();
        let path = file.display().to_string();
        let output = cli(world.gateway.admin(), &["apply", "-f", &path]).await.unwrap();
        let said = output.said();
        assert!(!output.status.success() && said.contains(hint), "{dialect} {secret}: {said}");
        let place = "providers[1].keys[0].secret";
        assert!(said.contains(place) && !said.contains(secret), "{said}");
    }
    assert_eq!(world.ask("hi", false).await.status, Some(200));
}

/// A server that does not know `stream_options` is not asked for usage again; its caller asked for
/// nothing.
#[tokio::test]
async fn a15_a_server_that_cannot_be_asked_for_usage_answers_all_the_same() {
    let world = World::start(|call| {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        if body.get("stream_options").is_some() {
            return refused(400, "Unrecognized request argument: stream_options", "unknown");
        }
        Step::stream("well")
    })
    .await;
    let reply = world.ask("hi", true).await;
    assert_eq!((reply.status, reply.content().as_deref()), (Some(200), Some("well")));
    assert_eq!(world.upstream.count(), 2);
}

/// What a model is not for is no fault of its key: its chats go on.
#[tokio::test]
async fn c5_a_refused_embedding_leaves_the_models_chats_alone() {
    let world = World::start(|call| match call.target.as_str() {
        "/v1/embeddings" => refused(404, "The model `m` does not exist", "model_not_found"),
        _ => Step::completion("ok"),
    })
    .await;
    let body = json!({ "model": "m", "input": "hi" }).to_string();
    let request = Request::post("/v1/embeddings").bearer(CALLER).body(body);
    let refused = exchange(world.gateway.traffic(), &request, &[], LIMIT).await;
    assert_eq!(refused.status, Some(404), "{}", refused.text());
    assert_eq!(world.ask("hi", false).await.status, Some(200));
}
