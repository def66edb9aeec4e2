//! Health probes: one data plane sends them for all, and what they find ill is left alone by all. Three
//! data planes, two control planes, etcd and Redis.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use sluicegate_testkit::{
    cluster::{Cluster, cli},
    deadline::within,
    process::http_get,
    upstream::{Call, Step, Upstream},
};
use tokio::time::{Instant, sleep};

use crate::{
    fleet::Traffic,
    world::{CALLER, good, refused},
};

const LIMIT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(500);
const RISE: u32 = 2;
const FALL: u32 = 3;
const STEP_MS: u64 = 500;

/// What probes of a provider are answered with, by its name.
type Sick = Arc<Mutex<BTreeMap<String, u16>>>;

struct Fleet {
    cluster: Cluster,
    upstream: Upstream,
    sick: Sick,
}

impl Fleet {
    /// `models`: each with its targets, which are providers. Those in `costly` are probed by completions.
    async fn start(models: &[(&str, &[&str])], costly: &[&str]) -> Self {
        let sick = Sick::default();
        let known = sick.clone();
        let upstream = Upstream::start(move |call| script(call, &known)).await.unwrap();
        let builder = Cluster::builder().etcd().redis().control_planes(2).data_planes(3);
        let fleet = Self { cluster: builder.start().await.unwrap(), upstream, sick };
        let address = fleet.upstream.address();
        let targets = models.iter().copied().flat_map(|(_, targets)| targets.iter());
        let providers = targets.map(|name| {
            let mut health = json!({
                "interval_ms": INTERVAL.as_millis(), "rise": RISE, "fall": FALL,
                "path": format!("/{name}/health"),
            });
            if costly.contains(name) {
                health.as_object_mut().unwrap().remove("path");
            }
            json!({
                "name": name, "dialect": "openai-chat", "variant": "openai", "keyless": true,
                "base_url": format!("http://{address}/{name}/v1"), "health": health,
                "breaker": { "open_ms": 1000, "ramp_step_ms": STEP_MS },
            })
        });
        let config = json!({
            "providers": providers.collect::<Vec<_>>(),
            "models": models.iter().map(|(name, targets)| json!({
                "name": name,
                "targets": targets.iter().map(|it| json!({ "provider": it, "model": "x" })).collect::<Vec<_>>(),
                "retry": { "max_attempts": 1 },
            })).collect::<Vec<_>>(),
            "api_keys": [{ "name": "caller", "secret": { "value": CALLER } }],
        });
        fleet.cluster.apply(&config.to_string()).await.unwrap();
        for plane in &fleet.cluster.data_planes {
            plane.wait_ready(LIMIT).await.unwrap();
        }
        fleet
    }

    fn answers(&self, provider: &str, status: u16) {
        self.sick.lock().unwrap().insert(provider.to_owned(), status);
    }

    fn heals(&self, provider: &str) {
        self.sick.lock().unwrap().remove(provider);
    }

    /// Calls of a provider so far: probes with a path, or others.
    fn calls(&self, provider: &str, method: &str) -> usize {
        self.upstream.calls(|call| call.cell() == provider && call.method == method).len()
    }

    /// How a target stands, by whichever control plane answers.
    async fn stands(&self, provider: &str) -> Value {
        for plane in &self.cluster.control_planes {
            let output = cli(plane.grpc(), &["breaker", "status", "-o", "json"]).await.unwrap();
            let Ok(status) = serde_json::from_str::<Value>(&output.stdout) else { continue };
            let targets = status["targets"].as_array().cloned().unwrap_or_default();
            return targets.into_iter().find(|it| it["provider"] == provider).unwrap_or_default();
        }
        Value::Null
    }

    /// Waits until a target stands so, and gives how.
    async fn until(&self, provider: &str, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let target = self.stands(provider).await;
                if so(&target) {
                    return target;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        match within(LIMIT, what, waiting).await {
            Ok(target) => target,
            Err(error) => panic!("{error}: {:#}", self.stands(provider).await),
        }
    }

    async fn is(&self, provider: &str, state: &str) -> Value {
        self.until(provider, state, |target| target["state"] == state).await
    }

    async fn found(&self, provider: &str, health: &str) -> Value {
        self.until(provider, health, |target| target["health"]["is"] == health).await
    }

    /// The sample of a metric of a data plane.
    async fn metric(&self, plane: usize, line: &str) -> f64 {
        let text = http_get(self.cluster.data_planes[plane].ops(), "/metrics").await.text();
        let found = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }

    /// Waits until a target is in a state (by its number) on these data planes.
    async fn all_have(&self, planes: &[usize], provider: &str, state: f64) {
        let line = format!("sluicegate_breaker_state{{provider=\"{provider}\",model=\"x\"}}");
        let waiting = async {
            for plane in planes {
                while (self.metric(*plane, &line).await - state).abs() > 0.1 {
                    sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let what = format!("{provider} in state {state}");
        within(LIMIT, &what, waiting).await.unwrap();
    }

    fn traffic(&self, model: &'static str) -> Vec<Traffic> {
        let planes = self.cluster.data_planes.iter();
        planes.map(|plane| Traffic::start(plane.traffic(), model, 40)).collect()
    }

    fn number(&self, node: &Value) -> usize {
        self.cluster.data_planes.iter().position(|plane| node == plane.name()).unwrap()
    }
}

fn script(call: &Call, sick: &Sick) -> Vec<Step> {
    let status = sick.lock().unwrap().get(call.cell()).copied();
    match (call.method.as_str(), status) {
        ("GET", status) => Step::json(status.unwrap_or(200), "{}"),
        // A provider that is probed by completions.
        (_, Some(status)) if call.cell().starts_with("costly") => refused(status, "no", "no"),
        _ => good(call, "well"),
    }
}

/// Every request was served.
#[track_caller]
fn all_served(traffic: &[Traffic], from: Instant) {
    for one in traffic {
        let (served, of) = one.served(from, Instant::now());
        assert!(of > 5 && served == of, "{served} of {of}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_one_data_plane_probes_and_all_leave_alone_what_is_ill() {
    let fleet = Fleet::start(&[("m", &["a", "b"])], &[]).await;
    let begun = Instant::now();
    let target = fleet.found("a", "well").await;
    fleet.found("b", "well").await;
    println!("well after {:?}, as {} found", begun.elapsed(), target["health"]["prober"]);
    let traffic = fleet.traffic("m");
    // Whoever came last has been chosen by now, where it was to be.
    sleep(Duration::from_secs(2)).await;
    let before = fleet.calls("a", "GET");
    sleep(INTERVAL * 10).await;
    let probes = fleet.calls("a", "GET") - before;
    println!("{probes} probes of one target in 10 intervals, of 3 data planes");
    assert!((9..=11).contains(&probes), "{probes}");
    let probe = fleet.upstream.calls(|call| call.method == "GET").pop().unwrap();
    assert_eq!((probe.target.ends_with("/health"), probe.header("authorization")), (true, None));

    let (ill, before) = (Instant::now(), fleet.calls("a", "GET"));
    fleet.answers("a", 503);
    let target = fleet.is("a", "open").await;
    println!("open {:?} and {} probes later", ill.elapsed(), fleet.calls("a", "GET") - before);
    assert!(fleet.calls("a", "GET") - before >= FALL as usize);
    assert!(ill.elapsed() < INTERVAL * (FALL + 1) + Duration::from_secs(4), "{:?}", ill.elapsed());
    assert_eq!(target["reason"], "health probe: 503");
    assert_eq!(
        (&target["health"]["is"], &target["health"]["reason"]),
        (&json!("ill"), &json!("503"))
    );
    fleet.all_have(&[0, 1, 2], "a", 4.0).await;
    // What was on its way arrives.
    sleep(Duration::from_millis(300)).await;
    let sent = fleet.calls("a", "POST");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.calls("a", "POST"), sent, "all leave it alone");

    let well = Instant::now();
    fleet.heals("a");
    fleet.is("a", "ramping").await;
    println!("ramping {:?} after it was well again", well.elapsed());
    assert!(well.elapsed() >= INTERVAL * (RISE - 1));
    fleet.is("a", "closed").await;
    println!("all traffic is back {:?} after", well.elapsed());
    fleet.all_have(&[0, 1, 2], "a", 0.0).await;
    assert!(fleet.calls("a", "POST") > sent);
    all_served(&traffic, begun);
    let mut sums = BTreeMap::new();
    for result in ["well", "ill", "unclear"] {
        let line = format!(
            "sluicegate_health_probes_total{{provider=\"a\",model=\"x\",result=\"{result}\"}}"
        );
        for plane in 0..3 {
            *sums.entry(result).or_insert(0.0) += fleet.metric(plane, &line).await;
        }
    }
    println!("counted: {sums:?}");
    assert!(sums["well"] >= 10.0 && sums["ill"] >= f64::from(FALL));
    assert!(sums["unclear"].abs() < 0.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_a_prober_that_dies_is_replaced_and_its_word_holds_until_then() {
    let fleet = Fleet::start(&[("m", &["a", "b"])], &[]).await;
    fleet.found("a", "well").await;
    sleep(Duration::from_secs(2)).await;
    fleet.answers("a", 503);
    let target = fleet.is("a", "open").await;
    let prober = target["health"]["prober"].clone();
    let number = fleet.number(&prober);
    let others: Vec<usize> = (0..3).filter(|plane| *plane != number).collect();
    fleet.all_have(&others, "a", 4.0).await;
    let (sent, killed) = (fleet.calls("a", "POST"), Instant::now());
    fleet.cluster.data_planes[number].kill().unwrap();
    let traffic: Vec<_> = fleet.traffic("m").into_iter().enumerate().collect();
    let traffic: Vec<_> =
        traffic.into_iter().filter(|(n, _)| *n != number).map(|it| it.1).collect();
    let target = fleet
        .until("a", "another prober", |target| {
            assert_eq!(target["state"], "open", "the last word holds");
            let health = &target["health"];
            health["prober"].is_string() && health["prober"] != prober && health["is"] == "ill"
        })
        .await;
    let took = killed.elapsed();
    println!("{prober} was killed; {} finds it ill {took:?} later", target["health"]["prober"]);
    assert!(took < Duration::from_secs(15), "{took:?}");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fleet.stands("a").await["state"], "open");
    assert_eq!(fleet.calls("a", "POST"), sent, "nobody has sent it anything");
    let before = fleet.calls("a", "GET");
    sleep(INTERVAL * 10).await;
    let probes = fleet.calls("a", "GET") - before;
    println!("then {probes} probes in 10 intervals");
    assert!((9..=11).contains(&probes), "{probes}");
    fleet.heals("a");
    let healed = Instant::now();
    fleet.is("a", "closed").await;
    println!("closed {:?} after it was well again", healed.elapsed());
    all_served(&traffic, killed + Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_without_any_control_plane_each_data_plane_probes_for_itself() {
    let mut fleet = Fleet::start(&[("m", &["a", "b"])], &[]).await;
    fleet.found("a", "well").await;
    fleet.found("b", "well").await;
    let (traffic, begun) = (fleet.traffic("m"), Instant::now());
    for plane in &fleet.cluster.control_planes {
        plane.kill().unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    let before = fleet.calls("a", "GET");
    sleep(INTERVAL * 10).await;
    let probes = fleet.calls("a", "GET") - before;
    println!("{probes} probes in 10 intervals, of 3 data planes that are alone");
    assert!((27..=33).contains(&probes), "{probes}");
    let ill = Instant::now();
    fleet.answers("a", 503);
    fleet.all_have(&[0, 1, 2], "a", 4.0).await;
    println!("each left it alone within {:?}", ill.elapsed());
    sleep(Duration::from_millis(300)).await;
    let sent = fleet.calls("a", "POST");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.calls("a", "POST"), sent);
    // Both ill: neither is left alone.
    fleet.answers("b", 503);
    fleet.all_have(&[0, 1, 2], "a", 0.0).await;
    fleet.all_have(&[0, 1, 2], "b", 0.0).await;
    fleet.heals("b");
    fleet.all_have(&[0, 1, 2], "a", 4.0).await;
    fleet.heals("a");
    let healed = Instant::now();
    fleet.all_have(&[0, 1, 2], "a", 0.0).await;
    println!("each uses it again {:?} after it was well", healed.elapsed());
    for plane in &mut fleet.cluster.control_planes {
        plane.restart().await.unwrap();
    }
    fleet.found("a", "well").await;
    // By now each has found its way back to a control plane.
    sleep(Duration::from_secs(7)).await;
    let before = fleet.calls("a", "GET");
    sleep(INTERVAL * 10).await;
    let probes = fleet.calls("a", "GET") - before;
    println!("and {probes} once control planes are back");
    assert!((9..=11).contains(&probes), "{probes}");
    all_served(&traffic, begun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_probes_that_are_wrong_take_nothing_down() {
    let models: [(&str, &[&str]); 3] =
        [("m", &["a", "b"]), ("alone", &["lost"]), ("idle", &["costly"])];
    let fleet = Fleet::start(&models, &["costly"]).await;
    for provider in ["a", "b", "lost", "costly"] {
        fleet.found(provider, "well").await;
    }
    let begun = Instant::now();
    let traffic: Vec<_> = ["m", "alone"].into_iter().flat_map(|it| fleet.traffic(it)).collect();
    // The path is wrong.
    fleet.answers("lost", 404);
    let target = fleet
        .until("lost", "404", |target| {
            target["health"]["reason"] == "404: the path is wrong"
                && target["health"]["is"] == "unknown"
        })
        .await;
    assert_eq!(target["state"], "closed");
    // One is ill, then all that could stand in for it.
    fleet.answers("a", 503);
    fleet.is("a", "open").await;
    fleet.answers("b", 503);
    let ill = Instant::now();
    fleet.found("b", "ill").await;
    fleet.is("a", "closed").await;
    println!("both are ill, and used, {:?} later", ill.elapsed());
    fleet.all_have(&[0, 1, 2], "a", 0.0).await;
    sleep(INTERVAL * 10).await;
    for provider in ["a", "b"] {
        let target = fleet.stands(provider).await;
        assert_eq!((&target["state"], &target["health"]["is"]), (&json!("closed"), &json!("ill")));
    }
    fleet.heals("b");
    fleet.is("a", "open").await;
    // Without a path a completion of one token is asked for.
    let before = fleet.calls("costly", "POST");
    sleep(INTERVAL * 10).await;
    let probes = fleet.calls("costly", "POST") - before;
    println!("{probes} completions in 10 intervals");
    assert!((9..=11).contains(&probes), "{probes}");
    let last = fleet.upstream.calls(|call| call.cell() == "costly").pop().unwrap();
    let body: Value = serde_json::from_slice(&last.body).unwrap();
    assert_eq!((&body["max_tokens"], &body["model"]), (&json!(1), &json!("x")));
    fleet.answers("costly", 429);
    sleep(INTERVAL * (FALL + 2)).await;
    assert_eq!(fleet.stands("costly").await["state"], "closed", "a limit is no illness");
    fleet.answers("costly", 503);
    let target = fleet.is("costly", "open").await;
    println!("{}", target["reason"]);
    all_served(&traffic, begun);
}
