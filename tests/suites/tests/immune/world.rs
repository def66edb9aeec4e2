//! A gateway in front of scripted upstreams.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{Standalone, cli};
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) const CALLER: &str = "sk-caller-of-immune-gateways";
/// Another caller, named `other`, who may use only models whose names begin with `auto`.
pub(crate) const OTHER: &str = "sk-other-of-immune-gateways";
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// One gateway, and one upstream that plays every provider: the first part of a path names it.
pub(crate) struct World {
    pub(crate) gateway: Standalone,
    pub(crate) upstream: Upstream,
    _folder: TempDir,
}

impl World {
    /// `models` and `providers` as in a configuration; each provider gets its address.
    pub(crate) async fn start(
        providers: Value,
        models: Value,
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let folder = TempDir::with_prefix("sluicegate-immune-").unwrap();
        let upstream = Upstream::start(script).await.unwrap();
        let mut providers = providers;
        for provider in providers.as_array_mut().unwrap() {
            let name = provider["name"].as_str().unwrap().to_owned();
            provider["base_url"] = format!("http://{}/{name}/v1", upstream.address()).into();
            for (member, value) in [
                ("dialect", json!("openai-chat")),
                ("variant", json!("openai")),
                ("keyless", json!(true)),
            ] {
                provider.as_object_mut().unwrap().entry(member).or_insert(value);
            }
        }
        let config = json!({
            "providers": providers,
            "models": models,
            "api_keys": [
                { "name": "caller", "secret": { "value": CALLER } },
                { "name": "other", "secret": { "value": OTHER }, "models": ["auto*"] },
            ],
        });
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let gateway = Standalone::start(&file, &[], folder.path()).await.unwrap();
        Self { gateway, upstream, _folder: folder }
    }

    /// Asks a model something; the reply, and how long it took.
    pub(crate) async fn ask(&self, model: &str, what: &str, stream: bool) -> (Reply, Duration) {
        self.ask_with(model, what, stream, &[]).await
    }

    pub(crate) async fn ask_with(
        &self,
        model: &str,
        what: &str,
        stream: bool,
        headers: &[(&str, &str)],
    ) -> (Reply, Duration) {
        let body = json!({
            "model": model, "stream": stream, "messages": [{ "role": "user", "content": what }],
        });
        let begun = Instant::now();
        let reply = self.post(CALLER, &body, headers).await;
        (reply, begun.elapsed())
    }

    /// Sends a body with a caller's key.
    pub(crate) async fn post(&self, key: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
        post(self.gateway.traffic(), key, body, headers).await
    }

    /// What an admin command says, as JSON.
    pub(crate) async fn admin(&self, arguments: &[&str]) -> Value {
        let output = cli(self.gateway.admin(), arguments).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", output.said());
        serde_json::from_str(&output.stdout).unwrap()
    }
}

/// Sends a chat request.
pub(crate) async fn post(
    to: SocketAddr,
    key: &str,
    body: &Value,
    headers: &[(&str, &str)],
) -> Reply {
    let mut request = Request::post("/v1/chat/completions").bearer(key).body(body.to_string());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    exchange(to, &request, &[], LIMIT).await
}

/// What the last user said, which chooses the answer.
pub(crate) fn asked(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// Does the call want a stream?
pub(crate) fn streams(call: &Call) -> bool {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["stream"] == json!(true)
}

/// A good answer in the mode that is asked for.
pub(crate) fn good(call: &Call, text: &str) -> Vec<Step> {
    if streams(call) { Step::stream(text) } else { Step::completion(text) }
}

/// An error in OpenAI's form.
pub(crate) fn refused(status: u16, message: &str, code: &str) -> Vec<Step> {
    let error =
        json!({ "error": { "message": message, "type": "x", "param": null, "code": code } });
    Step::json(status, error.to_string())
}
