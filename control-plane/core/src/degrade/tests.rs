use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use http::Uri;
use sluicegate_model::{
    Resource,
    document::{Document, References},
    resource::degradation::Level,
};
use sluicegate_protocol::degrade::Directive;
use tokio::time::{sleep, timeout};

use super::*;
use crate::state::Stored;

const TEXT: &str = "providers:
  - { name: local, dialect: openai-chat, base_url: \"http://gpu-7:8000/v1\", keyless: true }
degradations:
  - name: memory
    sources: [{ provider: local, interval_ms: 1000 }]
    levels: [{ level: 2, enter_when: max(vllm:gpu_cache_usage_perc) > 0.85, leave_when: max(vllm:gpu_cache_usage_perc) < 0.7 }]
";

/// Answers in order, and the last one for ever.
#[derive(Debug)]
struct Played {
    answers: Mutex<VecDeque<Result<Vec<u8>, &'static str>>>,
    asked: watch::Sender<Vec<String>>,
}

#[async_trait]
impl Scraper for Played {
    async fn scrape(&self, url: &Uri, limit: usize) -> Result<Bytes, String> {
        assert_eq!(limit, MAX_BODY);
        self.asked.send_modify(|asked| asked.push(url.to_string()));
        let answer = {
            let mut answers = self.answers.lock().expect("nobody panics with it");
            let last = answers.len() == 1;
            if last { answers.front().cloned() } else { answers.pop_front() }
        };
        match answer {
            Some(Ok(body)) => Ok(body.into()),
            Some(Err("silence")) => std::future::pending().await,
            Some(Err(reason)) => Err(reason.to_owned()),
            None => Err("nothing is played".to_owned()),
        }
    }
}

struct World {
    degrade: Arc<Degrade>,
    states: watch::Sender<Arc<State>>,
    leader: watch::Sender<bool>,
    asked: watch::Receiver<Vec<String>>,
    _task: AbortOnDrop<()>,
}

fn state(text: &str) -> Arc<State> {
    let document = Document::parse("f", text, References::Closed).expect("it is valid");
    let stored = document.resources.iter().map(|declared| {
        let parsed = Resource::parse(&declared.resource).expect("it is valid");
        let stored =
            Stored { version: 1, wire: declared.resource.clone(), bytes: Bytes::new(), parsed };
        (declared.reference.clone(), Arc::new(stored))
    });
    Arc::new(State {
        epoch: Bytes::new(),
        revision: 1,
        head: 1,
        sequence: 1,
        resources: stored.collect(),
        broken: std::collections::BTreeMap::new(),
    })
}

fn world(leads: bool, answers: Vec<Result<Vec<u8>, &'static str>>) -> World {
    let states = watch::Sender::new(state(TEXT));
    let leader = watch::Sender::new(leads);
    let asked = watch::Sender::new(Vec::new());
    let degrade = Arc::new(Degrade::new(leader.subscribe()));
    let scraper = Played { answers: Mutex::new(answers.into()), asked: asked.clone() };
    let working = degrade.clone().work(states.subscribe(), Arc::new(scraper));
    let task = AbortOnDrop(task::spawn("degrade", working));
    World { degrade, states, leader, asked: asked.subscribe(), _task: task }
}

impl World {
    /// Waits until the level of the degradation is this; `None`: until it is not told.
    async fn reaches(&self, wanted: Option<u32>) -> Arc<Levels> {
        let mut levels = self.degrade.subscribe();
        let level = |levels: &Arc<Levels>| levels.get("memory").map(|one| one.level.number());
        let reached = levels.wait_for(|levels| level(levels) == wanted);
        let reached = timeout(Duration::from_secs(60), reached).await;
        reached.expect("it comes in time").expect("it goes on").clone()
    }
}

fn memory(share: f64) -> Result<Vec<u8>, &'static str> {
    Ok(format!("vllm:gpu_cache_usage_perc{{engine=\"0\"}} {share}\n").into_bytes())
}

#[tokio::test(start_paused = true)]
async fn b4_what_a_server_says_of_its_memory_makes_the_level() {
    let world = world(true, vec![memory(0.5), memory(0.9), Err("503"), memory(0.8), memory(0.6)]);
    world.reaches(Some(0)).await;
    let levels = world.reaches(Some(2)).await;
    let told: Vec<_> = again(&levels).collect();
    let expected = Directive { name: "memory".into(), level: Level::AllTools, ttl_ms: TTL_MS };
    assert_eq!(told, [expected]);
    let condition = "max(vllm:gpu_cache_usage_perc) > 0.85".to_owned();
    let values = vec![("max(vllm:gpu_cache_usage_perc)".to_owned(), 0.9)];
    assert_eq!(levels["memory"].reason, Reason::Readings { condition, values });
    assert_eq!(again(&*world.reaches(Some(0)).await).count(), 0);
    assert_eq!(world.asked.borrow()[0], "http://gpu-7:8000/metrics");
    assert!(world.asked.borrow().len() >= 5);
}

#[tokio::test(start_paused = true)]
async fn b4_silence_nonsense_and_floods_change_nothing() {
    let flood = Ok(vec![b'\n'; MAX_BODY + 1]);
    let html = Ok(b"<html>".to_vec());
    let world = world(true, vec![memory(0.9), Err("silence"), flood, html, memory(0.6)]);
    world.reaches(Some(2)).await;
    let mut asked = world.asked.clone();
    let fourth = timeout(Duration::from_secs(60), asked.wait_for(|asked| asked.len() == 4)).await;
    fourth.expect("silence ends").expect("it goes on");
    let held = world.degrade.subscribe().borrow()["memory"].level;
    assert_eq!(held, Level::AllTools);
    world.reaches(Some(0)).await;
}

#[tokio::test(start_paused = true)]
async fn b4_only_the_leader_reads_and_publishes() {
    let world = world(false, vec![memory(0.9)]);
    sleep(Duration::from_secs(10)).await;
    assert!(world.asked.borrow().is_empty() && world.degrade.subscribe().borrow().is_empty());
    world.leader.send_replace(true);
    world.reaches(Some(2)).await;
    world.leader.send_replace(false);
    world.reaches(None).await;
    let count = world.asked.borrow().len();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.asked.borrow().len(), count, "it reads no more");
    world.leader.send_replace(true);
    world.reaches(Some(2)).await;
}

#[tokio::test(start_paused = true)]
async fn b4_changes_are_followed_at_once() {
    let world = world(true, vec![memory(0.8)]);
    world.reaches(Some(0)).await;
    world.states.send_replace(state(&TEXT.replace("0.85", "0.75")));
    world.reaches(Some(2)).await;
    let elsewhere = TEXT.replace("gpu-7", "gpu-8");
    world.states.send_replace(state(&elsewhere));
    let mut asked = world.asked.clone();
    let moved = asked.wait_for(|asked| asked.last().is_some_and(|url| url.contains("gpu-8")));
    timeout(Duration::from_secs(60), moved).await.expect("it moves").expect("it goes on");
    let (providers, _) = TEXT.split_once("degradations").expect("it has some");
    world.states.send_replace(state(providers));
    world.reaches(None).await;
}

/// What a data plane tells.
fn report(sequence: u64, timeouts: u32, open: bool) -> pb::ReportRequest {
    let breaker = pb::Breaker {
        model: "m".into(),
        provider: "local".into(),
        upstream_model: "m".into(),
        open,
    };
    pb::ReportRequest {
        node_id: "n".into(),
        incarnation: 1,
        sequence,
        tool_timeouts: vec![pb::ToolTimeouts {
            model: "m".into(),
            tenants: Vec::new(),
            count: timeouts,
        }],
        breakers: Some(pb::Breakers { breakers: vec![breaker] }),
    }
}

#[tokio::test(start_paused = true)]
async fn b4_what_data_planes_see_makes_the_level() {
    for (condition, reports, level) in [
        ("tool_timeouts >= 2", vec![report(1, 1, false), report(2, 1, false)], Some(2)),
        ("tool_timeouts >= 2", vec![report(1, 1, false), report(1, 1, false)], Some(0)),
        ("breaker_open > 0", vec![report(1, 0, true)], Some(2)),
        ("breaker_open > 0", vec![report(1, 0, true), report(2, 0, false)], Some(0)),
    ] {
        let world = world(true, vec![memory(0.5)]);
        let (head, _) = TEXT.split_once("    sources").expect("it has some");
        let levels = format!("    levels: [{{ level: 2, enter_when: {condition} }}]\n");
        world.states.send_replace(state(&format!("{head}{levels}")));
        world.reaches(Some(0)).await;
        for report in reports {
            world.degrade.report(report).expect("it is one");
        }
        sleep(Duration::from_secs(3)).await;
        world.reaches(level).await;
    }
    let world = world(true, vec![memory(0.5)]);
    assert!(matches!(
        world.degrade.report(pb::ReportRequest::default()),
        Err(CoreError::Invalid(_))
    ));
}
