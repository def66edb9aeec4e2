//! A control plane, data planes and an upstream, and how they are asked.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_suites::admin::Admin;
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{CliOutput, DataPlane, Redis, cli, gateway_command};
use sluicegate_testkit::process::{Blueprint, Member, Ready, http_get};
use sluicegate_testkit::record::{AccessRecord, record_of};
use sluicegate_testkit::upstream::Upstream;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::book::Book;
use crate::script;

/// For everything that has no limit of its own.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// In which time something that ended must be settled everywhere.
pub(crate) const SETTLED: Duration = Duration::from_secs(1);
/// In which time everything that data planes keep ready must be back.
pub(crate) const IDLE: Duration = Duration::from_secs(8);

/// Where limits and usage are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ledger {
    /// In a file of the control plane's.
    Embedded,
    /// In a Redis of the test's own.
    Redis,
}

pub(crate) struct World {
    pub(crate) planes: Vec<DataPlane>,
    pub(crate) control: Member,
    pub(crate) redis: Option<Redis>,
    pub(crate) upstream: Upstream,
    pub(crate) admin: Admin,
    pub(crate) book: Book,
    /// Last, so that it is removed last.
    folder: TempDir,
}

impl World {
    /// One data plane and the embedded ledger, under the base configuration with these limits.
    pub(crate) async fn limited(limits: Value) -> Self {
        Self::start(Ledger::Embedded, 1, json!({ "limits": limits })).await
    }

    /// Starts everything, applies the base configuration with `changes` and waits until all run it.
    pub(crate) async fn start(ledger: Ledger, planes: usize, changes: Value) -> Self {
        let folder = TempDir::with_prefix("sluicegate-quota-").unwrap();
        let upstream = Upstream::start(script::answer).await.unwrap();
        let redis = match ledger {
            Ledger::Embedded => None,
            Ledger::Redis => Some(Redis::start(folder.path()).await.unwrap()),
        };
        let control = control_plane(folder.path(), redis.as_ref().map(Redis::client)).await;
        let mut running = Vec::new();
        for number in 0..planes {
            let (name, control) = (format!("data-plane-{number}"), [control.address(0)]);
            running.push(DataPlane::start(&name, &control, &[], folder.path()).await.unwrap());
        }
        let (admin, book) =
            (Admin::new(control.address(0)).unwrap(), Book::new(control.address(0)).unwrap());
        let mut world = Self { planes: running, control, redis, upstream, admin, book, folder };
        world.admin.wait_for_head(planes, LIMIT).await.unwrap();
        let document = merged(base(world.upstream.address()), changes);
        world.apply(&document).await;
        world.book.wait_for_ledger(LIMIT).await.unwrap();
        world
    }

    /// Applies and waits until every data plane has it.
    pub(crate) async fn apply(&self, document: &Value) {
        let output = self.try_apply(&format!("{document:#}"), &["--wait", "1.0"]).await;
        assert!(output.status.success(), "{}", output.said());
    }

    /// Applies a text; whatever comes of it.
    pub(crate) async fn try_apply(&self, text: &str, more: &[&str]) -> CliOutput {
        let path = self.folder.path().join("applied.yaml");
        std::fs::write(&path, text).unwrap();
        let mut arguments = vec!["apply", "-f", path.to_str().unwrap()];
        arguments.extend(more);
        self.cli(&arguments).await
    }

    /// Runs a command against the control plane.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> CliOutput {
        cli(self.control.address(0), arguments).await.unwrap()
    }

    /// Where everything is kept; each process has its state in a folder of its own name.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a request to the first data plane.
    pub(crate) async fn ask(&self, request: &Request) -> Reply {
        ask(&self.planes[0], request).await
    }

    /// Sends so many at once, to one data plane after the other; gives the replies.
    pub(crate) async fn at_once(&self, n: usize, request: &Request) -> Vec<Reply> {
        let mut replies = JoinSet::new();
        for number in 0..n {
            let address = self.planes[number % self.planes.len()].traffic();
            let request = request.clone();
            replies.spawn(async move { exchange(address, &request, &[], LIMIT).await });
        }
        replies.join_all().await
    }

    /// The access record of a reply of the first data plane.
    pub(crate) async fn record(&self, reply: &Reply) -> AccessRecord {
        let id = reply.header("x-request-id").expect("a request id");
        record_of(self.planes[0].stdout(), id, LIMIT).await.unwrap()
    }

    /// The sample of a metric of the first data plane whose line begins with `name` and has all of
    /// `labels`; 0 when there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        metric(&self.planes[0], name, labels).await
    }
}

pub(crate) async fn metric(plane: &DataPlane, name: &str, labels: &[&str]) -> f64 {
    let text = http_get(plane.ops(), "/metrics").await.text();
    let mine = text.lines().filter(|line| {
        let ends = |c: char| c == '{' || c == ' ';
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(ends))
            && labels.iter().all(|label| line.contains(label))
    });
    mine.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

pub(crate) async fn ask(plane: &DataPlane, request: &Request) -> Reply {
    exchange(plane.traffic(), request, &[], LIMIT).await
}

/// The secret of a caller's key.
pub(crate) fn secret(key: &str) -> String {
    format!("sk-caller-{key}")
}

/// A chat with one message by a key of the base configuration.
pub(crate) fn chat(key: &str, text: &str) -> Request {
    chat_with(key, text, json!({}))
}

/// The same with further members of the body.
pub(crate) fn chat_with(key: &str, text: &str, more: Value) -> Request {
    let messages = json!([{"role": "user", "content": text}]);
    post("/v1/chat/completions", key, merged(json!({"model": "m1", "messages": messages}), more))
}

pub(crate) fn post(path: &str, key: &str, body: Value) -> Request {
    Request::post(path).bearer(&secret(key)).body(body.to_string())
}

/// How many replies have that status.
pub(crate) fn count(replies: &[Reply], status: u16) -> usize {
    replies.iter().filter(|reply| reply.status == Some(status)).count()
}

/// Statuses and refusals, for who reads of a failed test.
pub(crate) fn told(replies: &[Reply]) -> Vec<String> {
    replies
        .iter()
        .map(|reply| match reply.status {
            Some(200) => "200".into(),
            status => format!("{status:?} {:?} {}", reply.problems, reply.text()),
        })
        .collect()
}

/// A number in a header.
pub(crate) fn header_number(reply: &Reply, name: &str) -> Option<u64> {
    reply.header(name)?.parse().ok()
}

/// The `sluicegate` object of an error.
pub(crate) fn detail(reply: &Reply) -> Value {
    let body = reply.json().unwrap_or_default();
    body.pointer("/error/sluicegate").cloned().unwrap_or_default()
}

/// Providers `p1` and `p2` and models `m1` and `m2` on the first; tenants `org`, `team` below it and
/// `other`; a key of each tenant's name, `alice` and `bob` of `team`, and `carol` with a user.
fn base(upstream: SocketAddr) -> Value {
    let provider = |name: &str| {
        json!({
            "name": name, "dialect": "openai-chat",
            "base_url": format!("http://{upstream}/cell/{name}/v1"),
            "keys": [{"name": "k1", "secret": {"value": format!("sk-upstream-{name}-k1")}}],
            // What fails here fails on purpose, and is to be asked again.
            "breaker": {"off": true},
        })
    };
    let model = |name: &str| {
        json!({
            "name": name, "targets": [{"provider": "p1", "model": "m1"}],
            "prices": {"input": 1_000_000, "output": 2_000_000},
            "units": {"input": 0.001, "output": 0.003}, "weight": 2,
        })
    };
    let key = |name: &str, tenant: &str| json!({"name": name, "tenant": tenant, "secret": {"value": secret(name)}});
    let mut carol = key("carol", "team");
    carol["user"] = "caroline".into();
    json!({
        "providers": [provider("p1"), provider("p2")],
        "models": [model("m1"), model("m2")],
        "tenants": [{"name": "org"}, {"name": "team", "parent": "org"}, {"name": "other"}],
        "api_keys": [
            key("org", "org"), key("team", "team"), key("other", "other"),
            key("alice", "team"), key("bob", "team"), carol,
        ],
    })
}

/// `base` with the members of `changes` in place of its own.
fn merged(mut base: Value, changes: Value) -> Value {
    if let (Some(base), Value::Object(changes)) = (base.as_object_mut(), changes) {
        base.extend(changes);
    }
    base
}

async fn control_plane(folder: &Path, redis: Option<SocketAddr>) -> Member {
    let seal_key = folder.join("seal.key");
    let mut file =
        File::options().write(true).create_new(true).mode(0o600).open(&seal_key).unwrap();
    file.write_all("0f".repeat(32).as_bytes()).unwrap();
    let state = folder.join("control-plane");
    let command = move |ports: &[SocketAddr]| {
        let mut command = gateway_command(&["control-plane"]).expect("the gateway's binary");
        command
            .args(["--listen", &ports[0].to_string(), "--http-listen", &ports[1].to_string()])
            .args(["--replica-id", "control-plane"])
            .arg("--state-dir")
            .arg(&state)
            .arg("--seal-key-file")
            .arg(&seal_key)
            .env_remove("SLUICEGATE_REDIS");
        if let Some(redis) = redis {
            command.args(["--redis", &format!("redis://{redis}/0")]);
        }
        command
    };
    let blueprint = Blueprint {
        name: "control-plane".into(),
        logs: folder.into(),
        ports: 2,
        command: Box::new(command),
        ready: Ready::Http { port: 1, path: "/readyz" },
    };
    Member::start(blueprint).await.unwrap()
}
