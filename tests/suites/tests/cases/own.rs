//! A gateway of one test's own, for what the shared one cannot show.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;

/// The longest that anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A gateway with one provider, one model and the keys it is told.
pub(crate) struct Gateway {
    pub(crate) process: Standalone,
    pub(crate) upstream: Upstream,
    config: PathBuf,
    _folder: TempDir,
}

impl Gateway {
    pub(crate) async fn start(
        keys: &[&str],
        arguments: &[&str],
        script: impl Fn(&Call) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let upstream = Upstream::start(script).await.expect("an upstream");
        let folder = TempDir::with_prefix("sluicegate-own-").expect("a folder");
        let config = folder.path().join("gateway.yaml");
        std::fs::write(&config, configuration(&upstream, keys)).expect("a writable folder");
        let process = Standalone::start(&config, arguments, folder.path()).await;
        Self { process: process.expect("a gateway"), upstream, config, _folder: folder }
    }

    /// Puts another configuration in place of the present one, at once and whole.
    pub(crate) fn configure(&self, text: &str) {
        let new = self.config.with_extension("new");
        std::fs::write(&new, text).expect("a writable folder");
        std::fs::rename(&new, &self.config).expect("a writable folder");
    }

    pub(crate) async fn ask(&self, key: &str) -> Reply {
        let request = request(key, openai::chat("m1", false));
        exchange(self.process.traffic(), &request, &[], LIMIT).await
    }
}

pub(crate) fn request(key: &str, body: String) -> Request {
    Request::post("/v1/chat/completions").bearer(key).body(body)
}

/// The configuration with these keys, each with the secret `sk-cl-` and its name.
pub(crate) fn configuration(upstream: &Upstream, keys: &[&str]) -> String {
    let base_url = format!("http://{}/cell/p1/v1", upstream.address());
    json!({
        "providers": [provider("p1", &base_url)],
        "models": [model("m1", "p1")],
        "tenants": [{"name": "default"}],
        "api_keys": keys.iter().map(|key| api_key(key)).collect::<Vec<_>>(),
    })
    .to_string()
}

/// A provider with one key.
pub(crate) fn provider(name: &str, base_url: &str) -> Value {
    json!({
        "name": name, "dialect": "openai-chat", "base_url": base_url,
        "keys": [{"name": "k1", "secret": {"value": "sk-up-k1"}}],
    })
}

/// A model that is called `m1` upstream.
pub(crate) fn model(name: &str, provider: &str) -> Value {
    json!({"name": name, "targets": [{"provider": provider, "model": "m1"}]})
}

pub(crate) fn api_key(name: &str) -> Value {
    json!({"name": name, "tenant": "default", "secret": {"value": format!("sk-cl-{name}")}})
}
