//! A cluster with a policy, and how it is asked.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use sluicegate_suites::admin::Admin;
use sluicegate_suites::config::{self, KEY};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{CliOutput, Cluster, DataPlane};
use sluicegate_testkit::openai;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::upstream::{Call, Step, Upstream};

/// For everything that has no limit of its own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The model whose streams tick for [`LONG`]; its name is also what the upstream is asked for.
pub(crate) const LONG_MODEL: &str = "long";
/// How long and how often a long stream ticks.
pub(crate) const LONG: Duration = Duration::from_secs(12);
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) admin: Admin,
    pub(crate) upstream: Upstream,
}

impl World {
    /// Starts the cluster, applies the base configuration and waits until all run it.
    pub(crate) async fn start(fault_links: bool) -> Self {
        let upstream = Upstream::start(script).await.unwrap();
        let mut builder = Cluster::builder().etcd().control_planes(1).data_planes(3);
        if fault_links {
            builder = builder.fault_links();
        }
        let cluster = builder.start().await.unwrap();
        let mut admin = Admin::new(cluster.control_planes[0].grpc()).unwrap();
        admin.wait_for_head(3, LIMIT).await.unwrap();
        let mut base = config::base(upstream.address());
        let mut long = config::model(LONG_MODEL);
        long["targets"][0]["model"] = LONG_MODEL.into();
        base["models"].as_array_mut().unwrap().push(long);
        cluster.apply(&base.to_string()).await.unwrap();
        Self { cluster, admin, upstream }
    }

    /// Applies and waits until every data plane has it.
    pub(crate) async fn apply(&self, document: &Value) -> CliOutput {
        self.cluster.apply(&document.to_string()).await.unwrap()
    }

    /// Runs a command that must succeed.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> CliOutput {
        let output = self.cluster.cli(arguments).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", output.said());
        output
    }

    /// What `nodes` says.
    pub(crate) async fn nodes(&self) -> Value {
        serde_json::from_str(&self.cli(&["nodes", "-o", "json"]).await.stdout).unwrap()
    }

    /// Checks that every data plane serves.
    pub(crate) async fn serves(&self) {
        for plane in &self.cluster.data_planes {
            let reply = ask(plane, KEY, "m1").await;
            assert_eq!(reply.status, Some(200), "{}: {}", plane.name(), reply.text());
        }
    }

    /// Checks with `nodes` that three data planes run the newest revision and refused nothing.
    pub(crate) async fn all_run_the_head(&self) {
        let nodes = self.nodes().await;
        let planes = nodes["nodes"].as_array().unwrap();
        assert_eq!(planes.len(), 3, "{nodes:#}");
        for plane in planes {
            let sound = plane["acknowledged_revision"] == nodes["head_revision"]
                && plane["same_epoch"] == true
                && plane["connected"] == true
                && plane["error"] == ""
                && plane["rejected"].as_array().is_some_and(Vec::is_empty);
            assert!(sound, "{nodes:#}");
        }
    }
}

pub(crate) fn request(key: &str, model: &str, stream: bool) -> Request {
    Request::post("/v1/chat/completions").bearer(key).body(openai::chat(model, stream))
}

pub(crate) async fn ask(plane: &DataPlane, key: &str, model: &str) -> Reply {
    exchange(plane.traffic(), &request(key, model, false), &[], LIMIT).await
}

/// The models that a data plane shows to a key, with their owners, in order of name.
pub(crate) async fn models(plane: &DataPlane, key: &str) -> Vec<(String, String)> {
    let reply =
        exchange(plane.traffic(), &Request::get("/v1/models").bearer(key), &[], LIMIT).await;
    assert_eq!(reply.status, Some(200), "{}: {}", plane.name(), reply.text());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = reply.json().unwrap();
    let models = list["data"].as_array().unwrap().iter();
    let mut models: Vec<_> = models.map(|m| (text(&m["id"]), text(&m["owned_by"]))).collect();
    models.sort();
    models
}

/// What `/readyz` says.
pub(crate) async fn readyz(ops: SocketAddr) -> (Option<u16>, Value) {
    let reply = http_get(ops, "/readyz").await;
    (reply.status, reply.json().unwrap_or_default())
}

fn script(call: &Call) -> Vec<Step> {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    if body["model"] == LONG_MODEL {
        let end = openai::finish("stop") + openai::USAGE + openai::DONE;
        let bytes = openai::delta("t").into();
        return vec![
            Step::event_stream(),
            Step::Repeat { times: ticks(), gap: TICK, bytes },
            Step::send(end),
            Step::End,
        ];
    }
    if body["stream"] == true { Step::stream("ok") } else { Step::completion("ok") }
}

/// Number of text events in a long stream.
pub(crate) fn ticks() -> usize {
    (LONG.as_millis() / TICK.as_millis()).try_into().unwrap_or(usize::MAX)
}
