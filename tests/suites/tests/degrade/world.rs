//! A control plane, a data plane, and a server with metrics.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{CliOutput, ControlPlane, DataPlane, Stores, cli};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// For everything that has no limit of its own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// What the metric is called that vLLM tells its memory by.
pub(crate) const MEMORY: &str = "max(vllm:gpu_cache_usage_perc)";

/// What the server says of itself: one after the other, and the last one for ever; `None`: 503.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Mutex<Vec<Option<f64>>>>);

impl Shown {
    pub(crate) fn set(&self, memory: f64) {
        self.play(vec![Some(memory)]);
    }

    pub(crate) fn play(&self, values: Vec<Option<f64>>) {
        *self.0.lock().unwrap() = values;
    }

    fn next(&self) -> Option<f64> {
        let mut values = self.0.lock().unwrap();
        if values.len() > 1 { values.remove(0) } else { values.first().copied().flatten() }
    }

    fn answer(&self) -> Vec<Step> {
        let Some(memory) = self.next() else { return Step::json(503, "{}") };
        let text = format!(
            "# HELP vllm:num_requests_running Number of requests in model execution batches.\n\
             # TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{{engine=\"0\",model_name=\"m1\"}} 3.0\n\
             # HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.\n\
             # TYPE vllm:gpu_cache_usage_perc gauge\n\
             vllm:gpu_cache_usage_perc{{engine=\"0\",model_name=\"m1\"}} {memory}\n"
        );
        vec![Step::head(200, "text/plain; version=0.0.4"), Step::send(text), Step::End]
    }
}

/// What the last user said, which chooses the answer.
fn asked(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap_or_default()
}

fn answer(call: &Call, shown: &Shown) -> Vec<Step> {
    if call.target.starts_with("/metrics") {
        return shown.answer();
    }
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let good = |text: &str| {
        if body["stream"] == json!(true) { Step::stream(text) } else { Step::completion(text) }
    };
    match asked(&body) {
        "nothing comes" => vec![Step::sleep_ms(60_000)],
        "it stalls" => {
            let begun = sluicegate_testkit::openai::delta("begun");
            vec![Step::event_stream(), Step::send(begun), Step::sleep_ms(60_000)]
        }
        "take your time" => {
            let mut steps = vec![Step::sleep_ms(3_000)];
            steps.extend(good("late"));
            steps
        }
        "fail" => Step::json(500, r#"{"error":{"message":"no","type":"server_error"}}"#),
        _ => good("well"),
    }
}

pub(crate) struct World {
    pub(crate) control: ControlPlane,
    pub(crate) plane: DataPlane,
    pub(crate) upstream: Upstream,
    pub(crate) shown: Shown,
    begun: Instant,
    folder: TempDir,
}

impl World {
    /// With these degradations. Members of the provider and of both models, `m1` and `m2`, may be given.
    pub(crate) async fn start(degradations: Value, provider: Value, model: Value) -> Self {
        let folder = TempDir::with_prefix("sluicegate-degrade-").unwrap();
        let shown = Shown::default();
        shown.set(0.1);
        let told = shown.clone();
        let upstream = Upstream::start(move |call| answer(call, &told)).await.unwrap();
        let seal_key = folder.path().join("seal.key");
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&seal_key).unwrap();
        file.write_all("0f".repeat(32).as_bytes()).unwrap();
        let stores = Stores { etcd: None, redis: None };
        let started = ControlPlane::start_with("control", stores, &[], &seal_key, folder.path());
        let control = started.await.unwrap();
        let plane =
            DataPlane::start("data-plane", &[control.grpc()], &[], folder.path()).await.unwrap();
        let world = Self { control, plane, upstream, shown, begun: Instant::now(), folder };
        let mut admin = Admin::new(world.control.grpc()).unwrap();
        let connected = |fleet: &sluicegate_proto::admin::v1::FleetStatusReply| {
            fleet.data_planes.iter().any(|plane| plane.connected).then_some(())
        };
        admin.wait_for_fleet(LIMIT, "the data plane", connected).await.unwrap();
        world.apply(degradations, provider, model).await;
        world
    }

    pub(crate) async fn apply(&self, degradations: Value, provider: Value, model: Value) {
        let with = |mut value: Value, more: &Value| {
            let more = more.as_object().cloned().unwrap_or_default();
            value.as_object_mut().unwrap().extend(more);
            value
        };
        let local = json!({
            "name": "local", "dialect": "openai-chat", "variant": "vllm", "keyless": true,
            "base_url": format!("http://{}/v1", self.upstream.address()),
            "breaker": { "off": true },
        });
        let of = |name: &str| {
            let targets = json!([{ "provider": "local", "model": name }]);
            let one = json!({ "name": name, "targets": targets, "retry": { "max_attempts": 1 } });
            with(one, &model)
        };
        let key = |name: &str| json!({ "name": name, "tenant": name, "secret": { "value": format!("sk-caller-of-{name}") } });
        let document = json!({
            "providers": [with(local, &provider)],
            "models": [of("m1"), of("m2")],
            "tenants": [{ "name": "org" }, { "name": "team", "parent": "org" }, { "name": "other" }],
            "api_keys": [key("team"), key("other")],
            "degradations": degradations,
        });
        let path = self.folder.path().join("applied.yaml");
        std::fs::write(&path, format!("{document:#}")).unwrap();
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

    /// How a degradation stands, as the control plane says it.
    pub(crate) async fn status(&self, name: &str) -> Value {
        let text = self.ok(&["degrade", "status", name, "-o", "json"]).await;
        let value: Value = serde_json::from_str(&text).unwrap();
        value["degradations"][0].clone()
    }

    /// Asks as a tenant's key.
    pub(crate) async fn post(&self, tenant: &str, path: &str, body: Value) -> Reply {
        self.post_with(tenant, path, body, &[]).await
    }

    pub(crate) async fn post_with(
        &self,
        tenant: &str,
        path: &str,
        body: Value,
        headers: &[(&str, &str)],
    ) -> Reply {
        let key = format!("sk-caller-of-{tenant}");
        let mut request = Request::post(path).bearer(&key).body(body.to_string());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        exchange(self.plane.traffic(), &request, &[], LIMIT).await
    }

    pub(crate) async fn ask(&self, tenant: &str, body: Value) -> Reply {
        self.post(tenant, "/v1/chat/completions", body).await
    }

    /// The level of a degradation at the data plane.
    pub(crate) async fn level(&self, degradation: &str) -> u32 {
        let reply = http_get(self.plane.ops(), "/metrics").await;
        assert_eq!(reply.status, Some(200), "{:?}", reply.problems);
        let text = reply.text();
        let line = format!("sluicegate_degradation_level{{degradation=\"{degradation}\"}} ");
        let found = text.lines().find_map(|one| one.strip_prefix(&line)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    /// Waits for a level at the data plane, and shows when it came.
    pub(crate) async fn reaches(&self, degradation: &str, level: u32, limit: Duration) {
        let waiting = async {
            while self.level(degradation).await != level {
                sleep(Duration::from_millis(50)).await;
            }
        };
        within(limit, &format!("level {level} of {degradation}"), waiting).await.unwrap();
        self.note(&format!("{degradation} is at level {level}"));
    }

    /// The level stays as it is for so long.
    pub(crate) async fn keeps(&self, degradation: &str, level: u32, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            assert_eq!(self.level(degradation).await, level, "after {:?}", begun.elapsed());
            sleep(Duration::from_millis(50)).await;
        }
        self.note(&format!("{degradation} has kept level {level} for {time:?}"));
    }

    pub(crate) fn note(&self, what: &str) {
        println!("{:7.2} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Names of the tools in the newest request that the upstream got.
    pub(crate) fn tools_upstream(&self) -> Vec<String> {
        let calls = self.upstream.calls(|call| call.method == "POST");
        let call = calls.last().unwrap();
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
        body["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
    }

    /// How many requests the upstream got.
    pub(crate) fn requests_upstream(&self) -> usize {
        self.upstream.calls(|call| call.method == "POST").len()
    }

    /// The access record of a reply.
    pub(crate) async fn record(&self, reply: &Reply) -> Value {
        let id = reply.header("x-request-id").unwrap().to_owned();
        let mine = |line: &str| {
            let record: Value = serde_json::from_str(line).ok()?;
            (record["request_id"] == json!(id)).then_some(record)
        };
        self.plane.stdout().find(LIMIT, "an access record", mine).await.unwrap()
    }
}

/// A chat that offers these tools.
pub(crate) fn chat(model: &str, what: &str, tools: &[&str], stream: bool) -> Value {
    let tool =
        |name: &&str| json!({ "type": "function", "function": { "name": name, "parameters": {} } });
    let mut body = json!({
        "model": model, "stream": stream, "messages": [{ "role": "user", "content": what }],
    });
    if !tools.is_empty() {
        body["tools"] = tools.iter().map(tool).collect();
    }
    body
}

/// The extension of an answer, or of the first chunk of one.
pub(crate) fn extension(reply: &Reply) -> Value {
    match &reply.sse {
        Some(_) => reply.payloads().next().unwrap_or_default()["sluicegate"].clone(),
        None => reply.json().unwrap()["sluicegate"].clone(),
    }
}
