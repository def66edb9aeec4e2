//! Targets that a whole fleet leaves alone: three data planes, two control planes, etcd and Redis.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::client::{Reply, Request, exchange};
use sluicegate_testkit::cluster::{Cluster, cli};
use sluicegate_testkit::deadline::within;
use sluicegate_testkit::fault::FaultProxy;
use sluicegate_testkit::process::http_get;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tokio::time::{Instant, sleep};

use crate::world::{CALLER, good, refused};

const LIMIT: Duration = Duration::from_secs(60);
/// The usual rules, but for times that let a test see the whole circle.
const OPEN_MS: u64 = 2_000;
const STEP_MS: u64 = 1_500;

/// What the upstream does with calls to a provider, by its name.
type Ills = Arc<Mutex<BTreeMap<String, &'static str>>>;

struct Fleet {
    cluster: Cluster,
    upstream: Upstream,
    ills: Ills,
}

fn provider(name: &str, address: SocketAddr, host: &str) -> Value {
    json!({
        "name": name, "dialect": "openai-chat", "variant": "openai", "keyless": true,
        "base_url": format!("http://{host}:{}/{name}/v1", address.port()),
        "breaker": { "open_ms": OPEN_MS, "ramp_step_ms": STEP_MS },
        "timeouts": { "connect_ms": 1000 },
    })
}

impl Fleet {
    async fn start() -> Self {
        let ills = Ills::default();
        let known = ills.clone();
        let upstream = Upstream::start(move |call| script(call, &known)).await.unwrap();
        let builder = Cluster::builder().etcd().redis().control_planes(2).data_planes(3);
        let cluster = builder.start().await.unwrap();
        let fleet = Self { cluster, upstream, ills };
        let address = fleet.upstream.address();
        fleet.configure(vec![provider("ill", address, "127.0.0.1")]).await;
        for plane in &fleet.cluster.data_planes {
            plane.wait_ready(LIMIT).await.unwrap();
        }
        // Somebody decides.
        fleet.status_until("a leader", |status| status["leader"].is_string()).await;
        fleet
    }

    async fn configure(&self, providers: Vec<Value>) {
        let models = providers.iter().map(|provider| {
            json!({
                "name": provider["name"], "targets": [{ "provider": provider["name"], "model": "x" }],
                "retry": { "max_attempts": 1 },
            })
        });
        let config = json!({
            "models": models.collect::<Vec<_>>(),
            "providers": providers,
            "api_keys": [{ "name": "caller", "secret": { "value": CALLER } }],
        });
        self.cluster.apply(&config.to_string()).await.unwrap();
    }

    fn ails(&self, provider: &str, with: &'static str) {
        self.ills.lock().unwrap().insert(provider.to_owned(), with);
    }

    fn heals(&self, provider: &str) {
        self.ills.lock().unwrap().remove(provider);
    }

    async fn ask(&self, plane: usize, model: &str) -> Reply {
        ask(self.cluster.data_planes[plane].traffic(), model).await
    }

    /// How targets stand, by whichever control plane is there.
    async fn status(&self) -> Option<Value> {
        for plane in &self.cluster.control_planes {
            let output = cli(plane.grpc(), &["breaker", "status", "-o", "json"]).await.unwrap();
            if output.status.success() {
                return serde_json::from_str(&output.stdout).ok();
            }
        }
        None
    }

    async fn status_until(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                if let Some(status) = self.status().await.filter(&so) {
                    return status;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        within(LIMIT, what, waiting).await.unwrap()
    }

    async fn stands(&self, state: &str) -> Value {
        self.status_until(state, |status| status["targets"][0]["state"] == state).await
    }

    async fn ok(&self, arguments: &[&str]) {
        let output = self.cluster.cli(arguments).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", output.said());
    }

    /// Runs a command, and waits until every data plane runs what it changed.
    async fn takes(&self, arguments: &[&str]) {
        let revision = |plane| self.metric(plane, "sluicegate_policy_revision");
        let before = revision(0).await;
        self.ok(arguments).await;
        let taken = async {
            for plane in 0..self.cluster.data_planes.len() {
                while revision(plane).await <= before {
                    sleep(Duration::from_millis(20)).await;
                }
            }
        };
        within(LIMIT, "the change to be run by all", taken).await.unwrap();
    }

    /// The sample of a metric of a data plane.
    async fn metric(&self, plane: usize, line: &str) -> f64 {
        let text = http_get(self.cluster.data_planes[plane].ops(), "/metrics").await.text();
        let found = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }

    async fn state(&self, plane: usize) -> f64 {
        self.metric(plane, "sluicegate_breaker_state{provider=\"ill\",model=\"x\"}").await
    }

    /// Resolves once requests of every data plane have come through.
    async fn flows(&self) {
        self.upstream.wait_for_calls(60, LIMIT).await.unwrap();
    }

    /// Traffic of so many requests a second to each data plane, until it is dropped.
    fn traffic(&self, model: &'static str, each_ms: u64) -> Vec<Traffic> {
        let planes = self.cluster.data_planes.iter();
        planes.map(|plane| Traffic::start(plane.traffic(), model, each_ms)).collect()
    }
}

fn script(call: &Call, ills: &Ills) -> Vec<Step> {
    match ills.lock().unwrap().get(call.cell()) {
        Some(&"503") => refused(503, "overloaded", "overloaded"),
        Some(&"kills") if venomous(call) => refused(500, "EngineCore encountered an issue.", "x"),
        _ => good(call, "well"),
    }
}

fn venomous(call: &Call) -> bool {
    call.body.windows(5).any(|it| it == b"venom")
}

async fn ask(address: SocketAddr, model: &str) -> Reply {
    say(address, model, "hi").await
}

async fn say(address: SocketAddr, model: &str, what: &str) -> Reply {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": what }] });
    let request = Request::post("/v1/chat/completions").bearer(CALLER).body(body.to_string());
    exchange(address, &request, &[], LIMIT).await
}

fn code(reply: &Reply) -> String {
    reply.json().unwrap_or_default()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// When a request was answered, with which status and code.
type Answered = (Instant, Option<u16>, String);

/// Requests one after the other, and when each was answered how.
pub(crate) struct Traffic {
    seen: Arc<Mutex<Vec<Answered>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Traffic {
    #[allow(clippy::disallowed_methods, reason = "a test starts tasks as it likes")]
    pub(crate) fn start(address: SocketAddr, model: &'static str, each_ms: u64) -> Self {
        let seen: Arc<Mutex<Vec<Answered>>> = Arc::default();
        let noted = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                let reply = ask(address, model).await;
                noted.lock().unwrap().push((Instant::now(), reply.status, code(&reply)));
                sleep(Duration::from_millis(each_ms)).await;
            }
        });
        Self { seen, task }
    }

    /// When the target was first refused by the gateway itself, after a moment.
    fn first_shut(&self, after: Instant) -> Option<Instant> {
        let seen = self.seen.lock().unwrap();
        let shut = seen.iter().find(|(at, _, code)| *at >= after && code == "target_unavailable");
        shut.map(|(at, ..)| *at)
    }

    /// The share that was served between two moments.
    pub(crate) fn served(&self, from: Instant, to: Instant) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        let within = seen.iter().filter(|(at, ..)| (from..to).contains(at));
        let served = within.clone().filter(|(_, status, _)| *status == Some(200)).count();
        (served, within.count())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_target_that_fails_is_left_alone_by_all_and_comes_back_by_one_probe() {
    let fleet = Fleet::start().await;
    let traffic = fleet.traffic("ill", 40);
    fleet.flows().await;
    fleet.ails("ill", "503");
    let ill = Instant::now();
    let opened = async {
        loop {
            let shut: Vec<_> = traffic.iter().filter_map(|one| one.first_shut(ill)).collect();
            if shut.len() == traffic.len() {
                return shut;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let mut shut = within(LIMIT, "all to leave it alone", opened).await.unwrap();
    shut.sort();
    println!("open: first after {:?}, all after {:?}", shut[0] - ill, shut[2] - ill);
    assert!(shut[2] - ill < Duration::from_secs(3));
    let status = fleet.stands("open").await;
    println!("{}", status["targets"][0]["reason"]);
    // While it is ill, one call at a time finds out for all three data planes: so many open times, so
    // many calls.
    sleep(Duration::from_millis(500)).await;
    let (before, begun) = (fleet.upstream.count(), Instant::now());
    sleep(Duration::from_secs(15)).await;
    let (probes, passed) = (fleet.upstream.count() - before, begun.elapsed());
    // Open times of 2, 4 and 8 seconds, give or take a fifth, fit into it about thrice.
    println!("{probes} calls reached the ill target in {passed:?}");
    assert!((1..=4).contains(&probes), "{probes}");
    let status = fleet.status().await.unwrap();
    println!(
        "strikes {}, left {} ms",
        status["targets"][0]["strikes"], status["targets"][0]["left_ms"]
    );
    assert!(status["targets"][0]["strikes"].as_u64().unwrap() >= 2);
    // It is well again: traffic comes back in steps.
    fleet.heals("ill");
    fleet.stands("ramping").await;
    let begun = Instant::now();
    let closed = fleet.stands("closed");
    closed.await;
    let end = Instant::now();
    let step = Duration::from_millis(STEP_MS);
    let mut shares = Vec::new();
    for number in 0..3 {
        let from = begun + step * number;
        let all = traffic.iter().map(|one| one.served(from, from + step));
        let (served, of) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        shares.push(100 * served / of.max(1));
    }
    println!("ramp took {:?}; served in its steps {shares:?} %", end - begun);
    assert!(shares[0] < 40 && shares[2] > shares[0], "{shares:?}");
    sleep(Duration::from_secs(2)).await;
    let now = Instant::now();
    for one in &traffic {
        let (served, of) = one.served(now - Duration::from_secs(1), now);
        assert!(of > 0 && served == of, "{served} of {of}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_without_requests_the_fleet_probes_by_itself() {
    let fleet = Fleet::start().await;
    fleet.ails("ill", "503");
    for plane in 0..3 {
        for _ in 0..5 {
            fleet.ask(plane, "ill").await;
        }
    }
    fleet.stands("open").await;
    fleet.heals("ill");
    let before = fleet.upstream.count();
    let begun = Instant::now();
    fleet.stands("ramping").await;
    println!("probed after {:?} by {} calls", begun.elapsed(), fleet.upstream.count() - before);
    let probes = fleet.upstream.calls(|call| call.number >= before);
    assert!(!probes.is_empty() && probes.len() <= 2, "{}", probes.len());
    let body: Value = serde_json::from_slice(&probes[0].body).unwrap();
    assert_eq!((&body["max_tokens"], &body["model"]), (&json!(1), &json!("x")));
    let mut pinged = 0.0;
    for plane in 0..3 {
        let line = "sluicegate_breaker_probes_total{provider=\"ill\",model=\"x\",result=\"ok\"}";
        pinged += fleet.metric(plane, line).await;
    }
    assert!(pinged >= 1.0, "it is counted");
    fleet.stands("closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_another_control_plane_takes_over_and_nothing_flaps() {
    let mut fleet = Fleet::start().await;
    let traffic = fleet.traffic("ill", 60);
    fleet.flows().await;
    fleet.ails("ill", "503");
    fleet.stands("open").await;
    let before = fleet.status().await.unwrap();
    let leader = before["leader"].as_str().unwrap().to_owned();
    // Long enough that it is open for a while.
    let long = fleet
        .status_until("a long open time", |it| it["targets"][0]["strikes"].as_u64() >= Some(4));
    long.await;
    let number = fleet.cluster.control_planes.iter().position(|it| it.name() == leader).unwrap();
    let killed = Instant::now();
    fleet.cluster.control_planes[number].kill().unwrap();
    let closed = fleet.upstream.count();
    let after = fleet
        .status_until("another leader", |it| {
            it["leader"].as_str().is_some_and(|name| name != leader)
        })
        .await;
    let took = killed.elapsed();
    println!("{leader} was killed, {} leads after {took:?}", after["leader"]);
    assert!(took < Duration::from_secs(15));
    sleep(Duration::from_secs(2)).await;
    let state = fleet.status().await.unwrap()["targets"][0]["state"].clone();
    let calls = fleet.upstream.count() - closed;
    println!("then it is {state}, {calls} calls reached the ill target meanwhile");
    assert!(state == "open" || state == "half_open", "{state}");
    assert!(calls <= 3, "{calls}");
    for one in &traffic {
        let (served, of) = one.served(killed, Instant::now());
        assert!(served == 0 && of > 0, "it is ill: {served} of {of}");
    }
    fleet.cluster.control_planes[number].restart().await.unwrap();
    fleet.heals("ill");
    fleet.stands("ramping").await;
    fleet.stands("closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_without_any_control_plane_data_planes_go_on_by_themselves() {
    let mut fleet = Fleet::start().await;
    let traffic = fleet.traffic("ill", 60);
    fleet.flows().await;
    for plane in &fleet.cluster.control_planes {
        plane.kill().unwrap();
    }
    fleet.ails("ill", "503");
    let ill = Instant::now();
    let opened = async {
        while traffic.iter().any(|one| one.first_shut(ill).is_none()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    within(LIMIT, "each to leave it alone", opened).await.unwrap();
    println!("each left it alone within {:?}", ill.elapsed());
    let before = fleet.upstream.count();
    sleep(Duration::from_secs(10)).await;
    println!("{} calls reached the ill target in 10 s", fleet.upstream.count() - before);
    assert!(fleet.upstream.count() - before <= 12);
    fleet.heals("ill");
    let healed = Instant::now();
    let back = async {
        loop {
            let now = Instant::now();
            let all = traffic.iter().map(|one| one.served(now - Duration::from_secs(1), now));
            if all.into_iter().all(|(served, of)| of > 3 && served == of) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    within(2 * LIMIT, "each to come back by itself", back).await.unwrap();
    println!("all traffic was back after {:?}", healed.elapsed());
    for plane in &mut fleet.cluster.control_planes {
        plane.restart().await.unwrap();
    }
    fleet.stands("closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_a_forced_state_holds_and_ends_by_itself() {
    let mut fleet = Fleet::start().await;
    let why = ["--comment", "their incident 1234", "--wait", "1.0"];
    fleet.ok(&[&["breaker", "open", "ill/x", "--for", "8s"][..], &why].concat()).await;
    let forced = Instant::now();
    let status = fleet.status().await.unwrap();
    let target = &status["targets"][0];
    assert_eq!(target["forced"]["comment"], "their incident 1234", "{status:#}");
    assert!(target["forced"]["expires_at"].is_string());
    for plane in 0..3 {
        let reply = fleet.ask(plane, "ill").await;
        assert_eq!(code(&reply), "target_unavailable", "{}", reply.text());
        assert!(reply.text().contains("an operator says so"), "{}", reply.text());
        assert!((fleet.state(plane).await - 4.0).abs() < 0.1);
    }
    assert_eq!(fleet.upstream.count(), 0);
    let waiting = async {
        while fleet.ask(0, "ill").await.status != Some(200) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, "its end", waiting).await.unwrap();
    println!("served again {:?} after it was forced open for 8 s", forced.elapsed());
    assert!(forced.elapsed() > Duration::from_secs(6));
    fleet.status_until("the force being gone", |it| it["targets"][0]["forced"].is_null()).await;
    fleet.stands("closed").await;

    // Forced closed: it is used whatever happens, also without any control plane.
    fleet.takes(&[&["breaker", "close", "ill/*", "--for", "1h"][..], &why].concat()).await;
    for plane in &fleet.cluster.control_planes {
        plane.kill().unwrap();
    }
    fleet.ails("ill", "503");
    let before = fleet.upstream.count();
    for _ in 0..20 {
        assert_ne!(code(&fleet.ask(1, "ill").await), "target_unavailable");
    }
    assert_eq!(fleet.upstream.count() - before, 20);
    for plane in &mut fleet.cluster.control_planes {
        plane.restart().await.unwrap();
    }
    // Taken back: the next failures open it.
    fleet.takes(&["breaker", "auto", "ill/*"]).await;
    let opens = async {
        while code(&fleet.ask(1, "ill").await) != "target_unavailable" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, "it being left alone", opens).await.unwrap();
}

/// One data plane has no way to the upstream; the others have.
#[tokio::test(flavor = "multi_thread")]
async fn b1_one_bad_data_plane_opens_nothing_for_all() {
    // All have one policy. So the first one's way leads through a forward proxy, which is the upstream
    // behind a link that can be cut.
    let upstream = Upstream::start(|call| good(call, "well")).await.unwrap();
    let link = FaultProxy::start(upstream.address()).await.unwrap();
    let cluster = Cluster::builder()
        .etcd()
        .redis()
        .control_planes(2)
        .data_planes(3)
        .first_data_plane_variables(&[("HTTP_PROXY".into(), format!("http://{}", link.address()))])
        .start()
        .await
        .unwrap();
    let fleet = Fleet { cluster, upstream, ills: Ills::default() };
    fleet.configure(vec![provider("ill", fleet.upstream.address(), "127.0.0.1")]).await;
    for plane in &fleet.cluster.data_planes {
        plane.wait_ready(LIMIT).await.unwrap();
    }
    fleet.status_until("a leader", |status| status["leader"].is_string()).await;
    let traffic = fleet.traffic("ill", 40);
    fleet.flows().await;
    assert!(link.connections() > 0, "the first data plane goes by its proxy");
    link.refuse().await.unwrap();
    link.cut();
    let cut = Instant::now();
    let opened = async {
        while traffic[0].first_shut(cut).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    within(LIMIT, "the bad one to leave it alone", opened).await.unwrap();
    println!("the bad data plane left it alone after {:?}", cut.elapsed());
    sleep(Duration::from_secs(8)).await;
    let status = fleet.status().await.unwrap();
    let target = &status["targets"][0];
    let nodes = target["nodes"].as_array().unwrap();
    let open = nodes.iter().filter(|node| node["own"] == true && node["state"] != "closed").count();
    println!("fleet: {}, {open} of {} nodes have it open", target["state"], nodes.len());
    assert_eq!((&target["state"], nodes.len()), (&json!("closed"), 3), "{status:#}");
    for one in &traffic[1..] {
        let (served, of) = one.served(cut, Instant::now());
        assert!(of > 50 && served == of, "{served} of {of}");
    }
    link.accept().await.unwrap();
    let back = async {
        loop {
            let now = Instant::now();
            let (served, of) = traffic[0].served(now - Duration::from_secs(1), now);
            if of > 5 && served == of {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    within(LIMIT, "the bad one to come back", back).await.unwrap();
    println!("it was back {:?} after the cut", cut.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_a_request_that_kills_is_sent_to_no_third_target_by_anybody() {
    let fleet = Fleet::start().await;
    let address = fleet.upstream.address();
    let names = ["a", "b", "c", "d"];
    let targets = names.map(|name| json!({ "provider": name, "model": "x" }));
    let config = json!({
        "models": [{ "name": "m", "targets": targets, "retry": { "max_attempts": 4, "backoff_ms": 10 } }],
        "providers": names.map(|name| provider(name, address, "127.0.0.1")),
        "api_keys": [{ "name": "caller", "secret": { "value": CALLER } }],
    });
    fleet.cluster.apply(&config.to_string()).await.unwrap();
    names.iter().for_each(|name| fleet.ails(name, "kills"));
    let planes = &fleet.cluster.data_planes;
    let reply = say(planes[0].traffic(), "m", "venom").await;
    println!("{} {}", reply.status.unwrap_or(0), reply.text());
    assert_eq!((reply.status, code(&reply).as_str()), (Some(422), "poison_request"));
    let sent = || fleet.upstream.calls(venomous).len();
    assert_eq!(sent(), 2, "two targets, and no third");
    let told = Instant::now();
    let known = async {
        // Others are served; this one is known everywhere within moments.
        sleep(Duration::from_millis(2_500)).await;
        for plane in planes {
            let reply = say(plane.traffic(), "m", "venom").await;
            assert_eq!(code(&reply), "poison_request", "{}: {}", plane.name(), reply.text());
        }
    };
    known.await;
    println!("all refuse it {:?} later", told.elapsed());
    assert_eq!(sent(), 2);
    assert_eq!(say(planes[1].traffic(), "m", "bread").await.status, Some(200));
}
