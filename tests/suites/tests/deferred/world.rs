//! Gateways whose models keep what they cannot run, and how they are asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{Cluster, Standalone, cli};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const ALICE: &str = "sk-caller-alice-of-deferred";
pub(crate) const BOB: &str = "sk-caller-bob-of-deferred";

/// The upstream of every gateway: it fails while it is ill.
pub(crate) struct Target {
    pub(crate) upstream: Upstream,
    ill: Arc<AtomicBool>,
}

impl Target {
    /// Ill at first. Each call is answered after `slow_ms`.
    pub(crate) async fn start(slow_ms: u64) -> Self {
        let ill = Arc::new(AtomicBool::new(true));
        let is_ill = ill.clone();
        let upstream = Upstream::start(move |call| {
            if is_ill.load(Ordering::Relaxed) {
                return Step::json(500, r#"{"error":{"message":"no","type":"server_error"}}"#);
            }
            let mut steps = vec![Step::sleep_ms(slow_ms)];
            steps.extend(Step::completion(&answer(call)));
            steps
        });
        Self { upstream: upstream.await.unwrap(), ill }
    }

    pub(crate) fn heal(&self) {
        self.ill.store(false, Ordering::Relaxed);
    }

    pub(crate) fn fall_ill(&self) {
        self.ill.store(true, Ordering::Relaxed);
    }

    /// Calls that were about this.
    pub(crate) fn calls_about(&self, what: &str) -> Vec<Call> {
        self.upstream.calls(|call| asked(call) == what)
    }

    /// A provider with this upstream, a model that keeps what it cannot run and one that does not, and
    /// the keys of two tenants.
    pub(crate) fn config(&self) -> Value {
        json!({
            "providers": [{
                "name": "p", "dialect": "openai-chat", "keyless": true,
                "base_url": format!("http://{}/p/v1", self.upstream.address()),
                "breaker": { "open_ms": 300, "max_open_ms": 1000, "ramp_step_ms": 100 },
            }],
            "models": [
                {
                    "name": "later", "aliases": ["someday"],
                    "targets": [{ "provider": "p", "model": "m1" }],
                    "retry": { "max_attempts": 1 },
                    "when_unavailable": { "answer": "defer", "wait_ms": 100 },
                },
                {
                    "name": "now", "targets": [{ "provider": "p", "model": "m1" }],
                    "retry": { "max_attempts": 1 },
                },
            ],
            "tenants": [{ "name": "a" }, { "name": "b" }],
            "api_keys": [
                { "name": "alice", "tenant": "a", "secret": { "value": ALICE } },
                { "name": "bob", "tenant": "b", "secret": { "value": BOB } },
            ],
        })
    }
}

/// What a well upstream says: what was asked, and which call of all it is.
fn answer(call: &Call) -> String {
    format!("{} #{}", asked(call), call.number)
}

fn asked(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// One process with everything in it.
pub(crate) struct Alone {
    pub(crate) gateway: Standalone,
    pub(crate) target: Target,
    pub(crate) folder: TempDir,
}

impl Alone {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// With a changed configuration.
    pub(crate) async fn with(change: impl FnOnce(&mut Value)) -> Self {
        let folder = TempDir::with_prefix("sluicegate-deferred-").unwrap();
        let target = Target::start(0).await;
        let mut config = target.config();
        change(&mut config);
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let arguments = ["--webhook-allow", "127.0.0.0/8"];
        let gateway = Standalone::start(&file, &arguments, folder.path()).await.unwrap();
        Self { gateway, target, folder }
    }

    /// What an admin command says, as JSON.
    pub(crate) async fn admin(&self, arguments: &[&str]) -> Value {
        let output = cli(self.gateway.admin(), arguments).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", output.said());
        serde_json::from_str(&output.stdout).unwrap()
    }

    pub(crate) fn caller(&self, key: &'static str) -> Caller {
        Caller { server: self.gateway.traffic(), key }
    }
}

/// Two control planes on one etcd and one Redis, and two data planes.
pub(crate) struct Fleet {
    pub(crate) cluster: Cluster,
    pub(crate) target: Target,
}

impl Fleet {
    pub(crate) async fn start(slow_ms: u64, change: impl FnOnce(&mut Value)) -> Self {
        let target = Target::start(slow_ms).await;
        let builder = Cluster::builder().etcd().durable_redis().control_planes(2).data_planes(2);
        let builder = builder.data_plane_argument("--drain-ms").data_plane_argument("300");
        let cluster = builder.start().await.unwrap();
        let mut admin = Admin::new(cluster.control_planes[0].grpc()).unwrap();
        admin.wait_for_head(2, LIMIT).await.unwrap();
        let mut config = target.config();
        change(&mut config);
        cluster.apply(&config.to_string()).await.unwrap();
        Self { cluster, target }
    }

    pub(crate) fn caller(&self, plane: usize, key: &'static str) -> Caller {
        Caller { server: self.cluster.data_planes[plane].traffic(), key }
    }
}

/// Somebody who asks a data plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) server: SocketAddr,
    pub(crate) key: &'static str,
}

impl Caller {
    pub(crate) async fn ask(&self, model: &str, what: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": what }] });
        self.post(&body, headers).await
    }

    pub(crate) async fn post(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        let request = Request::post("/v1/chat/completions").body(body.to_string());
        let all = headers.iter();
        self.send(all.fold(request, |request, (name, value)| request.header(name, value))).await
    }

    /// Asks the model that keeps requests; gives the id.
    pub(crate) async fn taken(&self, what: &str, headers: &[(&str, &str)]) -> String {
        let reply = self.ask("later", what, headers).await;
        assert_eq!(reply.status, Some(202), "{}", reply.text());
        reply.json().unwrap()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, id: &str) -> Reply {
        self.send(Request::get(&format!("/v1/deferred/{id}"))).await
    }

    pub(crate) async fn delete(&self, id: &str) -> Reply {
        self.send(Request::new("DELETE", &format!("/v1/deferred/{id}"))).await
    }

    async fn send(&self, request: Request) -> Reply {
        exchange(self.server, &request.bearer(self.key), &[], LIMIT).await
    }

    /// How a request stands.
    pub(crate) async fn standing(&self, id: &str) -> Value {
        let reply = self.get(id).await;
        assert_eq!(reply.status, Some(200), "{}", reply.text());
        reply.json().unwrap()
    }

    /// Waits until a request has ended; how it stands then.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        let waiting = async {
            loop {
                let standing = self.standing(id).await;
                if !matches!(standing["status"].as_str(), Some("queued" | "running")) {
                    return standing;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        within(LIMIT, &format!("the end of {id}"), waiting).await.unwrap()
    }
}

/// The text of the answer that a request came to.
pub(crate) fn content(standing: &Value) -> &str {
    let text = &standing["response"]["body"]["choices"][0]["message"]["content"];
    text.as_str().unwrap_or_default()
}

/// The error code of a reply.
pub(crate) fn code(reply: &Reply) -> String {
    let body = reply.json().unwrap_or_default();
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}
