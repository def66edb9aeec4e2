//! A control plane, data planes and an upstream, and how they are asked.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{CliOutput, ControlPlane, DataPlane, Redis, Stores, cli};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::upstream::Upstream;
use tempfile::TempDir;

use crate::script::{Script, key_of, model_of};

/// For everything that has no limit of its own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// In which time the fleet must know what one of its data planes has seen.
pub(crate) const TOLD: Duration = Duration::from_secs(2);
const CALLER: &str = "sk-caller-main";

pub(crate) struct World {
    pub(crate) planes: Vec<DataPlane>,
    pub(crate) control: ControlPlane,
    pub(crate) redis: Option<Redis>,
    pub(crate) upstream: Upstream,
    pub(crate) script: Script,
    folder: TempDir,
}

impl World {
    /// One data plane, and provider `p` with these keys and that key pool.
    pub(crate) async fn new(keys: &[&str], key_pool: Value) -> Self {
        Self::start(1, false, keys, key_pool).await
    }

    /// So many data planes, and on wish a Redis that outlives a kill.
    pub(crate) async fn start(planes: usize, redis: bool, keys: &[&str], key_pool: Value) -> Self {
        let folder = TempDir::with_prefix("sluicegate-pool-").unwrap();
        let script = Script::default();
        let asked = script.clone();
        let upstream = Upstream::start(move |call| asked.answer(call)).await.unwrap();
        let redis = match redis {
            true => Some(Redis::start_durable(folder.path()).await.unwrap()),
            false => None,
        };
        let seal_key = folder.path().join("seal.key");
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&seal_key).unwrap();
        file.write_all("0f".repeat(32).as_bytes()).unwrap();
        let stores = Stores { etcd: None, redis: redis.as_ref().map(Redis::client) };
        let started = ControlPlane::start_with("control", stores, &[], &seal_key, folder.path());
        let control = started.await.unwrap();
        let mut running = Vec::new();
        for number in 0..planes {
            let name = format!("data-plane-{number}");
            let servers = [control.grpc()];
            running.push(DataPlane::start(&name, &servers, &[], folder.path()).await.unwrap());
        }
        let world = Self { planes: running, control, redis, upstream, script, folder };
        world.apply(keys, key_pool, json!({})).await;
        world
    }

    /// Makes this the configuration, with members of each key by its name, the server's `variant` if one
    /// is given beside them, and waits until every data plane has it.
    pub(crate) async fn apply(&self, keys: &[&str], key_pool: Value, members: Value) {
        let key = |name: &&str| {
            let mut key =
                json!({"name": name, "secret": {"value": format!("sk-upstream-secret-{name}")}});
            if let Some(more) = members[*name].as_object() {
                key.as_object_mut().unwrap().extend(more.clone());
            }
            key
        };
        let model = |name: &str| {
            json!({"name": name, "targets": [{"provider": "p", "model": name}],
                   "retry": {"max_attempts": 4, "backoff_ms": 20}})
        };
        let document = json!({
            "providers": [{
                "name": "p", "dialect": "openai-chat",
                "variant": members["variant"].as_str().unwrap_or("generic"),
                "base_url": format!("http://{}/cell/p/v1", self.upstream.address()),
                "keys": keys.iter().map(key).collect::<Vec<_>>(),
                "key_pool": key_pool,
            }],
            "models": [model("m1"), model("m2")],
            "api_keys": [{"name": "main", "secret": {"value": CALLER}}],
        });
        let path = self.folder.path().join("applied.yaml");
        std::fs::write(&path, format!("{document:#}")).unwrap();
        let mut admin = Admin::new(self.control.grpc()).unwrap();
        let connected = |fleet: &sluicegate_proto::admin::v1::FleetStatusReply| {
            let connected = fleet.data_planes.iter().filter(|plane| plane.connected).count();
            (connected == self.planes.len()).then_some(())
        };
        admin.wait_for_fleet(LIMIT, "every data plane", connected).await.unwrap();
        self.ok(&["apply", "-f", path.to_str().unwrap(), "--wait", "1.0"]).await;
    }

    pub(crate) async fn cli(&self, arguments: &[&str]) -> CliOutput {
        cli(self.control.grpc(), arguments).await.unwrap()
    }

    /// Runs a command that must go through; gives what it printed.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", output.said());
        output.stdout
    }

    /// Sends a request for a model to one of the data planes.
    pub(crate) async fn ask(&self, plane: usize, model: &str) -> Reply {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
        let request = Request::post("/v1/chat/completions").bearer(CALLER).body(body.to_string());
        exchange(self.planes[plane].traffic(), &request, &[], LIMIT).await
    }

    /// So many requests for `m1`, one after the other, to the first data plane; all must be served.
    pub(crate) async fn served(&self, n: usize) {
        for number in 0..n {
            let reply = self.ask(0, "m1").await;
            assert_eq!(reply.status, Some(200), "{number}: {}", reply.text());
        }
    }

    /// How many calls the upstream got with a key.
    pub(crate) fn calls(&self, key: &str) -> usize {
        self.upstream.calls(|call| key_of(call) == key).len()
    }

    pub(crate) fn calls_with(&self, key: &str, model: &str) -> usize {
        self.upstream.calls(|call| key_of(call) == key && model_of(call) == model).len()
    }

    /// How a key stands, as the control plane says it.
    pub(crate) async fn status(&self, key: &str) -> Value {
        let name = format!("p/{key}");
        let text = self.ok(&["key-pool", "status", &name, "-o", "json"]).await;
        let value: Value = serde_json::from_str(&text).unwrap();
        value["credentials"][0].clone()
    }

    /// Waits until the control plane says that of a key.
    pub(crate) async fn stands(&self, key: &str, state: &str, limit: Duration) -> Value {
        let mut last = Value::Null;
        let waiting = async {
            loop {
                last = self.status(key).await;
                if last["state"] == state {
                    return last.clone();
                }
            }
        };
        within(limit, &format!("{key} being {state}"), waiting).await.unwrap()
    }

    /// Waits until a data plane refuses requests for `m1`, which it would serve otherwise, and says
    /// what it answers then.
    pub(crate) async fn refuses(&self, plane: usize, limit: Duration) -> Reply {
        let waiting = async {
            loop {
                let reply = self.ask(plane, "m1").await;
                if reply.status != Some(200) {
                    return reply;
                }
            }
        };
        within(limit, "a refusal", waiting).await.unwrap()
    }

    /// The sample of a metric of a data plane.
    pub(crate) async fn metric(&self, plane: usize, line: &str) -> f64 {
        let text = http_get(self.planes[plane].ops(), "/metrics").await.text();
        let found = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }
}

/// The code of an error.
pub(crate) fn code(reply: &Reply) -> String {
    reply.json().unwrap_or_default()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// `retry-after` in seconds.
pub(crate) fn retry_after(reply: &Reply) -> u64 {
    reply.header("retry-after").and_then(|text| text.parse().ok()).unwrap_or(0)
}
